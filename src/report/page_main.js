'use strict';
// The summary, and the order in which the parts are made.

const makeTiles = () => {
  const ended = run.ok + run.failed + run.timedOut;
  const failed = run.failed + run.timedOut;
  const tile = (name, value, small, look) =>
    html(
      'div',
      { class: look ? `tile ${look}` : 'tile' },
      html('dt', null, name),
      html('dd', null, value, html('small', null, small || '')),
    );
  const join = (...parts) => parts.filter(Boolean).join(', ');
  byId('tiles').append(
    tile(
      `${capital(texts.items)} ended`,
      count(ended),
      join(
        `in ${run.groupsCounted ? '' : 'more than '}` +
          counted(run.groups, texts.group, texts.groups),
        run.notRun ? `${count(run.notRun)} not run` : '',
        run.resumedPast ? `${count(run.resumedPast)} done before` : '',
      ),
    ),
    tile(
      'Ok',
      count(run.ok),
      join(
        ended ? percent(run.ok / ended) : '',
        run.okAfterRetry ? `${count(run.okAfterRetry)} after a retry` : '',
      ),
    ),
    tile(
      'Failed',
      count(failed),
      join(
        run.timedOut ? `${count(run.timedOut)} timed out` : '',
        run.retries ? `${counted(run.retries, 'try', 'tries')} repeated` : '',
        run.cancelled ? `${count(run.cancelled)} cancelled` : '',
      ),
      failed ? 'bad' : '',
    ),
    tile('Elapsed', duration(run.elapsed), rate(ended, run.elapsed)),
    tile(
      'Ran at once',
      digits(run.busy / wholeRun),
      join('on average', run.places ? `of ${count(run.places)}` : ''),
    ),
    tile(
      'Running, median',
      duration(run.run[0]),
      `p95 ${duration(run.run[1])}, max ${duration(run.run[3])}`,
    ),
    tile(
      'Waiting, median',
      duration(run.wait[0]),
      `p95 ${duration(run.wait[1])}, max ${duration(run.wait[3])}`,
    ),
  );
};

// What the run could not have been shorter than, and what that says.
const makeBound = () => {
  const bound = run.bound;
  const part = Math.min(bound.needed / wholeRun, 1);
  const box = byId('bound');
  if (bound.kind === 'none' || bound.needed === 0) {
    box.hidden = true;
    return;
  }
  const needed = duration(bound.needed),
    whole = duration(run.elapsed);
  const name = html('b', null, bound.name);
  const text = {
    group: [
      `Bound by ${texts.group} `,
      name,
      `: with its limit of ${count(bound.limit)}, its ${counted(bound.attempts, 'try', 'tries')} ` +
        `need at least ${needed} of the ${whole}. ` +
        'A higher limit or shorter work there would help most.',
    ],
    places: [
      `Bound by the ${count(bound.limit)} places: all work together needs at least ${needed} ` +
        `of the ${whole} in them. ` +
        'More places would help most, if the machine has room.',
    ],
    item: [
      `Bound by one ${texts.item}: `,
      name,
      ` alone ran ${needed} of the ${whole}. No limit can make the run shorter than that.`,
    ],
  }[bound.kind];
  const weak =
    part < 0.5
      ? [
          `No limit bound this run: the most that any of them needs is ${needed} of the ${whole}`,
          bound.kind === 'group'
            ? [` (${texts.group} `, name, ')']
            : bound.kind === 'item'
              ? [` (${texts.item} `, name, ')']
              : '',
          '.',
        ]
      : text;
  const bar = html('i');
  bar.style.width = `${(100 * part).toFixed(1)}%`;
  box.append(
    html('p', null, weak.flat()),
    html('div', { class: 'gauge', role: 'img', 'aria-label': `${percent(part)} of the run` }, bar),
  );
};

const makePage = () => {
  if (run.note) {
    byId('note').hidden = false;
    byId('note').textContent = run.note;
  }
  makeTiles();
  if (run.attempts === 0) {
    for (const id of ['over-time', 'timeline', 'groups', 'slowest', 'bound'])
      byId(id).hidden = true;
    byId('nav').hidden = true;
    return;
  }
  makeBound();
  makeFailures();
  makeCharts();
  makeGroups();
  makeSlowest();
  makeTimeline();
  for (const section of document.querySelectorAll('main section[aria-labelledby]:not([hidden])')) {
    byId('nav').append(
      html('a', { href: `#${section.id}` }, section.querySelector('h2').textContent),
    );
  }
  for (const chart of charts) drawChart(chart);
  let width = innerWidth;
  addEventListener('resize', () => {
    if (innerWidth === width) return;
    width = innerWidth;
    hideTip();
    for (const chart of charts) drawChart(chart);
    planDraw();
  });
  addEventListener('beforeprint', () => {
    groupsTable.show(100);
    for (const details of document.querySelectorAll('details')) details.open = true;
    lanes.forEach((lane, i) => {
      if (i < 60) drawLane(lane);
      else lane.element.hidden = true;
    });
  });
  addEventListener('afterprint', search);
};

makePage();

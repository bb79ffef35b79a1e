'use strict';
// The tables, which sort by each of their columns, and what failed.

// columns: { name, about, value(row), cell(row), isName, isText }; one without a value does not
// sort.
const makeTable = ({ caption, columns, heads, rows, lastRow, sortBy, most }) => {
  let shown = most;
  let sort = {
    column: columns.find((column) => column.name === sortBy && column.value) || columns[0],
    descending: true,
  };
  let filter = () => true;
  const body = html('tbody');
  const more = html('button', {
    type: 'button',
    class: 'more',
    onclick: () => {
      shown = Infinity;
      draw();
    },
  });
  const lookOf = (column) => (column.isName ? 'name' : column.isText ? 'words' : null);
  const headers = columns.map((column) =>
    html(
      'th',
      { scope: 'col', class: lookOf(column) },
      column.value
        ? html(
            'button',
            {
              type: 'button',
              title: column.about,
              onclick: () => {
                const descending =
                  sort.column === column ? !sort.descending : !(column.isName || column.isText);
                sort = { column, descending };
                draw();
              },
            },
            column.name,
          )
        : column.name,
    ),
  );
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const draw = () => {
    const value = sort.column.value;
    const sorted = rows
      .filter(filter)
      .sort((a, b) => (sort.descending ? -1 : 1) * compare(value(a), value(b)));
    body.replaceChildren(
      ...sorted.slice(0, shown).map((row) =>
        html(
          'tr',
          null,
          columns.map((column) => html('td', { class: lookOf(column) }, column.cell(row))),
        ),
      ),
    );
    if (lastRow && sorted.length <= shown) body.append(lastRow);
    headers.forEach((header, i) => {
      if (!columns[i].value) return;
      if (columns[i] === sort.column)
        header.setAttribute('aria-sort', sort.descending ? 'descending' : 'ascending');
      else header.removeAttribute('aria-sort');
    });
    more.hidden = sorted.length <= shown;
    more.textContent = `Show all ${count(sorted.length)}`;
  };
  draw();
  const element = html(
    'div',
    null,
    html(
      'div',
      { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': caption },
      html(
        'table',
        null,
        html('caption', { class: 'unseen' }, caption),
        html('thead', null, heads ? html('tr', null, heads) : null, html('tr', null, headers)),
        body,
      ),
    ),
    more,
  );
  return {
    element,
    showOnly: (wanted) => {
      filter = wanted;
      draw();
    },
    show: (atLeast) => {
      shown = Math.max(shown, atLeast);
      draw();
    },
  };
};

const numberCell = (n, look) => html('span', { class: n === 0 ? 'zero' : look }, count(n));
const timeCell = (us) => html('span', { class: us === 0 ? 'zero' : null }, duration(us));

// A small distribution; all of them have the same logarithmic axis, from data.axis.low to
// data.axis.high.
const binsCell = (bins, look, name) => {
  const picture = svg('svg', {
    class: 'bins',
    viewBox: '0 0 98 24',
    role: 'img',
    'aria-label': name,
  });
  let path = '';
  for (let i = 0; i < bins.length; ++i) {
    const height = (parseInt(bins[i], 36) / 35) * 22;
    if (height > 0) path += `M${1 + i * 3} 23v${-Math.max(height, 1).toFixed(1)}h2.4V23z`;
  }
  picture.append(
    svg('title', null, name),
    svg('line', { class: 'baseline', x1: 1, x2: 97, y1: 23.5, y2: 23.5 }),
    svg('path', { class: look, d: path }),
  );
  return picture;
};

let groupsTable = null;
const filterGroups = (query) => {
  const matches = (group) => group.name.toLowerCase().includes(query);
  const some = data.groups.some(matches); // else it was meant for something else
  if (groupsTable) groupsTable.showOnly((group) => !some || matches(group));
};

const makeGroups = () => {
  const times = (which, look) => {
    const names = ['p50', 'p95', 'p99', 'max'];
    return names
      .map((name, i) => ({
        name,
        value: (group) => group[which][i],
        cell: (group) => timeCell(group[which][i]),
        about: `Sort by the ${name} of ${which === 'wait' ? 'waiting' : 'running'}`,
      }))
      .concat({
        name: 'spread',
        cell: (group) =>
          binsCell(
            group[`${which}Bins`],
            look,
            `${which === 'wait' ? 'waiting' : 'running'}: median ${duration(group[which][0])}, ` +
              `99 % up to ${duration(group[which][2])}`,
          ),
      });
  };
  const failedOf = (group) => group.failed + group.timedOut;
  const columns = [
    {
      name: capital(texts.group),
      isName: true,
      value: (group) => group.name.toLowerCase(),
      cell: (group) => html('span', { title: group.name }, group.name, group.partial ? ' *' : ''),
    },
    {
      name: 'limit',
      value: (group) => group.limit,
      cell: (group) => (group.limit ? count(group.limit) : '–'),
    },
    {
      name: 'tries',
      value: (group) => group.attempts,
      cell: (group) => numberCell(group.attempts),
    },
    { name: 'failed', value: failedOf, cell: (group) => numberCell(failedOf(group), 'bad-count') },
    {
      name: 'busy',
      about: 'Sort by the sum of the running times',
      value: (group) => group.busy,
      cell: (group) => timeCell(group.busy),
    },
    ...times('wait', 'wait-bin'),
    ...times('run', 'run'),
  ];
  const heads = [
    html('th', { class: 'name' }),
    html('th', { colspan: 4 }, capital(texts.items)),
    html('th', { colspan: 5 }, 'Waiting'),
    html('th', { colspan: 5 }, 'Running'),
  ];
  let lastRow = null;
  if (data.others) {
    const others = { name: `all other ${texts.groups}`, limit: 0, partial: 0, ...data.others };
    lastRow = html(
      'tr',
      { class: 'others' },
      columns.map((column) =>
        html('td', { class: column.isName ? 'name' : null }, column.cell(others)),
      ),
    );
  }
  groupsTable = makeTable({
    caption: `Waiting and running times by ${texts.group}`,
    columns,
    heads,
    rows: data.groups.slice(),
    lastRow,
    sortBy: 'busy',
    most: 25,
  });
  byId('groups-title').textContent = `Times by ${texts.group}`;
  byId('groups-about').textContent =
    'Quantiles are within 3 %. The small pictures show how the times spread, all on one ' +
    `logarithmic axis from ${duration(data.axis.low)} to ` +
    `${duration(data.axis.high)}.` +
    (data.groups.some((group) => group.partial)
      ? ` There are more ${texts.groups} than are counted one by one; those marked * may have ` +
        'had some tries before they were.'
      : '');
  byId('groups-table').append(groupsTable.element);
};

const makeSlowest = () => {
  const rows = [...new Set([...data.longestRuns, ...data.longestWaits])].map(attemptAt);
  const canGo = (row) => row.group < data.lanes;
  const columns = [
    {
      name: capital(texts.item),
      isName: true,
      value: (row) => row.id.toLowerCase(),
      cell: (row) =>
        canGo(row)
          ? html(
              'button',
              {
                type: 'button',
                class: 'link',
                title: `${row.id}: show in the timeline`,
                onclick: () => locate(row.index),
              },
              row.id,
            )
          : html('span', { title: row.id }, row.id),
    },
    { name: 'ran', value: (row) => row.run, cell: (row) => timeCell(row.run) },
    { name: 'waited', value: (row) => row.wait, cell: (row) => timeCell(row.wait) },
    { name: 'began after', value: (row) => row.start, cell: (row) => timeCell(row.start) },
    { name: 'try', value: (row) => row.attempt, cell: (row) => String(row.attempt) },
    {
      name: 'outcome',
      isText: true,
      value: (row) => row.outcome,
      cell: (row) => outcomeElement(row.outcome),
    },
    {
      name: texts.group,
      isText: true,
      value: (row) => groupNames[row.group].toLowerCase(),
      cell: (row) =>
        html('span', { title: groupNames[row.group] }, groupNames[row.group].slice(0, 60)),
    },
  ];
  const table = makeTable({
    caption: `Slowest ${texts.items}`,
    columns,
    rows,
    sortBy: 'ran',
    most: 20,
  });
  byId('slowest-title').textContent = `Slowest ${texts.items}`;
  byId('slowest-about').textContent =
    `The ${items(data.longestRuns.length)} that ran longest` +
    (data.longestWaits.length
      ? ` and the ${count(data.longestWaits.length)} that waited longest.`
      : '.');
  byId('slowest-table').append(table.element);
};

// Colours of terminals and other control characters do not help here.
const plainText = (output) =>
  output
    .replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, '')
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '');

const makeFailures = () => {
  const failed = run.failed + run.timedOut;
  if (failed === 0) return;
  const first = 5;
  byId('failed').hidden = false;
  byId('failed-title').textContent = `Failed: ${items(failed)}`;
  const listed = data.failures.length;
  byId('failed-about').textContent =
    listed < failed
      ? `The first ones and the last ones: ${count(listed)} of ${count(failed)}.`
      : '';
  const list = byId('failures');
  const entry = (failure, i) => {
    const attempt = attemptAt(failure.at);
    const output = plainText(failure.output).trimEnd();
    const rest = [
      `${texts.group} ${groupNames[attempt.group]}`,
      attempt.attempt > 1 ? `${attempt.attempt} tries` : '',
      `ran ${duration(attempt.run)}`,
      `ended after ${duration(attempt.end)}`,
    ];
    return html(
      'details',
      { class: 'failure', open: i < 3 && output !== '' },
      html(
        'summary',
        null,
        html('b', null, attempt.id),
        html('span', { class: 'why' }, exitText(attempt)),
        html('span', { class: 'rest' }, rest.filter(Boolean).join(' · ')),
      ),
      html(
        'div',
        { class: 'inside' },
        output
          ? html('pre', { tabindex: 0 }, output)
          : html('p', { class: 'rest' }, 'No error output was recorded.'),
        attempt.group < data.lanes
          ? html(
              'button',
              { type: 'button', class: 'link', onclick: () => locate(attempt.index) },
              'Show in the timeline',
            )
          : null,
      ),
    );
  };
  list.append(...data.failures.slice(0, first).map(entry));
  if (listed > first) {
    const more = html(
      'button',
      {
        type: 'button',
        class: 'more',
        onclick: () => {
          more.remove();
          list.append(...data.failures.slice(first).map((failure, i) => entry(failure, i + first)));
        },
      },
      `Show all ${count(listed)}`,
    );
    list.append(more);
  }
};

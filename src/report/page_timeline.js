'use strict';
// Moving about in the timeline: zoom, search, details of a bar, pointer and keys.

let tipBar = null; // the bar whose details are shown
let tipKept = false;

const showPart = (from, to) => {
  const span = Math.min(Math.max(to - from, Math.min(50, wholeRun)), wholeRun);
  view.from = Math.min(Math.max((from + to - span) / 2, 0), wholeRun - span);
  view.to = view.from + span;
  const whole = span >= wholeRun;
  byId('zoom-out').disabled = whole;
  byId('zoom-all').disabled = whole;
  byId('earlier').disabled = view.from <= 0;
  byId('later').disabled = view.to >= wholeRun;
  planDraw();
};
const middleOfView = () => {
  const bar = current && current.lane.bars[current.place];
  const isSeen = bar && bar.end >= view.from && bar.start <= view.to;
  return isSeen
    ? Math.min(Math.max((bar.start + bar.end) / 2, view.from), view.to)
    : (view.from + view.to) / 2;
};
const zoom = (factor, at = middleOfView()) =>
  showPart(at - (at - view.from) * factor, at + (view.to - at) * factor);
const move = (part) => {
  const by = (view.to - view.from) * part;
  const step = Math.min(Math.max(by, -view.from), wholeRun - view.to);
  showPart(view.from + step, view.to + step);
};

const outcomeElement = (outcome) =>
  html('span', { class: 'outcome' }, swatch(outcome), outcomes[outcome].name);

const placeTip = () => {
  const tip = byId('tip');
  const near = tipBar.node.getBoundingClientRect();
  const box = tip.getBoundingClientRect();
  const left = Math.min(Math.max(near.left, 8), innerWidth - box.width - 8);
  const below = near.bottom + 8;
  const top = below + box.height < innerHeight ? below : Math.max(near.top - box.height - 8, 8);
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
};
const showTip = (bar) => {
  const tip = byId('tip');
  if (tipBar === bar && !tip.hidden) return;
  const row = (name, value) => [html('dt', null, name), html('dd', null, value)];
  tip.replaceChildren(
    html('b', null, bar.id),
    html(
      'p',
      null,
      outcomeElement(bar.outcome),
      bar.outcome === 'o' || bar.outcome === 'c' ? '' : `, ${exitText(bar)}`,
    ),
    html(
      'dl',
      null,
      row(capital(texts.group), groupNames[bar.group]),
      bar.attempt > 1 || bar.outcome === 'r' ? row('Try', String(bar.attempt)) : [],
      row('Waited', duration(bar.wait)),
      row('Ran', duration(bar.run)),
      row('From', `${tickText(bar.start, 1e3)} (${clock(bar.start)})`),
      row('To', `${tickText(bar.end, 1e3)} (${clock(bar.end)})`),
    ),
  );
  tip.hidden = false;
  tipBar = bar;
  placeTip();
};
const hideTip = () => {
  tipKept = false;
  tipBar = null;
  byId('tip').hidden = true;
  byId('tip').classList.remove('kept');
};
// The bar may have moved, or be drawn anew.
const followBar = () => {
  if (!tipBar) return;
  const node = tipBar.node;
  const area = byId('lanes').getBoundingClientRect();
  const box = node && node.getBoundingClientRect();
  if (box && box.bottom > Math.max(area.top, 0) && box.top < Math.min(area.bottom, innerHeight))
    placeTip();
  else hideTip();
};
const keepTip = () => {
  if (!tipBar) return;
  tipKept = true;
  byId('tip').classList.add('kept');
};
const describe = (bar) =>
  `${bar.id}, ${texts.group} ${groupNames[bar.group]}: ${outcomes[bar.outcome].name}, ` +
  `waited ${duration(bar.wait)}, ran ${duration(bar.run)}`;

// Makes a bar the current one, and brings it into sight.
const goTo = (lane, place) => {
  hideTip();
  const before = current;
  current = { lane, place };
  if (before && before.lane !== lane) drawLane(before.lane);
  const bar = lane.bars[place];
  if (bar.start < view.from || bar.end > view.to) {
    const span = Math.max(view.to - view.from, Math.min(bar.run * 1.2, wholeRun));
    const middle = (bar.start + bar.end) / 2;
    const from = Math.min(Math.max(middle - span / 2, 0), wholeRun - span);
    showPart(from, from + span);
  }
  if (view.eachRow) setLaneHeight(lane);
  drawLane(lane);
  if (!bar.node) return;
  (view.eachRow ? bar.node : lane.element).scrollIntoView({ block: 'nearest' });
  showTip(bar);
  byId('live').textContent = describe(bar);
};
// The attempt with this place among those that were kept, wherever it is drawn.
const locate = (index) => {
  for (const lane of lanes) {
    const place = lane.bars.findIndex((bar) => bar.index === index);
    if (place < 0) continue;
    byId('search').value = '';
    search();
    byId('timeline').scrollIntoView();
    const bar = lane.bars[place];
    const span = Math.min(Math.max(bar.run * 6, wholeRun / 50), wholeRun);
    const from = Math.min(Math.max(bar.start - span * 0.4, 0), wholeRun - span);
    showPart(from, from + span);
    byId('lanes').focus({ preventScroll: true });
    requestAnimationFrame(() => requestAnimationFrame(() => goTo(lane, place)));
    return;
  }
};

const stepBar = (step) => {
  if (!current) return goToFirst();
  const { lane, place } = current;
  const wanted = lane.matches;
  for (let i = place + step; i >= 0 && i < lane.bars.length; i += step) {
    if (wanted === null || wanted.has(i)) return goTo(lane, i);
  }
};
const goToFirst = () => {
  for (const lane of lanes) {
    if (lane.element.hidden || lane.bars.length === 0) continue;
    return goTo(lane, lane.matches && lane.matches.size ? lane.matches.values().next().value : 0);
  }
};
const stepLane = (step) => {
  if (!current) return goToFirst();
  const bar = current.lane.bars[current.place];
  for (let i = lanes.indexOf(current.lane) + step; i >= 0 && i < lanes.length; i += step) {
    const lane = lanes[i];
    if (lane.element.hidden || lane.bars.length === 0) continue;
    let nearest = 0;
    lane.bars.forEach((other, place) => {
      if (Math.abs(other.start - bar.start) < Math.abs(lane.bars[nearest].start - bar.start))
        nearest = place;
    });
    return goTo(lane, nearest);
  }
};

const search = () => {
  const query = byId('search').value.trim().toLowerCase();
  let bars = 0,
    shown = 0;
  for (const lane of lanes) {
    const inGroup = lane.group.name.toLowerCase().includes(query);
    lane.matches = null;
    if (query && !inGroup) {
      lane.matches = new Set();
      lane.bars.forEach((bar, i) => {
        if (bar.id.toLowerCase().includes(query)) lane.matches.add(i);
      });
    }
    const found = lane.matches === null ? lane.bars.length : lane.matches.size;
    lane.element.hidden = Boolean(query) && !inGroup && found === 0;
    if (!lane.element.hidden) {
      ++shown;
      bars += found;
    }
  }
  byId('search-result').textContent = query
    ? `${counted(bars, 'bar', 'bars')} in ${counted(shown, texts.group, texts.groups)}`
    : '';
  filterGroups(query);
  planDraw();
};

const listenToPointer = () => {
  const box = byId('lanes');
  const barAt = (target) => {
    const row = target.closest('.lane');
    const lane = row && lanes.find((one) => one.element === row);
    const place = target.dataset && target.dataset.bar;
    return lane && place !== undefined ? { lane, place: Number(place) } : null;
  };
  let drag = null;
  box.addEventListener('pointerdown', (event) => {
    const plot = event.target.closest('.lane svg');
    if (!plot || event.button !== 0) return;
    drag = {
      plot,
      x: event.clientX,
      from: view.from,
      to: view.to,
      moved: false,
      id: event.pointerId,
    };
  });
  box.addEventListener('pointermove', (event) => {
    if (drag) {
      const by = ((drag.x - event.clientX) / drag.plot.clientWidth) * (drag.to - drag.from);
      if (!drag.moved && Math.abs(event.clientX - drag.x) > 4 && view.to - view.from < wholeRun) {
        drag.moved = true;
        drag.plot.setPointerCapture(drag.id);
        drag.plot.classList.add('dragged');
        hideTip();
      }
      if (drag.moved) {
        const step = Math.min(Math.max(by, -drag.from), wholeRun - drag.to);
        showPart(drag.from + step, drag.to + step);
        return;
      }
    }
    if (tipKept || event.pointerType === 'touch') return;
    const over = barAt(event.target);
    if (over) showTip(over.lane.bars[over.place]);
    else if (!current || tipBar !== current.lane.bars[current.place]) hideTip();
  });
  const end = (event) => {
    if (drag && !drag.moved && event.type === 'pointerup') {
      const over = barAt(event.target);
      if (over) {
        goTo(over.lane, over.place);
        keepTip();
      } else hideTip();
    }
    if (drag) drag.plot.classList.remove('dragged');
    drag = null;
  };
  box.addEventListener('pointerup', end);
  box.addEventListener('pointercancel', end);
  box.addEventListener('pointerleave', () => {
    if (!tipKept) hideTip();
  });
  box.addEventListener('scroll', followBar, { passive: true });
  addEventListener('scroll', followBar, { passive: true });
  box.addEventListener(
    'wheel',
    (event) => {
      const plot = event.target.closest('.lane svg, .axis svg');
      if (!plot) return;
      if (event.ctrlKey || event.metaKey) {
        const area = plot.getBoundingClientRect();
        const at = view.from + ((event.clientX - area.left) / area.width) * (view.to - view.from);
        event.preventDefault();
        zoom(Math.exp(event.deltaY * 0.002), at);
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        if (view.to - view.from >= wholeRun) return;
        event.preventDefault();
        move((event.deltaX || event.deltaY) / 1000);
      }
    },
    { passive: false },
  );
};

const listenToKeys = () => {
  byId('lanes').addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowLeft: () => (event.shiftKey ? move(-0.25) : stepBar(-1)),
      ArrowRight: () => (event.shiftKey ? move(0.25) : stepBar(1)),
      ArrowUp: () => stepLane(-1),
      ArrowDown: () => stepLane(1),
      '+': () => zoom(0.5),
      '=': () => zoom(0.5),
      '-': () => zoom(2),
      0: () => showPart(0, wholeRun),
      Enter: keepTip,
      Escape: hideTip,
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  byId('lanes').addEventListener('blur', () => {
    if (!tipKept) hideTip();
  });
  addEventListener('keydown', (event) => {
    if (event.key === 'Escape') hideTip();
  });
  byId('zoom-in').addEventListener('click', () => zoom(0.5));
  byId('zoom-out').addEventListener('click', () => zoom(2));
  byId('zoom-all').addEventListener('click', () => showPart(0, wholeRun));
  byId('earlier').addEventListener('click', () => move(-0.5));
  byId('later').addEventListener('click', () => move(0.5));
  byId('search').addEventListener('input', search);
  byId('search').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    byId('lanes').focus();
    goToFirst();
  });
  byId('each-row').addEventListener('change', () => {
    view.eachRow = byId('each-row').checked;
    for (const lane of lanes) setLaneHeight(lane);
    planDraw();
  });
};

const makeLegend = () => {
  const used = new Set(data.kept.outcome);
  for (const [letter, outcome] of Object.entries(outcomes)) {
    if (used.has(letter)) byId('legend').append(html('li', null, swatch(letter), outcome.name));
  }
  const sample = (look) => {
    const mark = svg('svg', { width: 22, height: 12, 'aria-hidden': 'true' });
    mark.append(svg('rect', { class: look, x: 1, y: 0, width: 20, height: 12 }));
    return mark;
  };
  byId('legend').append(html('li', null, sample('wait'), 'waiting for its turn'));
  if (data.groups.some((group) => group.strip)) {
    byId('legend').append(
      html('li', null, sample('strip'), 'how many ran, with and without a bar'),
    );
  }
};

const makeTimeline = () => {
  makeLanes();
  const drawn = lanes.reduce((sum, lane) => sum + lane.bars.length, 0);
  view.eachRow = drawn <= 60;
  byId('each-row').checked = view.eachRow;
  byId('each-row').disabled = drawn > 1500;
  byId('each-row-label').textContent = 'a row for each try';
  for (const lane of lanes) setLaneHeight(lane);
  const left = run.attempts - drawn;
  byId('timeline-about').textContent =
    `Each ${texts.group} is a lane; in it, as many rows as ran at once, or one for each try. ` +
    (left > 0
      ? `Of ${count(run.attempts)} tries, ${count(drawn)} have a bar: the first ones, those that ` +
        'ran or waited longest, and those that failed, as far as there is room. The light shape ' +
        'above the bars is how many ran at once, of all of them.'
      : '');
  const missing = run.groups - data.lanes;
  if (missing > 0) {
    byId('lanes').append(
      html(
        'div',
        { class: 'lane-end' },
        (run.groupsCounted ? '' : 'at least ') +
          `${counted(missing, texts.group, texts.groups)} more with less running time ` +
          `${missing === 1 ? 'is' : 'are'} not drawn`,
      ),
    );
  }
  byId('lanes').setAttribute(
    'aria-label',
    `Timeline of ${counted(data.lanes, texts.group, texts.groups)}`,
  );
  byId('search').placeholder = `${texts.item} or ${texts.group}`;
  makeLegend();
  listenToPointer();
  listenToKeys();
  watchLanes();
  showPart(0, wholeRun);
};

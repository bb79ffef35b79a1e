'use strict';
// The timeline's lanes and how they are drawn: one per group, in it as many rows as ran at once, a
// bar per attempt.

const view = { from: 0, to: wholeRun, eachRow: false };
const lanes = [];
let current = null; // the bar that the keys are at: { lane, place }

// Where only some of the attempts have a bar, rows for all of them would mostly be empty: these few
// are for those that failed and those that ran longest, as far as there is room.
const rowsOfSome = 6;
const packSome = (bars, limit) => {
  const most = limit ? Math.min(limit, rowsOfSome) : rowsOfSome;
  const failed = (bar) => bar.outcome === 'f' || bar.outcome === 't';
  const rows = [];
  for (const bar of [...bars].sort((a, b) => failed(b) - failed(a) || b.run - a.run)) {
    const overlaps = (other) => other.start < bar.end && bar.start < other.end;
    bar.row = rows.findIndex((row) => !row.some(overlaps));
    if (bar.row < 0 && rows.length < most) bar.row = rows.push([]) - 1;
    if (bar.row >= 0) rows[bar.row].push(bar);
  }
  return { bars: bars.filter((bar) => bar.row >= 0), rows: rows.length };
};
// In the order they began, each in the first row that is free.
const packAll = (bars) => {
  const ends = [];
  for (const bar of bars) {
    let row = ends.findIndex((end) => end <= bar.start);
    if (row < 0) row = ends.length;
    ends[row] = Math.max(bar.end, bar.start + 1);
    bar.row = row;
  }
  return { bars, rows: ends.length };
};

const makeLanes = () => {
  const barsOf = Array.from({ length: data.lanes }, () => []);
  for (let i = 0; i < data.kept.id.length; ++i) {
    const group = data.kept.group[i];
    if (group < data.lanes) barsOf[group].push(attemptAt(i));
  }
  barsOf.forEach((bars, index) => {
    const group = data.groups[index];
    const lane = {
      group,
      drawn: false,
      matches: null,
      ...(group.strip ? packSome : packAll)(bars, group.limit),
    };
    lane.svg = svg('svg', { 'aria-hidden': 'true' });
    const about = [
      group.limit ? `limit ${count(group.limit)}` : '',
      counted(group.attempts, 'try', 'tries'),
    ];
    const failed = group.failed + group.timedOut;
    lane.element = html(
      'div',
      { class: 'lane' },
      html(
        'div',
        { class: 'lane-label', title: group.name },
        html('b', null, group.name),
        html('span', null, about.filter(Boolean).join(' · ')),
        failed ? html('span', { class: 'lane-failed' }, `${count(failed)} failed`) : null,
      ),
      lane.svg,
    );
    lanes.push(lane);
    byId('lanes').append(lane.element);
  });
};

const isInView = (bar) => bar.end >= view.from && bar.start <= view.to;
const pitchOf = (lane) => (view.eachRow ? 18 : lane.rows <= 16 ? 14 : lane.rows <= 48 ? 7 : 4);
// With a row for each, only those in view that were not searched away have one.
const setLaneHeight = (lane) => {
  let rows = lane.rows;
  if (view.eachRow) {
    rows = 0;
    lane.bars.forEach((bar, i) => {
      bar.ownRow = isInView(bar) && (lane.matches === null || lane.matches.has(i)) ? rows++ : -1;
    });
  }
  const strip = lane.group.strip ? 23 : 0;
  const height = String(Math.max(strip + rows * pitchOf(lane), 30));
  if (lane.svg.getAttribute('height') !== height) lane.svg.setAttribute('height', height);
};

const drawStrip = (lane, x, width, dim) => {
  const { begin, width: step, running } = lane.group.strip;
  const most = Math.max(...running, lane.group.limit, 1e-9);
  let path = '';
  running.forEach((value, i) => {
    const left = Math.max(x(begin + i * step), 0);
    const right = Math.min(x(Math.min(begin + (i + 1) * step, wholeRun)), width);
    if (value <= 0 || right <= left) return;
    const height = Math.max((value / most) * 20, 1);
    path += boxPath(left, 20 - height, right, 20);
  });
  lane.svg.append(svg('path', { class: dim ? 'strip dim' : 'strip', d: path }));
};

const drawName = (lane, bar, left, right, top, width) => {
  const name = bar.attempt > 1 ? `${bar.id} (try ${bar.attempt})` : bar.id;
  const shown = name.length > 48 ? `${name.slice(0, 47)}…` : name;
  const fits = right + 6 + shown.length * 6.6 < width;
  if (!fits && left < shown.length * 6.6) return;
  lane.svg.append(
    svg(
      'text',
      {
        class: 'bar-name',
        x: fits ? right + 6 : left - 6,
        y: top + 12,
        'text-anchor': fits ? 'start' : 'end',
      },
      shown,
    ),
  );
};

// Where on the page a lane's times and bars are.
const scaleOf = (lane) => {
  const width = lane.svg.clientWidth || lane.svg.parentNode.clientWidth;
  const pitch = pitchOf(lane);
  const x = (t) => ((t - view.from) / (view.to - view.from)) * width;
  return {
    width,
    pitch,
    x,
    inside: (t) => Math.min(Math.max(x(t), -4), width + 4),
    topOf: (bar) => (lane.group.strip ? 23 : 0) + (view.eachRow ? bar.ownRow : bar.row) * pitch,
    isDim: (i) => lane.matches !== null && !lane.matches.has(i),
  };
};
const hasRow = (bar) => !view.eachRow || bar.ownRow >= 0;

// In a row one waits after another, and often many at once: what overlaps is one rectangle.
const drawWaiting = (lane, { pitch, inside, topOf, isDim }) => {
  const open = new Map();
  const tints = [];
  lane.bars.forEach((bar, i) => {
    const isSeen = bar.wait > 0 && bar.start >= view.from && bar.queued <= view.to;
    if (!isSeen || !hasRow(bar)) return;
    const key = `${topOf(bar)} ${isDim(i)}`;
    const before = open.get(key);
    if (before && before.to >= bar.queued) {
      before.to = Math.max(before.to, bar.start);
      return;
    }
    const tint = { from: bar.queued, to: bar.start, top: topOf(bar), dim: isDim(i) };
    open.set(key, tint);
    tints.push(tint);
  });
  for (const tint of tints) {
    const attributes = {
      class: tint.dim ? 'wait dim' : 'wait',
      x: inside(tint.from),
      y: tint.top,
      width: Math.max(inside(tint.to) - inside(tint.from), 0),
      height: pitch - (pitch > 6 ? 1 : 0),
    };
    lane.svg.append(svg('rect', attributes));
  }
};

const drawBar = (lane, bar, i, { pitch, width, inside, topOf, isDim }) => {
  const left = inside(bar.start);
  const length = inside(bar.end) - left;
  const isTall = bar.outcome === 'f' || bar.outcome === 't';
  const isCurrent = current && current.lane === lane && current.place === i;
  const inset = pitch < 7 || isTall ? 0.5 : 2;
  const height = Math.max(pitch - 2 * inset - (pitch > 6 ? 1 : 0), 1.5);
  const shown = Math.max(length - (length > 4 ? 0.75 : 0), isTall ? 2 : 1);
  const top = topOf(bar) + inset;
  bar.node = svg('rect', {
    class: `bar ${bar.outcome}${isDim(i) ? ' dim' : ''}${isCurrent ? ' current' : ''}`,
    x: left.toFixed(2),
    y: top,
    width: shown.toFixed(2),
    height,
    rx: pitch > 6 ? 1 : 0,
    'data-bar': i,
  });
  lane.svg.append(bar.node);
  if (bar.outcome === 'f' && pitch > 8 && shown > 14) {
    const path = `M${left + shown / 2 - 3} ${top + height / 2 - 3}l6 6m0 -6l-6 6`;
    lane.svg.append(svg('path', { class: 'cross', d: path }));
  }
  if (view.eachRow) drawName(lane, bar, left, left + shown, topOf(bar), width);
};

const drawLane = (lane) => {
  const scale = scaleOf(lane);
  lane.svg.replaceChildren();
  lane.drawn = true;
  if (lane.group.strip) drawStrip(lane, scale.x, scale.width, lane.matches !== null);
  drawWaiting(lane, scale); // before the bars: it hides none
  const lastPixel = new Map();
  lane.bars.forEach((bar, i) => {
    bar.node = null;
    if (!isInView(bar) || !hasRow(bar)) return;
    // What falls on the same pixel as one of the same kind would not be seen.
    const pixel = Math.round(scale.inside(bar.start));
    const key = `${scale.topOf(bar)}${bar.outcome}${scale.isDim(i)}`;
    const isTiny = scale.x(bar.end) - scale.x(bar.start) < 1;
    const isCurrent = current && current.lane === lane && current.place === i;
    if (isTiny && !isCurrent && lastPixel.get(key) === pixel) return;
    lastPixel.set(key, pixel);
    drawBar(lane, bar, i, scale);
  });
};

const drawAxis = () => {
  const axis = byId('axis');
  const width = axis.clientWidth;
  const { ticks, step } = timeTicks(view.from, view.to, width / 90);
  axis.replaceChildren();
  for (const t of ticks) {
    const px = ((t - view.from) / (view.to - view.from)) * width;
    axis.append(svg('line', { class: 'baseline', x1: px, x2: px, y1: 18, y2: 24 }));
    axis.append(
      svg(
        'text',
        { x: px, y: 14, 'text-anchor': px < 20 ? 'start' : px > width - 24 ? 'end' : 'middle' },
        tickText(t, step),
      ),
    );
  }
};

// Only lanes that are seen are drawn; the others when they come into sight.
const inSight = new Set();
let drawPlanned = false;
const planDraw = () => {
  if (drawPlanned) return;
  drawPlanned = true;
  requestAnimationFrame(() => {
    drawPlanned = false;
    for (const lane of lanes) {
      lane.drawn = false;
      if (view.eachRow) setLaneHeight(lane);
    }
    drawAxis();
    showBrush();
    for (const lane of inSight) drawLane(lane);
    followBar();
  });
};
const watchLanes = () => {
  const laneOf = new Map(lanes.map((lane) => [lane.element, lane]));
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        const lane = laneOf.get(entry.target);
        if (entry.isIntersecting) {
          inSight.add(lane);
          if (!lane.drawn) drawLane(lane);
        } else {
          inSight.delete(lane);
        }
      }
    },
    { root: byId('lanes'), rootMargin: '200px 0px' },
  );
  for (const lane of lanes) observer.observe(lane.element);
};

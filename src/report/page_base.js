'use strict';
// What every part of the page uses: the data, elements, and numbers as people read them.
// Nothing here or below makes elements from text: whatever a run was given stays text.

const data = JSON.parse(document.getElementById('data').textContent);
const texts = data.texts;
const run = data.run;
const wholeRun = Math.max(run.elapsed, 1);
const groupNames = data.groups.map((group) => group.name).concat(data.otherNames);

const byId = (id) => document.getElementById(id);

const fillElement = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child);
  }
  return element;
};
const html = (tag, attributes, ...children) =>
  fillElement(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fillElement(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

// A rectangle, as part of a path.
const boxPath = (left, top, right, bottom) => {
  const [a, b, c, d] = [left, top, right, bottom].map((n) => n.toFixed(1));
  return `M${a} ${b}H${c}V${d}H${a}z`;
};

const count = (n) => Math.round(n).toLocaleString('en-US');
const counted = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;
const items = (n) => counted(n, texts.item, texts.items);
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// Three digits or so.
const digits = (value) =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
const duration = (microseconds) => {
  const us = Math.max(microseconds, 0);
  if (us < 1) return '0';
  if (us < 1000) return `${us.toFixed(0)}\u00a0µs`;
  if (us < 1e6) return `${digits(us / 1e3)}\u00a0ms`;
  if (us < 1e8) return `${digits(us / 1e6)}\u00a0s`;
  const seconds = Math.round(us / 1e6);
  const two = (n) => String(n).padStart(2, '0');
  if (seconds < 3600) return `${Math.floor(seconds / 60)}\u00a0m\u00a0${two(seconds % 60)}\u00a0s`;
  return `${Math.floor(seconds / 3600)}\u00a0h\u00a0${two(Math.floor(seconds / 60) % 60)}\u00a0m`;
};
const percent = (part) => `${(100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`;
const rate = (n, microseconds) => {
  const perSecond = n / (Math.max(microseconds, 1) / 1e6);
  if (perSecond >= 1 || perSecond === 0)
    return `${perSecond >= 100 ? count(perSecond) : digits(perSecond)}/s`;
  const perMinute = perSecond * 60;
  return perMinute >= 1 ? `${digits(perMinute)}/min` : `${digits(perMinute * 60)}/h`;
};
const clock = (microseconds) =>
  new Date(run.began + microseconds / 1000).toLocaleTimeString('en-GB', { hour12: false });

// Times at which an axis has its marks: about `wanted` of them, at round numbers.
const timeTicks = (from, to, wanted) => {
  const minute = 6e7,
    hour = 36e8;
  const rough = (to - from) / Math.max(wanted, 1);
  let step = Math.pow(10, Math.floor(Math.log10(Math.max(rough, 1))));
  step = [1, 2, 5, 10].map((n) => n * step).find((n) => n >= rough);
  if (rough > 1e7) {
    const round = [
      1.5e7,
      3e7,
      minute,
      2 * minute,
      5 * minute,
      10 * minute,
      15 * minute,
      30 * minute,
      hour,
      2 * hour,
      3 * hour,
      6 * hour,
      12 * hour,
      24 * hour,
    ];
    step = round.find((n) => n >= rough) || Math.ceil(rough / (24 * hour)) * 24 * hour;
  }
  const ticks = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) ticks.push(t);
  return { ticks, step };
};
const tickText = (t, step) => {
  if (t === 0) return '0';
  if (step < 1e3) return `${t.toFixed(0)} µs`;
  if (step < 1e6 && t < 1e6) return `${+(t / 1e3).toFixed(1)} ms`;
  if (t < 6e7 || step < 1e6)
    return `${+(t / 1e6).toFixed(step < 1e6 ? Math.ceil(-Math.log10(step / 1e6)) : 0)} s`;
  const seconds = Math.round(t / 1e6);
  const two = (n) => String(n).padStart(2, '0');
  const clockText = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return seconds < 3600
    ? clockText.replace(/^0/, '')
    : `${Math.floor(seconds / 3600)}:${clockText}`;
};

const signalNames = {
  1: 'HUP',
  2: 'INT',
  3: 'QUIT',
  4: 'ILL',
  6: 'ABRT',
  7: 'BUS',
  8: 'FPE',
  9: 'KILL',
  11: 'SEGV',
  13: 'PIPE',
  14: 'ALRM',
  15: 'TERM',
  24: 'XCPU',
};
const outcomes = {
  o: { name: 'ok' },
  r: { name: 'failed, tried again' },
  f: { name: 'failed' },
  t: { name: 'timed out' },
  c: { name: 'cancelled' },
};
// One attempt, from the columns.
const attemptAt = (index) => {
  const kept = data.kept;
  const queued = kept.queued[index];
  const start = queued + kept.wait[index];
  return {
    index,
    id: kept.id[index],
    group: kept.group[index],
    queued,
    start,
    end: start + kept.run[index],
    wait: kept.wait[index],
    run: kept.run[index],
    seq: kept.seq[index],
    attempt: kept.attempt[index],
    exit: kept.exit[index],
    outcome: kept.outcome[index],
  };
};
const exitText = (attempt) => {
  if (attempt.outcome === 't') return 'timed out';
  if (attempt.exit < 0) {
    const name = signalNames[-attempt.exit];
    return `signal ${-attempt.exit}${name ? ` (${name})` : ''}`;
  }
  if (attempt.outcome === 'f' && attempt.exit === 0) return 'did not run';
  return `exit ${attempt.exit}`;
};

// A small picture of an outcome, the same in the legend, in tables and in the timeline.
const swatch = (outcome) => {
  const mark = svg('svg', { width: 22, height: 12, 'aria-hidden': 'true' });
  const tall = outcome === 'f' || outcome === 't';
  mark.append(
    svg('rect', {
      class: `bar ${outcome}`,
      x: 1,
      y: tall ? 0.5 : 2,
      width: 20,
      height: tall ? 11 : 8,
      rx: 1,
    }),
  );
  if (outcome === 'f') mark.append(svg('path', { class: 'cross', d: 'M8 3l6 6M14 3l-6 6' }));
  return mark;
};

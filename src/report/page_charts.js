'use strict';
// What ended, ran and waited over time, and where a stream stood: charts with one axis, on which a part can be chosen.

const chartMargin = { left: 56, right: 8 };
const charts = [];

const niceTop = (value) => {
  if (!(value > 0)) return 1;
  const power = Math.pow(10, Math.floor(Math.log10(value)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((n) => n * power).find((n) => n >= value * 0.999);
};
const shortCount = (n) =>
  n >= 1e6
    ? `${+(n / 1e6).toFixed(1)}M`
    : n >= 1e4
      ? `${+(n / 1e3).toFixed(1)}k`
      : `${+n.toFixed(n < 10 ? 2 : 0)}`;

// The series in as many columns as can be told apart; each value is the mean of the buckets in it,
// or their sum.
const inColumns = (values, columns, adds) => {
  const size = Math.max(1, Math.ceil(values.length / columns));
  const result = [];
  for (let i = 0; i < values.length; i += size) {
    const part = values.slice(i, i + size);
    result.push(part.reduce((a, b) => a + b, 0) / (adds ? 1 : part.length));
  }
  return { values: result, size };
};

const drawChart = (chart) => {
  const { element, layers, line, isLast } = chart;
  const width = element.clientWidth;
  if (width === 0) return;
  const plotHeight = 78,
    top = 4;
  const plotWidth = Math.max(width - chartMargin.left - chartMargin.right, 10);
  const series = data.series;
  const x = (t) => chartMargin.left + (t / wholeRun) * plotWidth;
  const columns = layers.map((layer) =>
    inColumns(layer.values, plotWidth / (chart.adds ? 12 : 3), chart.adds),
  );
  const sums = (columns[0] || { values: [] }).values.map((_, i) =>
    columns.reduce((sum, column) => sum + column.values[i], 0),
  );
  const most = niceTop(Math.max(...sums, line || 0, 0));
  const y = (value) => top + plotHeight * (1 - value / most);
  element.replaceChildren();
  for (const value of [most / 2, most]) {
    element.append(
      svg('line', {
        class: 'gridline',
        x1: chartMargin.left,
        x2: width - chartMargin.right,
        y1: y(value),
        y2: y(value),
      }),
    );
  }
  for (const value of [0, most]) {
    element.append(
      svg(
        'text',
        { x: chartMargin.left - 6, y: y(value) + 4, 'text-anchor': 'end' },
        shortCount(value),
      ),
    );
  }
  const base = sums.map(() => 0); // pixels, because what failed is seen however little it is
  layers.forEach((layer, l) => {
    // Steps as one path: thousands of elements would be slow, and one shape prints better.
    let path = '';
    columns[l].values.forEach((value, i) => {
      if (value <= 0) return;
      const from = Math.max(x(series.begin + i * columns[l].size * series.width), chartMargin.left);
      const end = Math.min(series.begin + (i + 1) * columns[l].size * series.width, wholeRun);
      const height = Math.max(y(0) - y(value), layer.least || 0);
      path += boxPath(from, y(0) - base[i] - height, x(end), y(0) - base[i]);
      base[i] += height;
    });
    element.append(svg('path', { class: layer.look, d: path }));
  });
  element.append(
    svg('line', {
      class: 'baseline',
      x1: chartMargin.left,
      x2: width - chartMargin.right,
      y1: y(0),
      y2: y(0),
    }),
  );
  if (line) {
    element.append(
      svg('line', {
        class: 'limit-line',
        x1: chartMargin.left,
        x2: width - chartMargin.right,
        y1: y(line),
        y2: y(line),
      }),
    );
  }
  if (isLast) {
    const { ticks, step } = timeTicks(0, wholeRun, plotWidth / 90);
    for (const t of ticks) {
      element.append(
        svg(
          'text',
          {
            x: x(t),
            y: y(0) + 16,
            'text-anchor': t === 0 ? 'start' : x(t) > width - 40 ? 'end' : 'middle',
          },
          tickText(t, step),
        ),
      );
    }
  }
  chart.brush = svg('rect', { class: 'brush', y: top, height: plotHeight, hidden: true });
  chart.cursor = svg('line', { class: 'cursor', y1: top, y2: y(0), hidden: true });
  element.append(chart.brush, chart.cursor);
  chart.x = x;
  chart.columns = columns;
  chart.timeAt = (px) => Math.min(Math.max((px - chartMargin.left) / plotWidth, 0), 1) * wholeRun;
  showBrush();
};

// The part of the run that the timeline shows.
const showBrush = () => {
  const { from, to } = view;
  for (const chart of charts) {
    if (!chart.brush) continue;
    const whole = from <= 0 && to >= wholeRun;
    chart.brush.toggleAttribute('hidden', whole);
    chart.brush.setAttribute('x', chart.x(from));
    chart.brush.setAttribute('width', Math.max(chart.x(to) - chart.x(from), 1));
  }
};

// What the charts say about one time; null: nothing.
const readAt = (t) => {
  const series = data.series;
  for (const chart of charts) {
    chart.cursor.toggleAttribute('hidden', t === null);
    chart.reading.textContent = '';
    if (t === null) continue;
    chart.cursor.setAttribute('x1', chart.x(t));
    chart.cursor.setAttribute('x2', chart.x(t));
    const values = chart.layers.map((layer, l) => {
      const column = chart.columns[l];
      const at = Math.floor((t - series.begin) / (column.size * series.width));
      const value = column.values[at] || 0;
      return layer.name ? `${shortCount(value)} ${layer.name}` : shortCount(value);
    });
    chart.reading.textContent = `${values.join(', ')} at ${duration(t)}`;
  }
};

const chooseByDragging = (chart) => {
  let anchor = null;
  const timeOf = (event) =>
    chart.timeAt(event.clientX - chart.element.getBoundingClientRect().left);
  chart.element.addEventListener('pointerdown', (event) => {
    anchor = timeOf(event);
    chart.element.setPointerCapture(event.pointerId);
  });
  chart.element.addEventListener('pointermove', (event) => {
    const t = timeOf(event);
    readAt(t);
    if (anchor === null) return;
    if (Math.abs(t - anchor) > wholeRun / 200) showPart(Math.min(anchor, t), Math.max(anchor, t));
  });
  const end = () => {
    anchor = null;
  };
  chart.element.addEventListener('pointerup', end);
  chart.element.addEventListener('pointercancel', end);
  chart.element.addEventListener('pointerleave', () => readAt(null));
  chart.element.addEventListener('dblclick', () => showPart(0, wholeRun));
};

const makeCharts = () => {
  const series = data.series;
  const perSecond = (values) => values.map((n) => n / (series.width / 1e6));
  const peak = (values) => Math.max(...values, 0);
  // Few are counted, many are a rate.
  const few = run.attempts <= 500;
  const inUnits = few ? (values) => values : perSecond;
  const kinds = [
    ['ok', 'ok'],
    ['retried', 'tried again'],
    ['failed', 'failed'],
  ].filter(([name]) => peak(series[name]) > 0);
  const ended = {
    title: few ? 'Ended' : 'Ended per second',
    adds: few,
    about: kinds.map(([, name]) => name).join(', then '),
    layers: kinds.map(([name, shown]) => ({
      name: shown,
      look: `fill-${name}`,
      values: inUnits(series[name]),
      least: name === 'ok' ? 0 : 1.5,
    })),
  };
  const running = {
    title: 'Running',
    line: run.places,
    layers: [{ look: 'fill-running', values: series.running }],
    about: run.places ? `at once; dashed: the ${count(run.places)} places` : 'at once',
  };
  const waiting = {
    title: 'Waiting',
    about: `at once; at most ${count(peak(series.waiting))}`,
    layers: [{ look: 'fill-waiting', values: series.waiting }],
  };
  const all = [ended, running, waiting];
  if (series.watermark) {
    const megabytes = series.watermark.map((bytes) => bytes / 1e6);
    all.push(
      {
        title: 'Watermark',
        about: 'MB of the source, below which everything is done',
        layers: [{ look: 'fill-ok', values: megabytes }],
      },
      {
        title: 'Done above the watermark',
        about: `${texts.items}; at most ${count(peak(series.doneAbove))}`,
        layers: [{ look: 'fill-running', values: series.doneAbove }],
      },
      {
        title: 'In flight',
        about: `${texts.items} that were read and are not done`,
        layers: [{ look: 'fill-waiting', values: series.inFlight }],
      },
    );
  }
  all.at(-1).isLast = true;
  for (const chart of all) {
    chart.element = svg('svg', {
      role: 'img',
      'aria-label': `${chart.title} over time, ${chart.about}`,
    });
    chart.reading = html('span', { class: 'reading', 'aria-hidden': 'true' });
    byId('charts').append(
      html(
        'div',
        { class: chart.isLast ? 'chart last' : 'chart' },
        html('h3', null, `${chart.title} `, html('span', null, chart.about), chart.reading),
        chart.element,
      ),
    );
    charts.push(chart);
    chooseByDragging(chart);
  }
  byId('over-time-about').textContent =
    `Began ${new Date(run.began).toLocaleString('sv-SE')}. ` +
    'Drag over a chart to see that part in the timeline.';
};

// Draws the learning curves and the map of the clients' data from the JSON in the page. No library: a chart here is an
// SVG made anew whenever its width or a choice changes; colours come from the CSS variables, so a theme needs no redraw.
'use strict';
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const DASHES = ['', '7 4', '2 4', '10 3 2 3'];
const COLOURS = 8;
const SHOWN_AT_FIRST = 12;
const view = {x: 'round', log: false, seeds: false, hidden: new Set(), cross: null};
const charts = [];

const colour = g => `var(--s${g % COLOURS})`;
const dash = g => DASHES[Math.floor(g / COLOURS) % DASHES.length];

function html(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) if (value !== '') node.setAttribute(key, value);
  node.append(...children);
  return node;
}
const swatch = g => svg('svg', {class: 'swatch', viewBox: '0 0 22 10', 'aria-hidden': 'true'},
    svg('line', {x1: 0, x2: 22, y1: 5, y2: 5, stroke: colour(g), 'stroke-dasharray': dash(g)}));

// ---- numbers -------------------------------------------------------------------------------------------------------
const trimmed = (value, digits) => {
  const text = value.toFixed(Math.max(0, Math.min(digits, 8)));
  return text.replace('-', '−');
};
const grouped = value => Math.round(value).toLocaleString('en-US');
function plain(value) {
  const size = Math.abs(value);
  if (value === 0) return '0';
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replace('-', '−');
  if (size >= 1000) return grouped(value);
  return trimmed(value, 3 - Math.floor(Math.log10(size)));
}
// One unit for a whole axis: {scale, unit}, from its greatest value.
function unitOf(kind, greatest) {
  const pick = steps => steps.find(([at]) => greatest >= at) || steps[steps.length - 1];
  if (kind === 'percent') return {scale: 0.01, unit: '%'};
  if (kind === 'bytes') { const [, scale, unit] = pick([[1e9, 1e9, 'GB'], [1e6, 1e6, 'MB'], [1e3, 1e3, 'kB'], [0, 1, 'B']]); return {scale, unit}; }
  if (kind === 'seconds') { const [, scale, unit] = pick([[7200, 3600, 'h'], [180, 60, 'min'], [0.5, 1, 's'], [0, 1e-3, 'ms']]); return {scale, unit}; }
  // Ticks such as 0.000008 would not fit beside the axis.
  if (kind === 'plain' && greatest > 0 && (greatest < 1e-3 || greatest >= 1e6)) {
    const power = 3 * Math.floor(Math.log10(greatest) / 3);
    return {scale: 10 ** power, unit: `×10${[...String(power)].map(c => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] || '⁻').join('')}`};
  }
  return {scale: 1, unit: ''};
}
const kindOf = metric => /accuracy/.test(metric) ? 'percent' : /bytes/.test(metric) ? 'bytes' :
    /seconds/.test(metric) ? 'seconds' : /^(round|clients|examples|transmissions|epochs)$/.test(metric) ? 'count' : 'plain';
// A value with its unit, for the hover box.
function spoken(kind, value) {
  if (kind === 'percent') return `${trimmed(value * 100, 2)} %`;
  if (kind === 'count') return value === Math.round(value) ? grouped(value) : plain(value);
  if (kind === 'plain') return plain(value);
  const {scale, unit} = unitOf(kind, Math.abs(value));
  return `${Number((value / scale).toPrecision(3)).toLocaleString('en-US')} ${unit}`;
}
const NAMES = {test_accuracy: 'Test accuracy', test_loss: 'Test loss', test_r2: 'R²: variance explained', test_rmse: 'RMSE, in the target’s units', test_mae: 'MAE, in the target’s units', train_loss: 'Training loss',
  test_ece: 'Calibration error (ECE)', test_brier: 'Brier score', test_coverage: 'Coverage of 90 % sets', test_set_size: 'Classes in a 90 % set', bytes_up: 'Bytes up, a round',
  bytes_down: 'Bytes down, a round', seconds: 'Seconds, a round', clients: 'Clients, a round', examples: 'Examples, a round',
  s_accuracy: 'S: shared model, clients’ own data', mt_accuracy: 'MT: own models, own data', s_loss: 'S: loss', mt_loss: 'MT: loss',
  transmissions: 'Transmissions, a round', epochs: 'Epochs, a round', simulated_seconds: 'Simulated time, a round',
  posterior_loss: 'Loss: posterior, and model dotted', posterior_ece: 'Calibration error: posterior, and model dotted',
  posterior_brier: 'Brier score: posterior, and model dotted', posterior_ood_auroc: 'Other data, AUROC: posterior, and model dotted',
  posterior_accuracy: 'Accuracy of the posterior', ood_auroc: 'Other data, AUROC', steps: 'Steps, a round', evaluation_seconds: 'Seconds of evaluation, a round'};
const MEANS = {test_accuracy: 'share of the test examples that the model tells right', test_loss: 'mean loss on the test examples: the lower, the better; it counts how sure the model was',
  test_r2: 'share of the test targets’ variance that is explained; 0 is no better than their mean', train_loss: 'mean over all examples the clients trained on, each at the weights just before its step',
  test_ece: 'by how much confidence and accuracy differ, on average over 15 bins of confidence; 0 is perfect', test_brier: 'mean squared distance of the probabilities from the truth; 0 is perfect',
  test_coverage: 'share of the test examples whose class is among the fewest that together have 90 % of the probability; less than 0.9 is too sure', test_set_size: 'how many classes it takes, in the mean, to have 90 % of the probability',
  s_accuracy: 'the shared model on the clients’ own test data', mt_accuracy: 'each client’s own model, after its last training, on its own test data',
  ood_auroc: 'chance that an example of other data is doubted more than one of the test set; 0.5 is guessing'};
const nameOf = metric => NAMES[metric] || metric.replace(/_/g, ' ');

// ---- series --------------------------------------------------------------------------------------------------------
// What can stand on the horizontal axis beside the round: the columns that are added up, their kind, and their words.
const COSTS = {
  bytes: {columns: ['bytes_up', 'bytes_down'], kind: 'bytes', words: unit => `${unit} sent, up and down`},
  seconds: {columns: ['seconds'], kind: 'seconds', words: unit => `${unit} of training`},
  transmissions: {columns: ['transmissions'], kind: 'count', words: () => 'transmissions'},
  epochs: {columns: ['epochs'], kind: 'count', words: () => 'epochs, summed over clients'},
  simulated_seconds: {columns: ['simulated_seconds'], kind: 'seconds', words: unit => `${unit} of simulated time`},
};
const xKindOf = () => view.x === 'round' ? 'count' : COSTS[view.x].kind;
// The horizontal position of each round of a run: the round, or the cost so far.
function positions(run) {
  if (view.x === 'round') return run.round;
  const columns = COSTS[view.x].columns;
  let sum = 0;
  return run.round.map((_, i) => sum += columns.reduce((s, key) => s + ((run.metrics[key] || [])[i] || 0), 0));
}
function pointsOf(run, metric) {
  const values = run.metrics[metric] || [], at = positions(run), log = isLog(metric);
  return run.round.map((round, i) => ({round, x: at[i], y: values[i]}))
      .filter(p => p.y !== null && p.y !== undefined && (!log || p.y > 0));
}
function meanAndSd(values) {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const squares = values.reduce((a, b) => a + (b - mean) ** 2, 0);
  return [mean, values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0];
}
// What networks drawn from the posterior are compared with: the same number of the model by itself.
const POINTS = {posterior_loss: 'test_loss', posterior_ece: 'test_ece', posterior_brier: 'test_brier', posterior_ood_auroc: 'ood_auroc'};
const seriesBeside = metric => POINTS[metric] ? seriesOf(POINTS[metric]).map(s => ({...s, label: `${s.label}, model`, point: true})) : [];
// For each group that has the metric: the runs' own lines, and their mean round by round.
function seriesOf(metric) {
  return data.groups.map((label, g) => {
    const runs = data.runs.filter(run => run.group === g);
    const lines = runs.filter(run => run.counted).map(run => pointsOf(run, metric)).filter(p => p.length);
    const open = runs.filter(run => !run.counted).map(run => pointsOf(run, metric)).filter(p => p.length);
    const rounds = new Map();
    for (const p of lines.flat()) rounds.set(p.round, [...(rounds.get(p.round) || []), p]);
    const mean = [...rounds.keys()].sort((a, b) => a - b).map(round => {
      const at = rounds.get(round), [y, sd] = meanAndSd(at.map(p => p.y));
      return {round, x: meanAndSd(at.map(p => p.x))[0], y, sd, n: at.length};
    });
    return {g, label, lines, open, mean};
  }).filter(s => s.lines.length || s.open.length);
}
const isLog = metric => view.log && /loss/.test(metric);

// ---- scales --------------------------------------------------------------------------------------------------------
function niceStep(span, count, whole) {
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  return power * (whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).find(m => m * power >= raw * 0.999);
}
// A scale maps a value to 0…1 and knows its ticks, which are round numbers of the unit shown: minutes, not 60 seconds.
function linearScale(low, high, count, {kind = 'plain', pad = true, floor = -Infinity, ceiling = Infinity} = {}) {
  const whole = kind === 'count', by = unitOf(kind, Math.max(Math.abs(low), Math.abs(high))).scale;
  if (low === high) { const by = whole ? 1 : Math.abs(low) * 0.05 || 1; low = Math.max(low - by, floor); high = Math.min(high + by, ceiling); }
  let step = niceStep((high - low) / by, count, whole) * by;
  if (whole) step = Math.max(1, step);
  if (pad) { low = Math.max(Math.floor(low / step + 1e-9) * step, floor); high = Math.min(Math.ceil(high / step - 1e-9) * step, ceiling); }
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return {at: value => (value - low) / (high - low), back: f => low + f * (high - low), ticks, step};
}
function logScale(low, high) {
  if (low === high) { low /= 2; high *= 2; }
  const a = Math.log10(low), b = Math.log10(high), margin = (b - a) * 0.04, ticks = [];
  const digits = b - a > 3 ? [1] : b - a > 1.2 ? [1, 2, 5] : b - a > 0.5 ? [1, 1.5, 2, 3, 5, 7] : null;
  if (digits) for (let e = Math.floor(a); e <= b; ++e) for (const d of digits) ticks.push(d * 10 ** e);
  else ticks.push(...linearScale(low, high, 5, {pad: false}).ticks);
  const from = a - margin, to = b + margin;
  return {at: value => (Math.log10(value) - from) / (to - from),
    ticks: ticks.filter(t => Math.log10(t) >= from && Math.log10(t) <= to), step: 0};
}
// Labels for the ticks of an axis, all with the same unit and number of digits.
function tickTexts(scale, kind) {
  const greatest = Math.max(...scale.ticks.map(Math.abs), 0), {scale: by, unit} = unitOf(kind, greatest);
  const step = scale.step / by;
  const digits = step ? Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (Math.abs(step / 10 ** Math.floor(Math.log10(step) + 1e-9) - 2.5) < 1e-6 ? 1 : 0)) : 0;
  const texts = scale.ticks.map(t => {
    const value = t / by;
    if (!step) return String(Number(value.toPrecision(2)));
    return Math.abs(value) >= 1000 ? grouped(value) : trimmed(Math.abs(value) < step * 1e-6 ? 0 : value, digits);
  });
  return {texts, unit};
}

// ---- one chart -----------------------------------------------------------------------------------------------------
function extentOf(series, pick) {
  let low = Infinity, high = -Infinity;
  for (const s of series) for (const value of pick(s)) { if (value < low) low = value; if (value > high) high = value; }
  return [low, high];
}
const path = points => points.map((p, i) => `${i ? 'L' : 'M'}${p[0].toFixed(1)} ${p[1].toFixed(1)}`).join('');
const pen = document.createElement('canvas').getContext('2d');
pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
const textWidth = text => pen.measureText(text).width;

function scalesOf(chart, series, plotHeight, plotWidth) {
  const log = isLog(chart.metric), kind = kindOf(chart.metric), banded = !view.seeds;
  const [x0, x1] = extentOf(series, s => [...s.mean, ...s.open.flat()].map(p => p.x));
  const [y0, y1] = extentOf(series, s => [...s.mean.flatMap(p => banded && !log ? [p.y - p.sd, p.y + p.sd] : [p.y]),
    ...s.open.flat().map(p => p.y), ...(view.seeds ? s.lines.flat().map(p => p.y) : [])]);
  const bounds = kind === 'percent' ? {floor: 0, ceiling: 1} : y0 >= 0 ? {floor: 0} : {};
  const whole = view.x === 'round', xKind = xKindOf();
  return {
    x: linearScale(whole || x1 === x0 ? x0 : 0, x1, Math.max(2, Math.floor(plotWidth / 70)), {pad: x1 === x0, kind: xKind, floor: 0}),
    y: log ? logScale(y0, y1) : linearScale(y0, y1, Math.max(3, Math.floor(plotHeight / 44)), {kind, ...bounds}),
  };
}

// Names at the line ends, pushed apart; null where they do not fit.
function placeNames(series, ends, room, top, bottom) {
  const tall = 15, names = series.map((s, i) => ({s, x: ends[i][0] + 12, y: ends[i][1], from: ends[i]}));
  if (names.length * tall > bottom - top || names.some(n => textWidth(n.s.label) > room)) return null;
  names.sort((a, b) => a.y - b.y);
  const meet = (a, b) => a.x < b.x + textWidth(b.s.label) + 8 && b.x < a.x + textWidth(a.s.label) + 8;
  for (let pass = 0; pass < 60; ++pass) {
    let moved = false;
    for (let i = 0; i < names.length; ++i) for (let j = i + 1; j < names.length; ++j) {
      const [a, b] = [names[i], names[j]], gap = tall - (b.y - a.y);
      if (gap <= 0.1 || !meet(a, b)) continue;
      a.y -= gap / 2; b.y += gap / 2; moved = true;
    }
    for (const n of names) n.y = Math.max(top + 4, Math.min(bottom - 4, n.y));
    if (!moved) break;
  }
  return names;
}

function drawAxes(root, chart, scales, box) {
  const yTicks = tickTexts(scales.y, kindOf(chart.metric)), xTicks = tickTexts(scales.x, xKindOf());
  scales.y.ticks.forEach((t, i) => {
    const y = box.y(t);
    root.append(svg('line', {class: 'grid', x1: box.left, x2: box.right, y1: y, y2: y}),
        svg('text', {x: box.left - 8, y: y + 4, 'text-anchor': 'end'}, yTicks.texts[i]));
  });
  root.append(svg('line', {class: 'axis', x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom}));
  scales.x.ticks.forEach((t, i) => root.append(
      svg('text', {x: box.x(t), y: box.bottom + 17, 'text-anchor': 'middle'}, xTicks.texts[i])));
  const what = view.x === 'round' ? 'round' : COSTS[view.x].words(xTicks.unit);
  root.append(svg('text', {x: box.right, y: box.bottom + 33, 'text-anchor': 'end'}, what));
  return yTicks.unit;
}

function drawSeries(root, s, box, log) {
  const place = p => [box.x(p.x), box.y(p.y)], stroke = colour(s.g);
  const layer = svg('g', {'data-g': s.g});
  for (const line of s.open) layer.append(svg('path', {class: 'open', d: path(line.map(place)), stroke}));
  if (view.seeds && s.lines.length > 1) {
    for (const line of s.lines) layer.append(svg('path', {class: 'seed', d: path(line.map(place)), stroke}));
  } else if (s.mean.some(p => p.sd > 0)) {
    const low = p => log ? Math.max(p.y - p.sd, p.y / 20) : p.y - p.sd;
    const edge = [...s.mean.map(p => [box.x(p.x), box.y(p.y + p.sd)]), ...s.mean.slice().reverse().map(p => [box.x(p.x), box.y(low(p))])];
    layer.append(svg('path', {class: 'band', d: path(edge) + 'Z', fill: stroke}));
  }
  layer.append(svg('path', s.point ? {class: 'mean point', d: path(s.mean.map(place)), stroke} :
      {class: 'mean', d: path(s.mean.map(place)), stroke, 'stroke-dasharray': dash(s.g)}));
  const dots = s.mean.length <= 12 ? s.mean : [];
  for (const p of [...dots, ...s.open.filter(line => line.length === 1).flat()]) {
    layer.append(svg('circle', {cx: box.x(p.x), cy: box.y(p.y), r: s.mean.length === 1 ? 4.5 : 2.6, fill: stroke}));
  }
  root.append(layer);
}

function drawNames(root, names, box) {
  for (const n of names) root.append(svg('g', {'data-g': n.s.g},
      svg('path', {class: 'leader', stroke: colour(n.s.g), d: path([n.from, [n.x - 3, n.y]])}),
      svg('text', {class: 'name', x: n.x, y: Math.min(n.y + 4, box.bottom + 4)}, n.s.label)));
}

function draw(chart) {
  const width = Math.round(chart.host.clientWidth) - 2 * parseFloat(getComputedStyle(chart.host).paddingLeft);
  const all = [...seriesOf(chart.metric), ...seriesBeside(chart.metric)], series = all.filter(s => !view.hidden.has(s.g));
  chart.figure.replaceChildren();
  chart.tip.hidden = true;
  chart.series = null;
  if (!series.length || width < 50) {
    chart.figure.append(html('p', {class: 'empty'}, all.length ? 'Every line is hidden; choose some in the legend.' : 'Nothing was measured yet.'));
    chart.unit.textContent = '';
    return;
  }
  const height = chart.wide ? Math.max(280, Math.min(400, width * 0.4)) : Math.max(230, Math.min(290, width * 0.52));
  const ends = s => s.mean.length ? s.mean[s.mean.length - 1] : s.open[0][s.open[0].length - 1];
  const longest = Math.max(...series.map(s => textWidth(s.label)));
  const room = Math.min(longest, width * 0.26), named = chart.wide && width > 560 && longest <= room + 1;
  const box = {left: 52, right: width - (named ? room + 20 : 14), top: 10, bottom: height - 40};
  const scales = scalesOf(chart, series, box.bottom - box.top, box.right - box.left);
  box.x = value => box.left + scales.x.at(value) * (box.right - box.left);
  box.y = value => box.bottom - scales.y.at(value) * (box.bottom - box.top);
  const root = svg('svg', {class: 'plot', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', tabindex: '0',
    'aria-label': `${nameOf(chart.metric)} against ${view.x === 'round' ? 'rounds' : COSTS[view.x].words('')}: ` +
      series.map(s => `${s.label} ends at ${spoken(kindOf(chart.metric), ends(s).y)}`).join('; ') + '. Arrow keys move along the rounds.'});
  const unit = drawAxes(root, chart, scales, box);
  const clip = `clip-${charts.indexOf(chart)}`;
  root.append(svg('clipPath', {id: clip}, svg('rect', {x: box.left - 6, y: box.top - 6, width: box.right - box.left + 12, height: box.bottom - box.top + 8})));
  const lines = svg('g', {'clip-path': `url(#${clip})`});
  for (const s of series.slice().reverse()) drawSeries(lines, s, box, isLog(chart.metric));
  root.append(lines);
  const names = named && placeNames(series, series.map(s => [box.x(ends(s).x), box.y(ends(s).y)]), room + 1, box.top, box.bottom);
  if (names) drawNames(root, names, box);
  chart.over = svg('g');
  root.append(chart.over);
  chart.unit.textContent = [unit, isLog(chart.metric) ? 'log scale' : ''].filter(Boolean).join(', ');
  Object.assign(chart, {series, box, root, scales});
  chart.figure.append(root);
  listen(chart);
}

// ---- crosshair -----------------------------------------------------------------------------------------------------
// All charts share the crosshair; the one under the pointer also shows the values.
function nearest(points, x) {
  let best = points[0];
  for (const p of points) if (Math.abs(p.x - x) < Math.abs(best.x - x)) best = p;
  return best;
}
function readings(chart, x) {
  const [lo, hi] = extentOf(chart.series, s => s.mean.map(p => p.x)), near = (hi - lo) * 0.04 + 1e-9;
  return chart.series.filter(s => s.mean.length).map(s => ({s, p: nearest(s.mean, x)}))
      .filter(({s, p}) => view.x === 'round' ? p.x === x : x <= s.mean[s.mean.length - 1].x + near && x >= s.mean[0].x - near);
}
function showCross(x, chosen) {
  view.cross = x;
  for (const chart of charts) {
    if (!chart.series) continue;
    chart.over.replaceChildren();
    chart.tip.hidden = true;
    if (x === null) continue;
    const at = chart.box.x(x), found = readings(chart, x);
    if (at < chart.box.left - 1 || at > chart.box.right + 1) continue;
    chart.over.append(svg('line', {class: 'cross', x1: at, x2: at, y1: chart.box.top, y2: chart.box.bottom}));
    for (const {s, p} of found) chart.over.append(svg('circle', {class: 'dot', cx: chart.box.x(p.x), cy: chart.box.y(p.y), r: 4.2, fill: colour(s.g)}));
    if (chart === chosen && found.length) showTip(chart, at, x, found);
  }
}
function showTip(chart, at, x, found) {
  const kind = kindOf(chart.metric), head = view.x === 'round' ? `Round ${x}` : `${spoken(xKindOf(), x)} ${xKindOf() === 'count' ? view.x : ''}`;
  found.sort((a, b) => b.p.y - a.p.y);
  chart.tip.replaceChildren(html('b', {}, head), ...found.slice(0, 14).map(({s, p}) => html('div', {}, swatch(s.g),
      html('span', {}, s.label), html('b', {}, spoken(kind, p.y)),
      ...(p.n > 1 ? [html('i', {}, `± ${spoken(kind, p.sd)}`)] : []),
      ...(view.x !== 'round' ? [html('i', {}, `round ${p.round}`)] : []))));
  if (found.length > 14) chart.tip.append(html('i', {}, `and ${found.length - 14} more`));
  chart.tip.hidden = false;
  const scale = chart.root.getBoundingClientRect().width / chart.root.viewBox.baseVal.width, width = chart.tip.offsetWidth;
  const left = at * scale + chart.figure.offsetLeft, flip = left + 16 + width > chart.host.clientWidth;
  chart.tip.style.left = `${Math.max(2, flip ? left - 16 - width : left + 16)}px`;
  chart.tip.style.top = `${chart.figure.offsetTop + 8}px`;
}
function listen(chart) {
  const stops = () => [...new Set(chart.series.flatMap(s => s.mean.map(p => p.x)))].sort((a, b) => a - b);
  chart.root.addEventListener('pointermove', event => {
    const rect = chart.root.getBoundingClientRect(), px = (event.clientX - rect.left) * chart.root.viewBox.baseVal.width / rect.width;
    const x = chart.scales.x.back(Math.max(0, Math.min(1, (px - chart.box.left) / (chart.box.right - chart.box.left))));
    const points = stops();
    if (points.length) showCross(view.x === 'round' ? nearest(points.map(p => ({x: p})), x).x : x, chart);
  });
  chart.root.addEventListener('pointerleave', () => showCross(null));
  chart.root.addEventListener('blur', () => showCross(null));
  chart.root.addEventListener('keydown', event => {
    const points = stops(), last = points.length - 1, now = view.cross === null ? -1 : points.indexOf(nearest(points.map(p => ({x: p})), view.cross).x);
    const next = {ArrowRight: Math.min(last, now + 1), ArrowLeft: now < 0 ? last : Math.max(0, now - 1), Home: 0, End: last}[event.key];
    if (event.key === 'Escape') showCross(null);
    if (next === undefined || last < 0) return;
    event.preventDefault();
    showCross(points[next], chart);
  });
}

// ---- the section of curves -----------------------------------------------------------------------------------------
function addChart(metric, options = {}) {
  const unit = html('small'), figure = html('div'), tip = html('div', {class: 'tip', hidden: ''});
  const host = html('div', {class: 'chart card' + (options.wide ? ' wide' : '')}, html('h3', {}, options.head || html('span', MEANS[metric] ? {title: MEANS[metric]} : {}, nameOf(metric)), unit), figure, tip);
  byId(options.into || 'charts').append(host);
  const chart = {metric, host, figure, tip, unit, wide: options.wide};
  charts.push(chart);
  return chart;
}
// One value is no curve; the tables have it.
const isCurve = metric => data.runs.some(run => (run.metrics[metric] || []).filter(value => value !== null).length > 1);
function makeCharts(metrics) {
  const main = ['test_accuracy', 'test_r2', 'test_loss', 'train_loss', 'test_ece', 'test_brier'].filter(m => metrics.has(m));
  const uncertain = Object.keys(POINTS).filter(m => metrics.has(m));
  if (metrics.has('ood_auroc') && !metrics.has('posterior_ood_auroc')) uncertain.push('ood_auroc');
  const own = byId('clients-charts') ? ['s_accuracy', 'mt_accuracy'].filter(m => metrics.has(m)) : [];
  const others = [...metrics].filter(m => ![...main, ...uncertain, ...own, 'ood_auroc'].includes(m));
  const extras = others.filter(m => !NAMES[m]), book = others.filter(m => NAMES[m]);
  main.forEach((metric, i) => addChart(metric, {wide: i === 0 || (i === main.length - 1 && main.length % 2 === 0 && !others.length)}));
  uncertain.forEach(metric => addChart(metric, {into: 'uncertainty-charts'}));
  own.forEach(metric => addChart(metric, {into: 'clients-charts'}));
  if (!others.length) return;
  const group = (label, list) => list.length ? [html('optgroup', {label}, ...list.map(m => html('option', {value: m}, nameOf(m))))] : [];
  const select = html('select', {'aria-label': 'Another metric'}, ...group('Measured by the method', extras), ...group('Of the round', book));
  const chart = addChart(extras[0] || book[0], {head: select, wide: main.length % 2 === 1});
  select.addEventListener('change', () => { chart.metric = select.value; draw(chart); });
}
const redraw = () => charts.forEach(draw);

function makeLegend() {
  const legend = byId('legend'), buttons = data.groups.map((label, g) => html('button', {type: 'button', title: 'Click: show or hide. Double-click: show only this.'}, swatch(g), label));
  const all = html('button', {type: 'button'}, 'show all');
  const press = () => { buttons.forEach((b, g) => b.setAttribute('aria-pressed', String(!view.hidden.has(g)))); all.hidden = !view.hidden.size; };
  const refresh = () => { press(); redraw(); };
  buttons.forEach((button, g) => {
    const emphasise = on => document.querySelectorAll('[data-g]').forEach(node => node.classList.toggle('dim', on && node.dataset.g !== String(g)));
    button.addEventListener('click', () => { if (!view.hidden.delete(g)) view.hidden.add(g); refresh(); });
    button.addEventListener('dblclick', () => { data.groups.forEach((_, other) => view.hidden.add(other)); view.hidden.delete(g); refresh(); });
    button.addEventListener('pointerenter', () => emphasise(!view.hidden.has(g)));
    button.addEventListener('pointerleave', () => emphasise(false));
  });
  legend.append(...buttons);
  if (data.groups.length < 2) { legend.hidden = true; return; }
  all.addEventListener('click', () => { view.hidden.clear(); refresh(); });
  legend.append(all);
  for (let g = SHOWN_AT_FIRST; g < data.groups.length; ++g) view.hidden.add(g);
  press();
}
function makeChoice(attribute, apply) {
  const buttons = [...document.querySelectorAll(`[data-${attribute}]`)];
  for (const button of buttons) button.addEventListener('click', () => {
    for (const b of buttons) b.setAttribute('aria-pressed', String(b === button));
    apply(button.dataset[attribute]);
    view.cross = null;
    redraw();
  });
}
function makeCurves() {
  const metrics = new Set(data.runs.flatMap(run => Object.keys(run.metrics)).filter(isCurve));
  if (!metrics.size) return;
  byId('curves').hidden = false;
  byId('spread').hidden = !data.groups.some((_, g) => data.runs.filter(run => run.group === g && run.counted).length > 1);
  makeCharts(metrics);
  makeLegend();
  for (const button of document.querySelectorAll('[data-x]')) {
    const cost = COSTS[button.dataset.x];
    button.hidden = Boolean(cost) && !cost.columns.some(column => metrics.has(column));
  }
  makeChoice('x', value => view.x = value);
  makeChoice('log', value => view.log = value === '1');
  makeChoice('seeds', value => view.seeds = value === '1');
  redraw();
  let width = byId('charts').clientWidth;
  new ResizeObserver(() => { if (byId('charts').clientWidth !== width) { width = byId('charts').clientWidth; redraw(); } }).observe(byId('charts'));
}

// ---- who holds what ------------------------------------------------------------------------------------------------
const LEVELS = 24;  // shades of the map: cells of one shade are one path, so ten thousand clients stay light
const short = (text, width) => textWidth(text) <= width ? text : text.slice(0, Math.max(1, Math.floor(text.length * width / textWidth(text)) - 1)) + '…';

function drawHeat(split) {
  const host = byId('heat'), rows = split.rows, classes = Math.max(...rows.map(r => r.length), 1);
  const names = Array.from({length: classes}, (_, c) => split.classes[c] || String(c));
  const number = r => Math.floor(r * split.clients / rows.length), some = split.clients > rows.length;
  const sizes = rows.map(r => r.reduce((a, b) => a + b, 0)), largest = Math.max(...sizes, 1);
  const most = rows.reduce((m, r) => Math.max(m, ...r), 0) || 1;
  const width = host.clientWidth, rowHeight = rows.length <= 20 ? 24 : rows.length <= 60 ? 14 : rows.length <= 150 ? 6 : 3;
  const left = Math.max(30, textWidth(String(split.clients - 1)) + 14), barRoom = Math.max(70, Math.min(220, width * 0.2));
  const cell = Math.max(2, Math.min(84, (width - left - barRoom - 16) / classes)), gap = rowHeight > 8 && cell > 6 ? 1.5 : rowHeight > 4 ? 0.5 : 0;
  const longest = Math.max(...names.map(textWidth)), slanted = longest > cell - 4, every = Math.ceil((slanted ? 19 : 0) / cell) || 1;
  const top = slanted ? 16 + Math.min(longest, 96) * 0.75 : 24, right = left + classes * cell, height = top + rows.length * rowHeight + 4;
  const total = right + 12 + barRoom;
  const root = svg('svg', {viewBox: `0 0 ${total} ${height}`, width: total, height, role: 'img', 'aria-label': `Examples of each class at each of ${rows.length} clients`});
  names.forEach((name, c) => { if (c % every) return; const x = left + (c + 0.5) * cell;
    root.append(svg('text', slanted ? {x: x + 3, y: top - 6, transform: `rotate(-48 ${x + 3} ${top - 6})`} : {x, y: top - 8, 'text-anchor': 'middle'}, short(name, 110))); });
  root.append(svg('text', {x: right + 12, y: top - 8}, 'examples'));
  root.append(svg('rect', {class: 'back', x: left, y: top, width: classes * cell, height: rows.length * rowHeight, rx: 2}));
  const shades = Array.from({length: LEVELS + 1}, () => []), step = [1, 5, 10, 20].find(n => n * rowHeight >= (n === 1 ? 13 : 24)) || 50, bars = [];
  rows.forEach((row, r) => {
    const y = top + r * rowHeight, bar = sizes[r] / largest * (barRoom - 52);
    row.forEach((count, c) => { if (count > 0) shades[Math.max(1, Math.round(Math.sqrt(count / most) * LEVELS))].push(
        `M${(left + c * cell + gap / 2).toFixed(1)} ${(y + gap / 2).toFixed(1)}h${(cell - gap).toFixed(1)}v${(rowHeight - gap).toFixed(1)}h${(gap - cell).toFixed(1)}z`); });
    bars.push(`M${right + 12} ${y + gap}h${bar.toFixed(1)}v${rowHeight - 2 * gap}h${(-bar).toFixed(1)}z`);
    if (r % step === 0) root.append(svg('text', {x: left - 8, y: y + Math.min(rowHeight / 2, 12) + 4, 'text-anchor': 'end'}, String(number(r))));
    if (rowHeight >= 12) root.append(svg('text', {x: right + 18 + bar, y: y + rowHeight / 2 + 4}, grouped(sizes[r])));
  });
  shades.forEach((cells, level) => { if (cells.length) root.append(svg('path', {class: 'cell', d: cells.join(''), 'fill-opacity': (0.06 + 0.94 * level / LEVELS).toFixed(3)})); });
  root.append(svg('path', {class: 'size', d: bars.join('')}));
  const over = svg('rect', {class: 'over', width: cell, height: rowHeight, visibility: 'hidden'}), tip = html('div', {class: 'tip', hidden: ''});
  root.append(over);
  host.replaceChildren(root, tip);
  root.addEventListener('pointermove', event => {
    const rect = root.getBoundingClientRect(), x = event.clientX - rect.left, y = event.clientY - rect.top;
    const r = Math.floor((y - top) / rowHeight), c = Math.floor((x - left) / cell), inside = c >= 0 && c < classes;
    tip.hidden = r < 0 || r >= rows.length;
    over.setAttribute('visibility', tip.hidden || !inside ? 'hidden' : 'visible');
    if (tip.hidden) return;
    over.setAttribute('x', left + c * cell); over.setAttribute('y', top + r * rowHeight);
    const held = rows[r].filter(n => n > 0).length, count = inside ? rows[r][c] || 0 : 0;
    tip.replaceChildren(html('b', {}, `Client ${number(r)}`), html('div', {}, html('i', {}, `${grouped(sizes[r])} examples of ${held} ${held === 1 ? 'class' : 'classes'}`)),
        ...(inside ? [html('div', {}, names[c], html('b', {}, grouped(count)), html('i', {}, sizes[r] ? `${(100 * count / sizes[r]).toFixed(1)} %` : ''))] : []));
    tip.style.left = `${Math.max(2, x + 16 + tip.offsetWidth > host.clientWidth + host.scrollLeft ? x - 16 - tip.offsetWidth : x + 16)}px`;
    tip.style.top = `${Math.max(0, Math.min(y + 12, host.scrollTop + host.clientHeight - tip.offsetHeight - 4))}px`;
  });
  root.addEventListener('pointerleave', () => { tip.hidden = true; over.setAttribute('visibility', 'hidden'); });
  const empty = sizes.filter(n => n === 0).length;
  byId('split-note').textContent = (some ? `${grouped(rows.length)} of ${grouped(split.clients)} clients, evenly chosen, with ` : `${rows.length} client${rows.length === 1 ? '' : 's'}, `) + `${grouped(sizes.reduce((a, b) => a + b, 0))} examples, ` +
      `from ${grouped(Math.min(...sizes))} to ${grouped(largest)} a client` + (empty ? `; ${empty} without any` : '') + '. A row is a client, a column a class.';
  byId('heat-key').replaceChildren('0', html('span', {class: 'ramp'}), `${grouped(most)} examples (square-root scale)`);
}
function makeSplit() {
  if (!data.splits.length) return;
  byId('split').hidden = false;
  const select = byId('split-run');
  data.splits.forEach((split, i) => select.append(html('option', {value: i}, split.name)));
  byId('split-choice').hidden = data.splits.length < 2;
  const show = () => drawHeat(data.splits[Number(select.value)]);
  select.addEventListener('change', show);
  show();
  let width = byId('heat').clientWidth;
  new ResizeObserver(() => { if (Math.abs(byId('heat').clientWidth - width) > 20) { width = byId('heat').clientWidth; show(); } }).observe(byId('split'));
}

// ---- tables --------------------------------------------------------------------------------------------------------
// A table that is wider than its place says so, and a head that is tapped says what its numbers mean: there is no hover on
// a phone.
function makeTables() {
  const tables = [...document.querySelectorAll('.table')];
  const hints = tables.map(table => {
    const hint = html('p', {class: 'hint', hidden: ''}, 'More columns to the right: scroll the table sideways →');
    table.after(hint);
    table.addEventListener('scroll', () => { hint.textContent = ''; }, {once: true, passive: true});
    table.addEventListener('click', event => {
      const head = event.target.closest('th[title]');
      if (!head) return;
      let meaning = hint.nextElementSibling;
      if (!meaning || !meaning.classList.contains('meaning')) hint.after(meaning = html('p', {class: 'meaning', role: 'status'}));
      meaning.replaceChildren(html('b', {}, head.textContent), `: ${head.title}`);
    });
    return hint;
  });
  const look = () => tables.forEach((table, i) => { hints[i].hidden = table.scrollWidth <= table.clientWidth + 1; });
  new ResizeObserver(look).observe(document.body);
  document.addEventListener('toggle', look, true);
  look();
}

// ---- theme ---------------------------------------------------------------------------------------------------------
function makeTheme() {
  const button = byId('theme'), order = ['auto', 'light', 'dark'];
  let kept = null;
  try { kept = localStorage.getItem('parley-theme'); } catch { /* a page opened from a file may have no storage */ }
  let theme = new URLSearchParams(location.search).get('theme') || kept || 'auto';
  if (!order.includes(theme)) theme = 'auto';
  const apply = () => {
    if (theme === 'auto') delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  button.addEventListener('click', () => {
    theme = order[(order.indexOf(theme) + 1) % order.length];
    try { localStorage.setItem('parley-theme', theme); } catch { /* as above */ }
    apply();
  });
  button.hidden = false;
  apply();
}

makeTheme();
makeTables();
makeCurves();
makeSplit();
})();

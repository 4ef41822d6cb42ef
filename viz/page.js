// The report page: everything is drawn from the two JSON documents in it. Times are picoseconds, sizes bytes.
'use strict';
(() => {
const run = JSON.parse(document.getElementById('run').textContent);
const details = JSON.parse(document.getElementById('details').textContent);

const style = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
// Halves go to the even neighbour, as in the terminal: 12.25 is 12.2.
function fixed(v, decimals) {
  const text = v.toFixed(decimals);
  return /^50*$/.test(v.toFixed(decimals + 40).slice(-40)) && '13579'.includes(text.slice(-1)) ? (v - 0.5 / 10 ** decimals).toFixed(decimals) : text;
}
const digits = v => v >= 99.95 || v === Math.floor(v) ? fixed(v, 0) : v >= 9.995 ? fixed(v, 1) : fixed(v, 2);
function time(ps) {
  const units = ['ps', 'ns', 'us', 'ms', 's'];
  let i = 0, v = ps;
  while (Math.abs(v) >= 999.5 && i + 1 < units.length) { v /= 1000; i++; }
  return digits(v) + ' ' + units[i];
}
function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let i = 0, v = n;
  while (v >= 1023.5 && i + 1 < units.length) { v /= 1024; i++; }
  return digits(v) + ' ' + units[i];
}
const percent = share => (100 * share).toFixed(share < 0.0995 ? 1 : 0) + ' %';
const count = n => { const p = ['', 'k', 'M', 'G', 'T', 'P', 'E']; let i = 0; while (n >= 999.5 && i + 1 < p.length) { n /= 1000; i++; } return digits(n) + ' ' + p[i]; };
// As the terminal shows names of C++ kernels: without what all of PyTorch's begin with.
const pretty = name => /^void |::/.test(name) ? name.replace(/^void /, '').replace(/\(anonymous namespace\)::|gpu_kernel_impl(_nocast)?<|\b(at::native|c10|std|at)::/g, '') : name;
// Names differ at both ends.
const shorten = (name, most = 64) => name.length > most ? name.slice(0, Math.ceil(most / 2)) + '…' + name.slice(1 - Math.floor(most / 2)) : name;
const ways = link => link && link.peers ? ['out', 'in'] : ['to device', 'from device'];
// Of black and white what is easier to read on @colour: WCAG's luminance, at which both contrast alike.
function written(colour) {
  const c = d3.rgb(colour), part = v => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(c.r) + 0.7152 * part(c.g) + 0.0722 * part(c.b) > 0.18 ? '#101315' : '#fff';
}
// One entry of a legend.
function explain(legend, colour, text) {
  const item = legend.append('span');
  item.append('i').style('background', colour);
  item.append('span').text(text);
}
const select = d3.select, share = ps => run.makespan_ps > 0 ? ps / run.makespan_ps : 0;

// What the values of an axis are as numbers ("x0.5", "16GiB", "819 GB/s", "50us"); null where one is none, or units differ in kind.
function magnitudes(values) {
  const prefixes = { '': 1, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, m: 1e-3, u: 1e-6, n: 1e-9, p: 1e-12 };
  const parsed = values.map(text => /^(x?)(\d+(?:\.\d+)?(?:e[+-]?\d+)?) ?(?:(Ki|Mi|Gi|Ti|[kKMGTmunp]|)(B\/s|B|s|Hz|))$/.exec(text));
  if (!parsed.every(m => m && m[1] + m[4] === parsed[0][1] + parsed[0][4])) return null;
  return parsed.map(m => m[2] * prefixes[m[3]]);
}
// The axis that a chart has from left to right: the one with most values that are numbers, four at least.
function chartAxis(ran) {
  let best = null;
  run.axes.forEach((name, i) => {
    const texts = [...new Set(ran.map(p => p.values[i]))], at = texts.length >= 4 ? magnitudes(texts) : null;
    if (at && (!best || texts.length > best.at.size)) best = { name, i, at: new Map(texts.map((text, k) => [text, at[k]])) };
  });
  return best;
}
// One scale of a chart: logarithmic where values differ so much that the small ones would lie on one another.
function chartScale(values, range, zero, far) {
  const low = d3.min(values), high = d3.max(values);
  return low > 0 && high / low > far ? d3.scaleLog().domain([low, high]).range(range) : d3.scaleLinear().domain([zero ? 0 : low, high > low || zero ? high || 1 : low + 1]).range(range);
}
// Five values along a scale, as far apart as one another.
const quarters = scale => { const [a, b] = scale.range(); return [0, 0.25, 0.5, 0.75, 1].map(t => scale.invert(a + t * (b - a))); };
// A chart of @series, [{colour, points: [{x, y, tip, bad}]}]. Ticks of x: [{at, text}].
function chart(holder, title, series, x, ticks, yText, lines) {
  const width = 620, height = 260, left = 84, right = 36, top = 18, bottom = 30, all = [].concat(...series.map(s => s.points));
  const cell = holder.append('div');
  cell.append('h2').text(title);
  const svg = cell.append('div').attr('class', 'panel').append('svg').attr('viewBox', '0 0 ' + width + ' ' + height).attr('role', 'img').attr('aria-label', title);
  x.range([left, width - right]);
  const y = chartScale(all.map(p => p.y), [height - bottom, top], true, 50);
  const text = (at, down, anchor, what) => svg.append('text').attr('x', at).attr('y', down).attr('text-anchor', anchor).text(what);
  for (const v of y.base ? quarters(y) : yText === time ? y.ticks(4) : d3.range(0, y.domain()[1] * 1.001, 2 ** Math.floor(Math.log2(y.domain()[1] / 3)))) {
    svg.append('line').attr('x1', left).attr('x2', width - right).attr('y1', y(v)).attr('y2', y(v));
    text(left - 8, y(v) + 4, 'end', v ? yText(v) : '0');
  }
  let end = -Infinity;
  for (const tick of ticks.slice().sort((a, b) => a.at - b.at)) {
    const half = 3.5 * tick.text.length;
    if (x(tick.at) - half < end + 8) continue;
    text(x(tick.at), height - 10, 'middle', tick.text);
    end = x(tick.at) + half;
  }
  for (const s of series) {
    const sorted = s.points.slice().sort((a, b) => a.x - b.x);
    if (lines) svg.append('path').attr('d', 'M' + sorted.map(p => x(p.x) + ',' + y(p.y)).join('L')).attr('stroke', s.colour).attr('stroke-dasharray', s.dash || null);
    for (const p of sorted)
      svg.append('circle').attr('cx', x(p.x)).attr('cy', y(p.y)).attr('r', 4).attr('stroke', p.bad ? 'var(--bad)' : s.colour).attr('fill', p.bad ? 'var(--card)' : s.colour).append('title').text(p.tip);
  }
}
// How the @k-th of many lines is drawn: ten colours, whole, then dashed, then dotted.
const lineDashes = ['', '8 4', '2 4'], mostLines = lineDashes.length * d3.schemeTableau10.length;
function lineStyle(k) {
  const colour = d3.schemeTableau10[k % d3.schemeTableau10.length], dash = lineDashes[Math.floor(k / d3.schemeTableau10.length)], [on, off] = dash.split(' ');
  return { colour, dash, swatch: dash ? 'repeating-linear-gradient(90deg, ' + colour + ' 0 ' + on / 2 + 'px, transparent ' + on / 2 + 'px ' + (on / 2 + off / 2) + 'px)' : colour };
}
// Time and memory by the axis that has numbers, a line for each combination of the others; and time against memory.
function charts(main, ran, measures) {
  const done = ran.filter(p => p.run.completed), memory = measures.find(m => m.name === 'hbm') || measures[1];
  if (done.length < 4) return;
  const numeric = chartAxis(done), groups = new Map(); // by the values of the other axes
  for (const p of done) {
    const name = p.values.filter((v, i) => numeric && i !== numeric.i).join(', ');
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(p);
  }
  const axis = groups.size <= mostLines ? numeric : null, lines = axis ? groups : new Map([['', done]]), names = [...lines.keys()];
  const styles = names.map((name, k) => lineStyle(k)), different = m => m ? new Set(done.map(m.value)).size : 0;
  const shown = axis ? [measures[0], memory].filter(m => different(m) > 1) : [], both = different(measures[0]) > 2 && different(memory) > 2;
  if (!shown.length && !both) return;
  const tip = p => p.values.join(', ') + '\n' + measures.slice(0, 3).map(m => m.name + ': ' + m.text(m.value(p))).join('\n') + (p.fits ? '' : '\ndoes not fit');
  const series = (x, y) => names.map((name, k) => ({ colour: axis ? styles[k].colour : 'var(--kernel)', dash: axis ? styles[k].dash : '', points: lines.get(name).map(p => ({ x: x(p), y: y(p), tip: tip(p), bad: !p.fits })) }));
  if (axis && names.length > 1) {
    const legend = main.append('div').attr('class', 'legend');
    names.forEach((name, k) => explain(legend, styles[k].swatch, name));
  }
  const holder = main.append('div').attr('class', 'columns charts');
  for (const m of shown) {
    const at = p => axis.at.get(p.values[axis.i]);
    chart(holder, m.name + ' by ' + axis.name, series(at, m.value), chartScale([...axis.at.values()], [0, 1], false, 8), [...axis.at].map(([text, v]) => ({ at: v, text })), m.text, true);
  }
  if (both) {
    const x = chartScale(done.map(memory.value), [0, 1], false, 50);
    chart(holder, 'time against ' + memory.name, series(memory.value, measures[0].value), x, quarters(x).map(v => ({ at: v, text: bytes(v) })), time, false);
  }
  if (done.some(p => !p.fits)) main.append('p').attr('class', 'hint').text('Hollow: does not fit.');
}
// Rows of a table, drawn by @draw: where they are very many, the rest of them once it is asked for.
const mostRows = 100;
function rows(body, list, draw) {
  list.slice(0, mostRows).forEach(draw);
  if (list.length <= mostRows) return;
  const more = body.append('tr');
  more.append('td').attr('class', 'more').append('button').text((list.length - mostRows).toLocaleString('en') + ' more').on('click', () => { more.remove(); list.slice(mostRows).forEach(draw); });
}
// Bars of every run, one table a measure. Each table has its own scale.
function bars(main, points, measures) {
  const ran = points.filter(p => p.run);
  for (const m of measures) {
    const largest = d3.max(ran, m.value) || 0;
    if (largest <= 4096) continue;
    main.append('h2').text(m.name);
    const values = new Set(ran.map(m.value));
    if (ran.length > 2 && values.size === 1 && !ran.some(p => m.limit && m.value(p) > m.limit(p))) { main.append('p').text(m.text(largest) + ' in every run'); continue; }
    const body = main.append('table').attr('class', 'sweep');
    rows(body, points, p => {
      const tr = body.append('tr');
      tr.append('td').attr('class', 'name').text(p.values.join(', '));
      if (!p.run) { tr.append('td').attr('class', 'n').text('-'); tr.append('td').text(m.name === 'time' ? p.error : ''); return; }
      const over = m.limit && m.limit(p) && m.value(p) > m.limit(p);
      tr.append('td').attr('class', 'n').text(m.name === 'time' && !p.run.completed ? 'stopped' : m.text(m.value(p)));
      tr.append('td').attr('class', 'bar').append('div').classed('none', !m.value(p)).style('width', 100 * m.value(p) / largest + '%').style('background', over ? 'var(--bad)' : m.colour);
      tr.append('td').text(m.name === 'time' ? 'bound by ' + (p.run.completed ? p.run.bound_by : 'space') + (!p.fits ? '; DOES NOT FIT' : p.run.may_fit ? '; may fit' : '') : (p.run.fullest_device === undefined ? '' : 'of device ' + p.run.fullest_device + (over ? ', ' : '')) + (over ? 'more than the ' + bytes(m.limit(p)) + ' there are' : ''));
    });
  }
}
// The bars, and buttons for the order of their runs: as given, or by a measure, the smallest first; what did not run comes last.
function ordered(main, points, measures) {
  const ran = points.filter(p => p.run), keys = [null].concat(measures.filter(m => new Set(ran.map(m.value)).size > 1 && d3.max(ran, m.value) > 4096));
  const choice = main.append('div').attr('id', 'order'), holder = main.append('div');
  const by = m => (a, b) => !a.run - !b.run || (a.run ? (m.name === 'time' ? b.run.completed - a.run.completed : 0) || m.value(a) - m.value(b) : 0);
  const buttons = choice.selectAll('button').data(keys).enter().append('button').text(m => m ? 'by ' + m.name : 'as given').on('click', draw);
  function draw(m) {
    buttons.classed('on', d => d === m).attr('aria-pressed', d => d === m);
    bars(holder.html(''), m ? points.slice().sort(by(m)) : points, measures);
  }
  if (keys.length < 2 || points.length < 4) choice.remove();
  draw(null);
}

// A sweep: its runs side by side, in charts where something may be seen in them, and as bars.
function sweep() {
  document.title = run.title + ' · echelon';
  const main = select('main').html('');
  main.append('header').append('h1').text(run.title);
  const points = run.points.filter(p => !p.interrupted);
  main.select('header').append('p').text(points.length + (run.interrupted ? ' of ' + run.points.length + ' runs (interrupted)' : ' runs') + '; what differs: ' + run.axes.join(', '));
  for (const answer of run.find ? run.find.answers : [])
    main.select('header').append('p').attr('class', 'answer').text(answer.text);
  const ran = run.points.filter(p => p.run), names = group => [...new Set(ran.flatMap(p => Object.keys(p.run[group] || {})))];
  const used = (p, name) => p.run.needs[name] ? p.run.needs[name].bytes : 0;
  const measures = [{ name: 'time', value: p => p.run.completed ? p.makespan_ps : 0, text: time, colour: 'var(--kernel)' }];
  for (const name of names('needs'))
    measures.push({ name: name, value: p => used(p, name), text: bytes, colour: 'var(--collective)', limit: p => (p.run.memories[name] || {}).available_bytes });
  for (const name of names('links')) {
    const way = ways(ran.map(p => p.run.links[name]).find(l => l));
    measures.push({ name: name + ' link ' + way[0], value: p => (p.run.links[name] || {}).bytes_forward || 0, text: bytes, colour: 'var(--copy)' });
    measures.push({ name: name + ' link ' + way[1], value: p => (p.run.links[name] || {}).bytes_backward || 0, text: bytes, colour: 'var(--copy)' });
  }
  charts(main, ran, measures);
  ordered(main, points, measures);
  if (run.changes && run.changes.length) {
    main.append('h2').text('What changed, and why');
    const label = i => run.points[i].values.join(', ');
    let last = null;
    for (const change of run.changes) {
      const text = change.why.join('\n');
      if (last && change.from !== undefined && text === last.text) { last.head.text(last.head.text() + ', ' + label(change.to)); continue; }
      const head = main.append('h3').text((change.from !== undefined ? label(change.from) + ' → ' : '') + label(change.to));
      const list = main.append('ul').attr('class', 'why');
      for (const line of change.why) list.append('li').text(line);
      last = change.from !== undefined ? { text, head } : null;
    }
  }
  main.append('h2').text('Where the time goes (shares of each critical path)');
  const parts = names('critical_path').filter(n => ran.some(p => p.run.critical_path[n] > 0));
  const shades = d3.scaleOrdinal(d3.schemeTableau10.concat('#1f3a6e', '#8c6d00', '#7a1f5c', '#0f6b5f', '#c3d94a', '#3d3d3d')).domain(parts);
  const legend = main.append('div').attr('id', 'legend');
  for (const part of parts) explain(legend, shades(part), part);
  const body = main.append('table').attr('class', 'sweep');
  rows(body, ran, p => {
    const tr = body.append('tr');
    tr.append('td').attr('class', 'name').text(p.values.join(', '));
    tr.append('td').attr('class', 'n').text(time(p.makespan_ps));
    const bar = tr.append('td').attr('class', 'stack').append('div'), longest = d3.sum(parts, part => p.run.critical_path[part] || 0) || 1;
    for (const part of parts) bar.append('span').attr('title', part + ': ' + time(p.run.critical_path[part] || 0) + ', ' + percent((p.run.critical_path[part] || 0) / longest)).style('width', 100 * (p.run.critical_path[part] || 0) / longest + '%').style('background', shades(part));
  });
}
if (run.points) return sweep();

// Charts share a time axis, and how far it is zoomed.
const GUTTER = 168, AXIS = 26;
let transform = d3.zoomIdentity;
const panels = [];
const full = Math.max(run.makespan_ps, 1);
const scale = width => transform.rescaleX(d3.scaleLinear().domain([0, full]).range([GUTTER, width - 14]));

function panel(id, label, height, draw, hit) {
  const holder = document.querySelector(id);
  const canvas = select(holder).append('canvas').attr('tabindex', 0).attr('role', 'img').attr('aria-label', label).node();
  const item = { holder, canvas, height, draw, hit };
  panels.push(item);
  canvas.addEventListener('mousemove', event => {
    const box = canvas.getBoundingClientRect(), text = item.hit(event.clientX - box.left, event.clientY - box.top, scale(box.width));
    const tip = document.getElementById('tip');
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.whiteSpace = 'pre-line';
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 10)) + 'px';
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 10)) + 'px';
  });
  canvas.addEventListener('mouseleave', () => { document.getElementById('tip').hidden = true; });
  return item;
}

const zoom = d3.zoom().scaleExtent([1, 1e6]);
function redraw() {
  for (const item of panels) {
    const width = item.holder.clientWidth, height = typeof item.height === 'function' ? item.height() : item.height, ratio = devicePixelRatio || 1;
    if (item.canvas.width !== Math.round(width * ratio) || item.canvas.height !== Math.round(height * ratio)) {
      item.canvas.width = Math.round(width * ratio);
      item.canvas.height = Math.round(height * ratio);
      item.canvas.style.width = width + 'px';
      item.canvas.style.height = height + 'px';
    }
    const context = item.canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const x = scale(width);
    axis(context, x, width, height);
    item.draw(context, x, width, height);
  }
}

function axis(context, x, width, height) {
  // Ticks of a nice step in the unit that fits the step.
  const ticks = x.ticks(Math.max(2, Math.floor((width - GUTTER) / 110)));
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : full, units = ['ps', 'ns', 'us', 'ms', 's'];
  let unit = 0, size = 1;
  const largest = Math.max(Math.abs(ticks[ticks.length - 1] || 0), step);
  while (largest >= size * 1000 && unit + 1 < units.length) { size *= 1000; unit++; }
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  context.textAlign = 'center';
  for (const tick of ticks) {
    const at = Math.round(x(tick)) + 0.5;
    if (at < GUTTER) continue;
    context.strokeStyle = style('line');
    context.beginPath();
    context.moveTo(at, 0);
    context.lineTo(at, height - AXIS);
    context.stroke();
    context.fillStyle = style('soft');
    context.fillText((tick / size).toFixed(decimals) + ' ' + units[unit], Math.min(at, width - 34), height - AXIS / 2);
  }
}

// As much of a name as has room; where there is some, of both its ends.
function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const cut = n => n < 12 ? text.slice(0, n) + '…' : shorten(text, n + 1);
  let low = 0, high = text.length - 1;
  while (low < high) { const middle = (low + high + 1) >> 1; if (context.measureText(cut(middle)).width <= width) low = middle; else high = middle - 1; }
  return low > 0 ? cut(low) : '';
}

// The keyboard does what the mouse does.
function onKey(event) {
  const width = event.target.clientWidth, middle = (GUTTER + width) / 2, canvas = select(event.target);
  const by = { '+': 1.5, '=': 1.5, ArrowUp: 1.5, '-': 1 / 1.5, _: 1 / 1.5, ArrowDown: 1 / 1.5 }[event.key];
  const move = { ArrowLeft: 1, ArrowRight: -1 }[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey || (!by && !move && event.key !== '0' && event.key !== 'Home')) return;
  event.preventDefault();
  if (by) canvas.call(zoom.scaleBy, by, [middle, 0]);
  else if (move) canvas.call(zoom.translateBy, move * (width - GUTTER) / 5 / transform.k, 0);
  else { transform = d3.zoomIdentity; sync(); redraw(); }
}
function sync() { for (const item of panels) item.canvas.__zoom = transform; }
// Once all panels are there.
function start() {
  for (const item of panels) {
    item.canvas.addEventListener('keydown', onKey);
    select(item.canvas).call(zoom).on('dblclick.zoom', null).on('dblclick', () => { transform = d3.zoomIdentity; sync(); redraw(); });
  }
  zoom.on('zoom', () => { transform = d3.event.transform; sync(); redraw(); });
  const limit = () => { const width = document.querySelector('#timeline').clientWidth; zoom.translateExtent([[GUTTER, 0], [width - 14, 1]]).extent([[GUTTER, 0], [width - 14, 1]]); };
  addEventListener('resize', () => { limit(); redraw(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  limit();
  redraw();
}

// Ranks of one program that were replayed together: what each does when, and what each needs.
function ranks() {
  document.title = run.title + ' · echelon';
  const main = select('main').html(''), all = run.ranks, n = all.length, shared = run.share && run.share !== 'none';
  const noun = run.devices_of_one_process ? 'device' : shared ? 'process' : 'rank', nouns = shared ? 'processes' : noun + 's';
  const head = main.append('header');
  head.append('h1').text(run.title);
  head.append('p').text(n + ' ' + nouns + (run.devices_of_one_process ? ' of one process, ' : shared ? (run.share === 'mps' ? ' side by side (MPS)' : ' by turns (without MPS)') + ' on one ' : ' on ') + [...new Set(all.map(r => r.device))].join(', '));
  const refused = all.filter(r => !r.fits).map(r => r.rank);
  const verdict = main.append('section').attr('id', 'verdict');
  verdict.append('p').html(run.fits ? '<b class="good">Every ' + noun + ' fits.</b> ' : '<b class="bad">It does not fit</b> ').append('span')
    .text((run.fits ? '' : (shared ? '' : 'on ') + (refused.length > 1 ? nouns : noun) + ' ' + refused.join(', ') + '. ') + 'It takes ' + time(run.makespan_ps) + (run.steps ? ', step ' + run.step + ' of ' + run.steps + ' takes ' + time(run.step_ps) : '') + '; ' + (shared ? 'together they have at most ' + bytes(run.fullest_bytes) + '; ' : '') +
      percent(run.waits_share) + ' of all ' + nouns + "' time " + (run.steps ? 'in that step ' : '') + 'is waiting for one another.');
  if (run.without_changes) verdict.append('p').attr('class', 'hint').text(shared ? 'Each alone: ' + time(run.without_changes.makespan_ps) + ' the longest' : 'Without what was changed: ' + time(run.without_changes.step_ps) + ', ' + bytes(run.without_changes.fullest_bytes) + ' on the fullest ' + noun + ', ' + percent(run.without_changes.waits_share) + ' waiting');
  const words = ['kernels or copies run', 'communication that nothing hides', 'waits for other ' + nouns, 'host, idle'], colours = ['kernel', 'collective', 'bad', 'line'].map(c => 'var(--' + c + ')');
  const parts = r => [r.step.kernels_ps, r.step.communication_alone_ps, r.step.waits_for_ranks_ps, r.step.idle_ps];
  main.append('h2').text(nouns[0].toUpperCase() + nouns.slice(1) + (run.steps ? ', in step ' + run.step : ''));
  const legend = main.append('div').attr('id', 'legend');
  words.forEach((word, i) => explain(legend, colours[i], word));
  const body = main.append('table').attr('class', 'ranks'), longest = d3.max(all, r => r.step.time_ps) || 1;
  const row = body.append('tr');
  for (const title of ['', run.steps ? 'step' : 'time', '', 'computes', 'communicates', 'waits', 'memory at its fullest', '']) row.append('th').text(title);
  all.forEach((r, i) => {
    const tr = body.append('tr'), m = r.memory || { peak_live_bytes: 0, peak_reserved_bytes: 0, available_bytes: 0 };
    tr.append('td').attr('class', 'name').append('a').attr('href', String(i).padStart(3, '0') + '/report.html').text(noun + ' ' + r.rank);
    tr.append('td').attr('class', 'n').text(time(r.step.time_ps));
    const bar = tr.append('td').attr('class', 'stack').append('div');
    parts(r).forEach((ps, k) => bar.append('span').attr('title', words[k] + ': ' + time(ps) + ', ' + percent(ps / (r.step.time_ps || 1))).style('width', 100 * ps / longest + '%').style('background', colours[k]));
    parts(r).slice(0, 3).forEach(ps => tr.append('td').attr('class', 'n').text(time(ps)));
    const limit = Math.max(m.available_bytes, m.peak_reserved_bytes, 1), memory = tr.append('td').attr('class', 'stack memory').append('div').attr('title', bytes(m.peak_live_bytes) + ' live, ' + bytes(m.peak_reserved_bytes) + ' reserved, of ' + bytes(m.available_bytes));
    memory.append('span').style('width', 100 * m.peak_live_bytes / limit + '%').style('background', r.fits ? 'var(--live)' : 'var(--bad)');
    memory.append('span').style('width', 100 * Math.max(m.peak_reserved_bytes - m.peak_live_bytes, 0) / limit + '%').style('background', 'var(--reserved)');
    tr.append('td').text(bytes(m.peak_live_bytes) + (m.available_bytes ? ' of ' + bytes(m.available_bytes) : '') + (r.fits ? '' : ': does not fit'));
  });
  main.append('h2').text('What each does when');
  main.append('p').attr('class', 'hint').text('Scroll to zoom, drag to move, double click to see everything; on the keyboard + and -, arrows and 0. Streams, arrows between ' + nouns + ' and memories: timeline.pftrace in ui.perfetto.dev.');
  main.append('div').attr('id', 'timeline').attr('class', 'panel');
  const LANE = 26;
  panel('#timeline', 'What each ' + noun + ' does over time', n * LANE + AXIS + 8, (context, x, width) => {
    const paint = [style('kernel'), style('collective'), style('bad'), style('line')];
    all.forEach((r, i) => {
      const y = 4 + i * LANE, runs = details.ranks[i];
      context.save();
      context.beginPath();
      context.rect(GUTTER, y, width - GUTTER, LANE);
      context.clip();
      // Of a pixel: the state that is longest in it.
      let pixel = -1, sums = [0, 0, 0, 0];
      const flush = () => { const most = d3.max(sums); if (pixel >= 0 && most > 0) { context.fillStyle = paint[sums.indexOf(most)]; context.fillRect(pixel, y + 3, 1, LANE - 6); } };
      for (let k = 0; k + 1 < runs.length; k++) {
        const state = runs[k][1], a = x(runs[k][0]), b = x(runs[k + 1][0]);
        if (state >= paint.length || b < GUTTER || a > width) continue;
        for (let p = Math.max(Math.floor(a), GUTTER - 1); p <= Math.min(Math.floor(b), width); p++) {
          if (p !== pixel) {
            flush();
            pixel = p;
            sums = [0, 0, 0, 0];
            if (p > a && p + 1 < b) { // whole pixels at once
              const end = Math.min(Math.floor(b), Math.ceil(width));
              context.fillStyle = paint[state];
              context.fillRect(p, y + 3, end - p, LANE - 6);
              p = end - 1;
              pixel = -1;
              continue;
            }
          }
          sums[state] += Math.max(Math.min(b, p + 1) - Math.max(a, p), 0);
        }
      }
      flush();
      context.restore();
      context.fillStyle = style('ink');
      context.textAlign = 'right';
      context.fillText(noun + ' ' + r.rank, GUTTER - 10, y + LANE / 2);
    });
  }, (px, py, x) => {
    const i = Math.floor((py - 4) / LANE), runs = details.ranks[i];
    if (!runs || px < GUTTER) return null;
    const at = x.invert(px), k = d3.bisector(s => s[0]).right(runs, at) - 1;
    if (k < 0 || k + 1 >= runs.length || runs[k][1] >= words.length) return null;
    return noun + ' ' + all[i].rank + ': ' + (runs[k][1] === 2 && runs[k][2] >= 0 ? 'waits for ' + noun + ' ' + runs[k][2] : words[runs[k][1]]) + '\n' + time(runs[k + 1][0] - runs[k][0]) + ' from ' + time(runs[k][0]);
  });
  const waits = all.flatMap(r => r.waits_for.map(w => ({ of: r.rank, w }))).sort((a, b) => b.w.time_ps - a.w.time_ps);
  if (waits.length) {
    main.append('h2').text('Who waits for whom' + (run.steps ? ' in that step' : '') + ', and what that one does meanwhile');
    const list = main.append('table').attr('class', 'ranks');
    for (const { of, w } of waits.slice(0, 16)) {
      const tr = list.append('tr'), m = w.meanwhile, bar = [m.kernels_ps, m.communication_alone_ps, m.waits_for_ranks_ps, m.idle_ps];
      tr.append('td').attr('class', 'name').text(noun + ' ' + of + ' for ' + noun + ' ' + w.rank);
      tr.append('td').attr('class', 'n').text(time(w.time_ps));
      const stack = tr.append('td').attr('class', 'stack').append('div');
      bar.forEach((ps, k) => stack.append('span').attr('title', words[k] + ': ' + time(ps)).style('width', 100 * ps / (waits[0].w.time_ps || 1) + '%').style('background', colours[k]));
      tr.append('td').text(w.times + (w.times > 1 ? ' times' : ' time') + ', most at ' + shorten(w.most_at, 40));
    }
    if (waits.length > 16) main.append('p').attr('class', 'hint').text('and ' + (waits.length - 16) + ' more');
    const slow = run.waited_for_longest;
    if (slow) main.append('p').text(noun[0].toUpperCase() + noun.slice(1) + ' ' + slow.rank + ' is waited for longest, ' + time(slow.waited_ps) + ' by all together; its kernels take ' + time(slow.kernels_ps) + ', those of the others ' + time(slow.kernels_of_others_ps) + (n > 2 ? ' at the middle' : '') +
      (slow.most_at ? ', most of it at ' + shorten(pretty(slow.most_at)) + ': ' + time(slow.most_at_ps) + ' against ' + (slow.most_at_of_others_ps ? time(slow.most_at_of_others_ps) : 'none') : '') + '.');
  }
  main.append('h2').text('Remarks');
  const remarks = main.append('ul').attr('id', 'remarks');
  for (const remark of run.remarks) remarks.append('li').text((remark.ranks.length > 1 ? nouns : noun) + ' ' + remark.ranks.join(', ') + ': ' + remark.text);
  if (!run.remarks.length) remarks.append('li').text('none');
  const p = all[0].run.provenance;
  main.append('footer').attr('id', 'provenance').text('echelon ' + p.echelon + ' · ' + [...new Set(all.map(r => r.run.provenance.trace))].join(', ') + ' · engine ' + p.engine + ' ' + p.engine_version);
  start();
}
if (run.ranks) return ranks();

// Head
document.title = run.title + ' · echelon';
select('#title').text(run.title);
select('#device').text('on ' + run.provenance.device + (run.provenance.settings.length ? ', with ' + run.provenance.settings.join(', ') : '') +
  (run.provenance.passes.length ? ', after ' + run.provenance.passes.join(', ') : ''));

const verdict = select('#verdict');
const head = verdict.append('p');
head.append('b').attr('class', !run.fits ? 'bad' : Object.keys(run.needs).length ? 'good' : null).text(details.verdict);
head.append('span').text(' ' + details.time_verdict + ' ' + time(run.makespan_ps) +
    (run.makespan_ps > 0 ? ', bound by ' + run.bound_by + ' for ' + percent(share(run.critical_path[run.bound_by] || 0)) + ' of the critical path.' : '.'));
if (run.refused) verdict.append('p').text('The compiler refused it: ' + run.refused);
for (const [name, need] of Object.entries(run.needs))
  if (need.planned && !need.fits)
    verdict.append('p').text('The compiled program needs ' + bytes(need.bytes) + ' of ' + name + ', which has ' + bytes(need.available_bytes) + ': ' + bytes(need.bytes - need.available_bytes) + ' too much.');
// A plan that reaches beyond its memory is told by what it needs, not by the first buffer that lies outside.
if (run.failure && !(run.needs[run.failure.memory] && run.needs[run.failure.memory].planned && !run.needs[run.failure.memory].fits))
  verdict.append('p').text((run.failure.before_the_step ? 'In the steps before, ' : 'At ' + time(run.failure.time_ps) + ', ') + (run.failure.buffer || run.failure.op || 'the plan') + ' asks for ' + bytes(run.failure.asked_bytes) + ' in ' + run.failure.memory +
    ': ' + bytes(run.failure.live_bytes) + ' of ' + bytes(run.failure.limit_bytes) + ' are live (' + run.failure.reason + ').');

for (const line of details.said) verdict.append('p').attr('class', 'hint').text(line);

if (run.without_changes) {
  verdict.append('p').attr('class', 'hint').text('Without ' + (run.provenance.settings.concat(run.provenance.passes).join(', ') || 'that allocator') + ': ' + time(run.without_changes.makespan_ps) + (run.without_changes.fits ? '' : ', and it does not fit'));
  const list = verdict.append('ul').attr('class', 'why');
  for (const line of run.without_changes.why) list.append('li').text(line);
}

function card(name, value, note) {
  const c = select('#cards').append('div').attr('class', 'card');
  c.append('div').attr('class', 'name').text(name);
  c.append('div').attr('class', 'value').text(value);
  c.append('div').attr('class', 'note').text(note);
}
card(run.completed ? 'Time' : 'Stopped after', time(run.makespan_ps), (run.completed ? 'at least ' : 'the whole of it: at least ') + time(run.lower_bound_ps) + ' here; ' + time(run.serial_ps) + ' with no overlap');
const steps = run.steps || [];
if (steps.length > 1) {
  const sorted = steps.map(s => s.duration_ps).sort((a, b) => a - b);
  card('Step', time(sorted[steps.length >> 1]), 'the middle one of ' + steps.length + ', which take ' + time(sorted[0]) + ' to ' + time(sorted[steps.length - 1]));
}
const minor = m => m.peak_live_bytes < 65536 && m.available_bytes > 0 && m.peak_live_bytes * 50 < m.available_bytes; // a few scalars
for (const [name, m] of Object.entries(run.memories)) {
  const need = run.needs[name] ? run.needs[name].bytes : m.peak_live_bytes;
  if (!need || minor(m)) continue;
  card(name, bytes(need), (m.available_bytes ? percent(need / m.available_bytes) + ' of ' + bytes(m.available_bytes) : 'not limited') + (need > m.peak_live_bytes ? '; ' + bytes(m.peak_live_bytes) + ' live at most' : '') + (m.fragmentation > 0.0005 ? '; ' + percent(m.fragmentation) + (m.allocator === 'fixed' ? ' of what is reserved not in use then' : ' lost to fragmentation') : ''));
}
for (const [name, l] of Object.entries(run.links)) {
  if (!l.transfers) continue;
  card(name + ' link', bytes(l.bytes_forward + l.bytes_backward), bytes(l.bytes_forward) + ' ' + ways(l)[0] + ', ' + bytes(l.bytes_backward) + ' ' + ways(l)[1] + '; busy ' + percent(share(l.busy_ps)));
}
card('Operations', run.ops.toLocaleString('en'), 'engine ' + run.provenance.engine + ' ' + run.provenance.engine_version);

// Tables with bars
function table(id, rows) {
  const body = select(id).append('table');
  if (!rows.length) select(id).append('p').attr('class', 'hint').text('nothing');
  for (const row of rows) {
    const tr = body.append('tr');
    tr.append('td').attr('class', 'name').append('div').attr('class', 'clip').attr('title', row.title || row.name).text(shorten(row.name, 80));
    tr.append('td').attr('class', 'n').text(row.value);
    if (row.share !== undefined) {
      tr.append('td').attr('class', 'n').text(percent(row.share));
      tr.append('td').attr('class', 'bar').append('div').classed('none', !row.share).style('width', Math.min(100, 100 * row.share) + '%').style('background', row.colour || null);
    }
    if (row.note !== undefined) tr.append('td').append('div').attr('class', 'clip').attr('title', row.note).text(row.note);
  }
}
table('#critical', Object.entries(run.critical_path).filter(e => e[1] > 0).map(([name, ps]) => ({ name, value: time(ps), share: share(ps) })));
for (const [name, ps] of Object.entries(run.critical_path))
  if (ps > 0 && details.meanings[name]) select('#critical').append('p').attr('class', 'hint').text(`${name}: ${details.meanings[name]}`);
const waited = d3.sum(Object.values(run.waits));
table('#waits', Object.values(run.waits).map((ps, i) => [details.reasons[i], ps]).filter(e => e[1] > 0).sort((a, b) => b[1] - a[1]).map(([name, ps]) => ({ name: name, value: time(ps), share: ps / waited, colour: 'var(--wait)' })));
const busy = [];
for (const [name, u] of Object.entries(run.units)) if (u.flops > 0) busy.push({ name: name + ' unit (' + count(u.flops) + 'OP)', value: time(u.busy_ps), share: u.utilisation });
for (const [name, m] of Object.entries(run.memories))
  if (m.traffic_read_bytes + m.traffic_written_bytes > 0) busy.push({ name: name + ' port (' + bytes(m.traffic_read_bytes) + ' read, ' + bytes(m.traffic_written_bytes) + ' written' + (m.traffic_cached_bytes ? '; ' + bytes(m.traffic_cached_bytes) + ' of that in L2' : '') + ')', value: time(m.busy_ps), share: m.utilisation, colour: 'var(--collective)' });
for (const [name, l] of Object.entries(run.links)) {
  if (l.bytes_forward) busy.push({ name: name + ' link ' + ways(l)[0] + ' (' + bytes(l.bytes_forward) + ')', value: time(l.busy_forward_ps), share: share(l.busy_forward_ps), colour: 'var(--copy)' });
  if (l.bytes_backward) busy.push({ name: name + ' link ' + ways(l)[1] + ' (' + bytes(l.bytes_backward) + ')', value: time(l.busy_backward_ps), share: share(l.busy_backward_ps), colour: 'var(--copy)' });
}
table('#busy', busy);
const told = steps.length > 8 ? steps.slice(0, 4).concat(steps.slice(-3)) : steps; // the first and the last are what differs
if (!steps.length) select(select('#steps').node().parentNode).remove();
table('#steps', told.map(s => ({ name: s.name, title: s.name + ', ' + s.kernels + ' kernels', value: time(s.duration_ps), share: share(s.duration_ps), note: [s.peak_live_bytes ? bytes(s.peak_live_bytes) : '', s.recorded_ps ? 'recorded: ' + time(s.recorded_ps) : ''].filter(t => t).join('; ') })));
if (told.length < steps.length) select('#steps').append('p').attr('class', 'hint').text('and ' + (steps.length - told.length) + ' more in between');
const held = select('#held');
for (const [memory, m] of Object.entries(run.memories)) {
  const holds = Object.entries(m.holds || {}).filter(e => e[1].bytes > 0);
  if (!m.peak_live_bytes || minor(m) || (holds.length === 1 && holds[0][0] === 'buffers')) continue; // nothing known of any purpose
  const all = d3.sum(holds, e => e[1].bytes) || 1;
  const id = 'held-' + memory.replace(/[^a-z0-9]/gi, '-');
  held.append('h3').text(memory + ', ' + bytes(m.peak_live_bytes) + ' live at ' + time(m.peak_at_ps) + (m.padding && m.padding.padding_bytes > 0.01 * m.padding.bytes ? '; ' + bytes(m.padding.padding_bytes) + ' of it padding' : ''));
  held.append('div').attr('id', id);
  table('#' + id, holds.slice(0, 6).map(([name, h]) => ({ name: name, value: bytes(h.bytes), share: h.bytes / all, colour: 'var(--collective)', note: h.largest.slice(0, 2).join(', ') + (h.buffers > 2 ? ' and ' + (h.buffers - Math.min(2, h.largest.length)) + ' more' : '') })));
}
if (held.select('h3').empty()) select('#purposes').remove();
// Buffers at the peak, and what padding costs there.
for (const [memory, m] of Object.entries(run.memories)) {
  if (!m.peak_live_bytes || minor(m)) continue;
  const id = memory.replace(/[^a-z0-9]/gi, '-');
  select('#holders').append('h3').text(memory + ', ' + bytes(m.peak_live_bytes) + ' live at ' + time(m.peak_at_ps));
  select('#holders').append('div').attr('id', 'holders-' + id);
  table('#holders-' + id, m.held_by.filter((h, i) => i === 0 || h.bytes * 1000 >= m.peak_live_bytes).map(h => ({ name: h.name + (h.buffers > 1 ? ', ' + h.buffers + ' of them' : ''), value: bytes(h.bytes), share: h.bytes / m.peak_live_bytes, colour: 'var(--collective)', note: [h.role === 'unknown' ? '' : h.role, h.shape, h.source, h.op_name].filter(t => t).join('  ') })));
  const others = m.peak_live_bytes - d3.sum(m.held_by.filter((h, i) => i === 0 || h.bytes * 1000 >= m.peak_live_bytes), h => h.bytes);
  if (others > 0.01 * m.peak_live_bytes) select('#holders').append('p').attr('class', 'hint').text('and ' + bytes(others) + ' in others, none of them larger');
  if (!m.padding || m.padding.padding_bytes < 16384 || m.padding.padding_bytes * 100 < m.padding.bytes) continue;
  const part = select('#padding > div');
  part.append('h3').text(memory + ': ' + bytes(m.padding.padding_bytes) + ' of ' + bytes(m.padding.bytes) + ' is padding (' + percent(m.padding.padding_bytes / m.padding.bytes) + ')');
  part.append('div').attr('id', 'padding-' + id);
  table('#padding-' + id, m.padding.buffers.map(b => ({ name: b.name, value: bytes(b.padding_bytes), share: b.padding_bytes / b.bytes, colour: 'var(--copy)', note: b.shape + (b.stored ? ', dimension ' + b.dimension + ': ' + b.size + ' stored as ' + b.stored : '') + (b.better ? ' → ' + b.better + ' would take ' + bytes(b.better_bytes) + ' instead of ' + bytes(b.bytes) : '') })));
}
if (select('#padding > div').select('h3').empty()) select('#padding').remove();
for (const remark of run.remarks) select('#remarks').append('li').text(remark);
if (!run.remarks.length) select('#remarks').append('li').text('none');
const p = run.provenance;
select('#provenance').text('echelon ' + p.echelon + ' · ' + p.trace + ' (' + p.format + ', ' + p.trace_hash + ') · device ' + p.device + ' (' + p.device_hash + ') · engine ' + p.engine + ' ' + p.engine_version +
  ' · kernels priced by ' + (Object.entries(p.kernels_priced_by).map(e => e[1] + ' ' + e[0]).join(', ') || 'nothing') + (p.options ? ' · ' + p.options : ''));

// What the time inside kernels is spent on
const stalls = run.kernel_stalls || [], stallKinds = [['compute', 'working', '#4c78a8'], ['hbm', 'bytes of main memory', '#f2a154'], ['space', 'the same bytes again: no room on chip', '#e0695f'],
  ['vmem_port', 'the on-chip port', '#72b7b2'], ['dma_latency', "copies' latency", '#d9b73a'], ['fill_drain', 'first fetch and last store', '#a07ab8'], ['step_overhead', 'grid steps', '#8a9199'], ['link', 'bytes for other devices', '#b279a2']].filter(k => k[0] !== 'link' || stalls.some(row => row.link_ps > 0));
if (!stalls.length) select('#stalls').remove();
for (const [kind, words, colour] of stalls.length ? stallKinds : []) explain(select('#stalls .legend'), colour, words);
const stalled = stalls.length ? select('#stalls .rows').append('table') : null;
for (const row of stalls.slice(0, 11)) {
  const tr = stalled.append('tr'), whole = d3.sum(stallKinds, k => row[k[0] + '_ps'] || 0) || 1;
  tr.append('td').attr('class', 'name').text((row.name || 'all kernels') + (row.runs > 1 ? ', ' + row.runs + ' times' : ''));
  tr.append('td').attr('class', 'n').text(time(row.time_ps));
  const bar = tr.append('td').attr('class', 'stack').append('div');
  for (const [kind, words, colour] of stallKinds)
    bar.append('span').attr('title', words + ': ' + percent((row[kind + '_ps'] || 0) / whole)).style('width', 100 * (row[kind + '_ps'] || 0) / whole + '%').style('background', colour);
}

// Of several whose names differ in their number: "fusion.*"
const oneOf = (name, several) => several && /.\.\d+$/.test(name) ? name.replace(/\.\d+$/, '.*') : pretty(name);

// Which operation waited for which copy or collective while nothing computed
const transfers = run.transfer_waits;
if (!transfers) select('#transfers').remove();
else {
  select('#transfers .hint').text(time(transfers.total_ps) + ', ' + percent(transfers.total_ps / run.makespan_ps) + ' of the time' + (transfers.least_ps ? '; at least ' + time(transfers.least_ps) + ' of it stays, whenever transfers are asked for' : '') + '.');
  table('#awaited', transfers.longest.slice(0, 12).map(w => ({ name: w.waiter ? oneOf(w.waiter.name, w.pairs_alike) + (w.waiter.from ? ' (' + w.waiter.from + ')' : '') : "the program's end", title: (w.waiter || {}).name, value: time(w.time_ps), share: share(w.time_ps), colour: 'var(--wait)',
    note: 'for ' + oneOf(w.transfer.name, w.pairs_alike) + (w.transfer.from ? ', ' + w.transfer.from : '') + ', ' + bytes(w.transfer.bytes) + (w.times > 1 ? ', ' + w.times + ' times; the longest' : '') +
      (w.own_queue ? ': in its own queue' : ': could begin ' + (w.ahead_ps ? time(Math.abs(w.ahead_ps)) + (w.ahead_ps > 0 ? ' before' : ' into the wait') : 'only then') + (w.behind_ps ? ', ' + time(w.behind_ps) + ' behind others' : '') + (w.peers_ps ? ', ' + time(w.peers_ps) + ' for other devices' : '')) + ', took ' + time(w.took_ps) })));
  if (transfers.pairs > 12) select('#awaited').append('p').attr('class', 'hint').text('and ' + (transfers.pairs - 12) + ' more');
}

// Modules, optimizers and operators that asked for work
const asked = (run.askers || []).map(a => ({ name: a.name, all: a.forward_ps + a.again_ps + a.backward_ps, parts: [['forward', a.forward_ps], ['recomputed', a.again_ps], ['backward', a.backward_ps]].filter(p => p[1] > 0) }));
if (!asked.length) select('#asked').remove();
else table('#askers', asked.slice(0, 16).map(a => ({ name: a.name, title: a.name, value: time(a.all), share: share(a.all), note: a.parts.length > 1 || a.parts[0][0] !== 'forward' ? a.parts.map(p => p[0] + ' ' + time(p[1])).join(', ') : '' })));

// Longest operations, summed by name, iterations that are not drawn included
const bounds = {}; // by kind and name: a copy is called by the array that a kernel of that name makes
for (const s of details.slices) {
  const key = details.kinds[s[4]] + ' ' + details.names[s[1]];
  if (s[5] >= 0 && !(key in bounds)) bounds[key] = ', bound by ' + details.bounds[s[5]];
}
table('#longest', (run.longest_alike || run.longest).slice(0, 12).map(o => ({ name: oneOf(o.name, o.names_alike), title: o.names_alike ? o.names_alike + ' such, the longest: ' + o.name : o.name, value: time(o.time_ps), share: share(o.time_ps),
  note: o.kind + (o.times > 1 ? ', ' + o.times + ' times' : '') + (bounds[o.kind + ' ' + o.name] || '') + (o.source ? ', ' + o.source : '') })));

if (!run.longest.length) select('#slowest').remove();

// Charts
const kindColour = kind => style({ kernel: 'kernel', copy: 'copy', collective: 'collective', wait: 'wait' }[details.kinds[kind]] || 'other');
const legend = select('#legend');
for (const kind of new Set(details.slices.map(s => s[4])))
  explain(legend, kindColour(kind), details.kinds[kind]);
if (details.slices_left_out) legend.append('span').text(details.slices_left_out.toLocaleString('en') + ' shorter ones are not drawn');
if (details.skips.length) explain(legend, style('line'), 'iterations that repeat what is left of them');

// Operations whose names hold what is looked for; null: nothing is.
let wanted = null;
document.getElementById('find').addEventListener('input', event => {
  const text = event.target.value.trim().toLowerCase();
  wanted = text ? details.names.map(name => name.toLowerCase().includes(text)) : null;
  const hits = text ? details.slices.filter(s => wanted[s[1]] && details.tracks[s[0]].group === 'Queues') : [];
  document.getElementById('found').textContent = !text ? '' : hits.length ? hits.length.toLocaleString('en') + (hits.length > 1 ? ' operations, ' : ' operation, ') + time(d3.sum(hits, s => s[3])) + ' in all' + (details.slices_left_out ? ', of those that are drawn' : '') : details.slices_left_out ? 'none of those that are drawn' : 'none';
  redraw();
});

// Timeline: rows in order of tracks, links below queues.
const LANE = 26, byTrack = details.tracks.map(() => []);
for (const slice of details.slices) byTrack[slice[0]].push(slice);
panel('#timeline', 'Timeline: queues and links over time', Math.max(1, details.tracks.length) * LANE + AXIS + 8, (context, x, width) => {
  for (const [start, period, times] of details.skips) {
    context.fillStyle = style('line');
    context.globalAlpha = 0.5;
    context.fillRect(Math.max(GUTTER, x(start)), 4, Math.max(0, x(start + period * times) - Math.max(GUTTER, x(start))), details.tracks.length * LANE);
    context.globalAlpha = 1;
  }
  details.tracks.forEach((track, i) => {
    const y = 4 + i * LANE;
    context.save();
    context.beginPath();
    context.rect(GUTTER, y, width - GUTTER, LANE);
    context.clip();
    let drawn = -1;
    for (const slice of byTrack[i]) {
      const a = x(slice[2]), b = x(slice[2] + slice[3]);
      if (b < GUTTER || a > width) continue;
      if (b - a < 0.7 && Math.floor(a) === drawn && !(wanted && wanted[slice[1]])) continue; // one line a pixel
      drawn = Math.floor(a);
      context.globalAlpha = wanted && !wanted[slice[1]] ? 0.12 : 1;
      context.fillStyle = kindColour(slice[4]);
      context.fillRect(a, y + 3, Math.max(b - a - (b - a > 3 ? 1 : 0), 0.7), LANE - 6);
      const left = Math.max(a, GUTTER) + 4, room = Math.min(b, width) - left - 4;
      if (room > 30) {
        context.fillStyle = written(kindColour(slice[4]));
        context.textAlign = 'left';
        context.fillText(fit(context, pretty(details.names[slice[1]]), room), left, y + LANE / 2);
      }
    }
    context.globalAlpha = 1;
    context.restore();
    context.fillStyle = style('ink');
    context.textAlign = 'right';
    context.fillText(fit(context, track.name + (track.lane ? ' (' + (track.lane + 1) + ')' : ''), GUTTER - 18), GUTTER - 10, y + LANE / 2);
  });
}, (px, py, x) => {
  const track = byTrack[Math.floor((py - 4) / LANE)];
  if (!track || px < GUTTER) return null;
  const at = x.invert(px), slack = x.invert(px + 1) - at;
  const found = track.find(s => at >= s[2] - slack && at <= s[2] + s[3] + slack);
  if (!found) return null;
  return shorten(pretty(details.names[found[1]])) + '\n' + details.kinds[found[4]] + ', ' + time(found[3]) + ' from ' + time(found[2]) + (found[7] ? '\n' + bytes(found[7]) + ' at ' + count(found[7] / found[3] * 1e12) + 'B/s' : '') +
    (found[5] >= 0 ? '\nbound by ' + details.bounds[found[5]] : '') + (found[8] >= 0 ? '\nwaited ' + time(found[9]) + ' for ' + details.reasons[found[8]] : '') + (found[6] ? '\niteration ' + found[6] : '');
});

// '#12 ' in front of a name is a buffer's own number.
const unnumbered = name => {
  const own = name.replace(/^#\d+ ?/, '');
  return !own ? '(without a name)' : /\.(cpp|cu):/.test(own) && !/\.py/.test(own) ? '(without a line of Python)' : own;
};

// Memory curves: a band per memory with something in it, scaled to its own peak or limit.
const CURVE = 96, memories = details.memories.filter(m => m.series.length && m.peak > 0 && !(run.memories[m.name] && minor(run.memories[m.name])));
if (!memories.length) for (const part of ['#curves', '#map', '#holders']) select(select(part).node().parentNode).remove();
const top = m => { const peak = d3.max(m.series, s => Math.max(s[1], s[2])); return m.available && m.available < peak * 2.5 ? Math.max(peak, m.available) * 1.04 : peak * 1.12; };
if (memories.length) panel('#curves', 'Memory over time', memories.length * CURVE + AXIS, (context, x, width) => {
  memories.forEach((m, i) => {
    const y = d3.scaleLinear().domain([0, top(m)]).range([(i + 1) * CURVE - 2, i * CURVE + 16]);
    context.save();
    context.beginPath();
    context.rect(GUTTER, i * CURVE, width - GUTTER, CURVE);
    context.clip();
    const area = (column, colour) => {
      context.fillStyle = colour;
      context.beginPath();
      context.moveTo(x(m.series[0][0]), y(0));
      m.series.forEach((s, j) => { context.lineTo(x(s[0]), y(s[column])); context.lineTo(x(j + 1 < m.series.length ? m.series[j + 1][0] : full), y(s[column])); });
      context.lineTo(x(full), y(0));
      context.fill();
    };
    area(2, style('reserved'));
    area(1, style('live'));
    if (m.available && m.available <= top(m)) {
      context.strokeStyle = style('limit');
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(GUTTER, y(m.available));
      context.lineTo(width, y(m.available));
      context.stroke();
      context.setLineDash([]);
    }
    const peak = x(m.peak_at), above = y(m.peak) - 2;
    context.fillStyle = style('ink');
    context.beginPath();
    context.moveTo(peak, above);
    context.lineTo(peak - 5, above - 8);
    context.lineTo(peak + 5, above - 8);
    context.fill();
    context.restore();
    context.textAlign = 'right';
    context.fillStyle = style('ink');
    context.fillText(m.name, GUTTER - 10, i * CURVE + 24);
    context.fillStyle = style('soft');
    context.fillText('peak ' + bytes(m.peak), GUTTER - 10, i * CURVE + 44);
    if (m.available) context.fillText('of ' + bytes(m.available), GUTTER - 10, i * CURVE + 61);
    context.strokeStyle = style('line');
    context.beginPath();
    context.moveTo(0, (i + 1) * CURVE + 0.5);
    context.lineTo(width, (i + 1) * CURVE + 0.5);
    context.stroke();
  });
}, (px, py, x) => {
  const m = memories[Math.floor(py / CURVE)];
  if (!m || px < GUTTER) return null;
  const at = x.invert(px), i = d3.bisector(s => s[0]).right(m.series, at) - 1;
  if (i < 0) return null;
  const held = d3.nest().key(b => unnumbered(details.names[b[0]])).entries(m.blocks.filter(b => at >= b[1] && at < b[2]))
    .map(h => ({ name: h.key, n: h.values.length, bytes: d3.sum(h.values, b => b[4]) })).sort((a, b) => b.bytes - a.bytes), rest = held.slice(6);
  return m.name + ' at ' + time(at) + '\n' + bytes(m.series[i][1]) + ' live, ' + bytes(m.series[i][2]) + ' reserved' + held.slice(0, 6).map(h => '\n' + bytes(h.bytes) + '  ' + shorten(h.name) + (h.n > 1 ? ', ' + h.n + ' of them' : '')).join('') +
    (rest.length ? '\n' + bytes(d3.sum(rest, h => h.bytes)) + '  in ' + rest.length + ' more' : '');
});

// Address map of one memory: time by address.
const mapped = memories.filter(m => m.blocks.length);
let shown = mapped.reduce((best, m) => !best || m.blocks.length > best.blocks.length ? m : best, null);
const roles = ['#8a9199', '#4c78a8', '#f2a154', '#e0695f', '#72b7b2', '#66a866', '#d9b73a', '#a07ab8', '#d58aa8', '#b59b7a'];
const buttons = select('#choice');
mapped.forEach(m => buttons.append('button').datum(m).text(m.name).on('click', () => { shown = m; choose(); redraw(); }));
// Where roles tell nothing apart, as in a memory snapshot: the names that hold most, each with a colour.
function colours(memory) {
  const all = new Set(memory.blocks.map(b => b[5]));
  if (all.size > 1 || details.roles[[...all][0]] !== 'unknown')
    return { words: [...all].map(role => [details.roles[role], roles[role % roles.length]]), of: b => roles[b[5] % roles.length] };
  const held = d3.nest().key(b => unnumbered(details.names[b[0]])).rollup(v => d3.sum(v, b => b[4] * (b[2] - b[1]))).entries(memory.blocks);
  const most = held.sort((a, b) => b.value - a.value).slice(0, roles.length - 1).map((h, i) => [h.key, roles[i + 1]]), chosen = new Map(most);
  const ids = details.names.map(name => chosen.get(unnumbered(name)) || roles[0]);
  return { words: most.concat(held.length > most.length ? [['others', roles[0]]] : []), of: b => ids[b[0]] };
}
const palettes = new Map(mapped.map(m => [m, colours(m)]));
function choose() {
  buttons.selectAll('button').classed('on', d => d === shown).attr('aria-pressed', d => d === shown);
  const items = select('#roles').selectAll('span.item').data(shown ? palettes.get(shown).words : [], d => d);
  items.exit().remove();
  const item = items.enter().append('span').attr('class', 'item').attr('title', d => d[0]);
  item.append('i').style('background', d => d[1]);
  item.append('span').text(d => shorten(d[0].replace(/^.*\/(?=[^/]*\.py)/, '')));
  select('#roles').selectAll('span.rest').remove();
  if (shown && shown.blocks_left_out) select('#roles').append('span').attr('class', 'rest').text(shown.blocks_left_out.toLocaleString('en') + ' more, none of them larger, are not drawn');
}
choose();
const MAP = 320;
const extent = m => d3.max(m.blocks, b => b[3] + b[4]) || 1;
if (memories.length) panel('#map', 'Addresses in use over time', () => (shown ? MAP : 36) + AXIS, (context, x, width) => {
  if (!shown) { context.fillStyle = style('soft'); context.textAlign = 'left'; context.fillText('nothing was placed', 14, 18); return; }
  const y = d3.scaleLinear().domain([0, extent(shown)]).range([MAP - 2, 10]);
  context.save();
  context.beginPath();
  context.rect(GUTTER, 0, width - GUTTER, MAP);
  context.clip();
  for (const b of shown.blocks) {
    const left = x(b[1]), right = x(b[2]), high = y(b[3] + b[4]), low = y(b[3]);
    if (right < GUTTER || left > width) continue;
    context.fillStyle = palettes.get(shown).of(b);
    context.fillRect(left, high, Math.max(right - left - 0.5, 0.7), Math.max(low - high - 0.5, 0.5));
    if (low - high > 13 && right - left > 40) {
      context.fillStyle = written(palettes.get(shown).of(b));
      context.textAlign = 'left';
      const from = Math.max(left, GUTTER) + 4;
      context.fillText(fit(context, details.names[b[0]] + '  ' + bytes(b[4]), Math.min(right, width) - from - 4), from, (high + low) / 2);
    }
  }
  context.restore();
  context.textAlign = 'right';
  context.fillStyle = style('soft');
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) context.fillText(bytes(tick * extent(shown)), GUTTER - 10, Math.min(MAP - 8, Math.max(16, y(tick * extent(shown)))));
}, (px, py, x) => {
  if (!shown || px < GUTTER || py > MAP) return null;
  const y = d3.scaleLinear().domain([0, extent(shown)]).range([MAP - 2, 10]), at = x.invert(px), address = y.invert(py);
  const found = shown.blocks.find(b => at >= b[1] && at < b[2] && address >= b[3] && address < b[3] + b[4]);
  return found ? details.names[found[0]] + '\n' + bytes(found[4]) + ' at offset ' + found[3].toLocaleString('en') + '\n' + details.roles[found[5]] + ', lives ' + time(found[1]) + ' to ' + time(found[2]) : null;
});

start();
})();

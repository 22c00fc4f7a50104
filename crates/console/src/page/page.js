// The page: reads the history once, then listens to events, and draws once a second.
import { Chart, cursor, el } from './charts.js';
import { duration, text } from './format.js';
import { askToPurge } from './purge.js';
import { big, CHARTS, problems, TABLES } from './sections.js';

const HOUR = 3600;
const RANGES = [[300, '5 min'], [900, '15 min'], [HOUR, '1 h']];
const RETRY_MS = 3000;
const COLORS = ['blue', 'orange', 'red', 'green', 'violet', 'sky', 'grid', 'faint'];

/** What is shown: the link keeps it. */
const view = { range: 900, card: '', paused: false };

function readLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  const range = Number(link.get('range'));
  view.range = RANGES.some(([seconds]) => seconds === range) ? range : 900;
  view.card = link.get('card') ?? '';
}

function writeLink() {
  const link = new URLSearchParams();
  if (view.range !== 900) link.set('range', view.range);
  if (view.card) link.set('card', view.card);
  const wanted = link.size ? `#${link}` : location.pathname;
  history.replaceState(null, '', wanted);
}

/** The numbers of the last hour by name, all of the same length; the last one is that of the time `at`. */
const store = {
  series: {}, names: [], length: 0, at: 0, range: 900,
  setCursor(ago, chart) {
    if (cursor.ago === ago && cursor.chart === chart) return;
    Object.assign(cursor, { ago, chart });
    drawSoon();
  },
  replace({ at, series }) {
    Object.assign(this, { series: {}, names: Object.keys(series), at });
    for (const name of this.names) this.series[name] = series[name].map((value) => value ?? NaN);
    this.length = this.series[this.names[0]]?.length ?? 0;
  },
  push(at, values) {
    if (values.length !== this.names.length || this.names.length === 0) return;
    this.names.forEach((name, place) => {
      this.series[name].push(values[place] ?? NaN);
      if (this.series[name].length > HOUR) this.series[name].shift();
    });
    this.length = this.series[this.names[0]].length;
    this.at = at;
  },
};

/** The newest state, and what counters were in the last minute for growth: `past` has `{at, status}`, the oldest first. */
const context = { store, status: null, statusAt: 0, past: [] };
const PAST_SECONDS = 60, PAST_STEP = 5;
let lost = 0; // since when there is no connection, in seconds since 1970
let drawing = 0;

const main = document.getElementById('main');
const list = el('ul', { class: 'problems', 'aria-live': 'polite', 'aria-label': 'What is wrong' });
const grid = el('div', { class: 'grid' });
const cards = new Map();

function card(id, title, wide, body) {
  const toggle = el('button', { type: 'button', 'aria-expanded': 'false', onclick: () => open(id) }, title);
  const node = el('section', { class: `card${wide ? ' wide' : ''}`, id: `card-${id}`, 'aria-label': title, hidden: true }, el('h2', {}, toggle), ...body);
  cards.set(id, { node, toggle });
  grid.append(node);
  return node;
}

const charts = CHARTS.map((spec) => {
  const chart = new Chart(spec, store);
  const parts = { top: el('div', { class: 'top' }), legend: el('div', { class: 'legend' }), foot: el('div', { class: 'foot' }) };
  const node = card(spec.id, spec.title, false, [parts.top, parts.legend, chart.node, parts.foot]);
  return { spec, chart, node, ...parts };
});
const tables = TABLES.map((spec) => {
  const body = el('div');
  return { spec, body, node: card(spec.id, spec.title, spec.wide, [body]), shown: '' };
});

function open(id) {
  view.card = view.card === id ? '' : id;
  writeLink();
  apply();
}

/** Puts the view in force. */
function apply() {
  store.range = view.range;
  for (const [id, { node, toggle }] of cards) {
    node.classList.toggle('open', view.card === id);
    toggle.setAttribute('aria-expanded', String(view.card === id));
  }
  for (const [seconds, button] of rangeButtons) button.setAttribute('aria-pressed', String(seconds === view.range));
  pauseButton.setAttribute('aria-pressed', String(view.paused));
  drawSoon();
}

function setRange(seconds) { view.range = seconds; writeLink(); apply(); }
function pause() { view.paused = !view.paused; apply(); }

const rangeButtons = RANGES.map(([seconds, name]) => [seconds, el('button', { type: 'button', onclick: () => setRange(seconds) }, name)]);
const pauseButton = el('button', { type: 'button', class: 'tool', onclick: pause }, 'Pause');
document.getElementById('tools').append(
  el('div', { class: 'group', role: 'group', 'aria-label': 'Time shown' }, ...rangeButtons.map(([, button]) => button)),
  pauseButton, el('button', { type: 'button', class: 'tool', onclick: () => askToPurge() }, 'Purge…'));
document.getElementById('keys').append('keys: ', ...[['1', '2', '3'], ['p'], ['x'], ['←', '→']].flatMap((keys, place) => [
  ...keys.map((key) => el('kbd', {}, key)), ` ${['time shown', 'pause', 'purge', 'along a chart'][place]}  `]));

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('dialog, input')) return;
  const action = { 1: () => setRange(RANGES[0][0]), 2: () => setRange(RANGES[1][0]), 3: () => setRange(RANGES[2][0]), p: pause, x: () => askToPurge(),
    Escape: () => view.card && open(view.card) }[event.key];
  if (action) { action(); event.preventDefault(); }
});
window.addEventListener('hashchange', () => { readLink(); apply(); });
window.addEventListener('resize', () => drawSoon());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawSoon());

function styles() {
  const computed = getComputedStyle(document.documentElement);
  const found = Object.fromEntries(COLORS.map((name) => [name, computed.getPropertyValue(`--${name}`).trim()]));
  return { ...found, small: Math.round(parseFloat(computed.fontSize) * 0.69) };
}

function drawSoon() {
  if (drawing === 0) drawing = requestAnimationFrame(() => { drawing = 0; draw(); });
}

function draw() {
  const shown = styles();
  const { status } = context;
  for (const { spec, chart, node, top, legend, foot } of charts) {
    node.hidden = store.names.length === 0 || (spec.has !== undefined && !spec.has(status));
    if (node.hidden) continue;
    top.replaceChildren(big(spec.big(store)), el('span', { class: 'side' }, spec.side?.(store, status) ?? ''));
    legend.replaceChildren(...spec.lines.map((line) => {
      const value = line.value(store, store.length - 1);
      const entry = el('span', { class: line.dashed ? 'dashed' : '' }, line.label, el('b', {}, text(spec.format(value ?? NaN))));
      entry.style.setProperty('--c', `var(--${line.color})`);
      return entry;
    }));
    foot.replaceChildren(...(spec.foot?.(store, status) ?? []));
    chart.node.querySelector('.tip')?.remove();
    chart.draw(shown);
    if (cursor.ago !== null && cursor.chart === chart) chart.node.append(chart.tip());
  }
}

/** Replaces what a card shows; a table that was scrolled sideways stays there. */
function replace(body, content) {
  const scrolled = [...body.querySelectorAll('.scroll')].map((table) => table.scrollLeft);
  body.replaceChildren(...content);
  body.querySelectorAll('.scroll').forEach((table, place) => { table.scrollLeft = scrolled[place] ?? 0; });
}

/** Draws what depends on the state: tables, problems, and the line below the name. */
function drawState() {
  const { status } = context;
  const found = problems(status, lost);
  const words = found.map((item) => item.textContent).join('\n');
  if (words !== list.dataset.words) {
    list.replaceChildren(...found);
    list.dataset.words = words;
  }
  const count = (status?.problems?.length ?? 0) + (lost ? 1 : 0);
  document.title = count > 0 ? `(${count}) Penstock` : 'Penstock';
  if (status === null) return;
  for (const { spec, body, node } of tables) {
    const content = spec.draw(context);
    node.hidden = content === null;
    if (content !== null) replace(body, content.filter((part) => part !== null));
  }
  const state = document.getElementById('state');
  state.classList.toggle('lost', lost > 0);
  const version = status.version ? '' : 'server';
  state.querySelector('span').textContent = version || `, up ${duration(status.uptime_seconds)}`;
}

/** Keeps the counters of a state every few seconds. */
function remember(at, { sites, origins }) {
  const { past } = context;
  context.statusAt = at;
  if (past.length === 0 || at - past.at(-1).at >= PAST_STEP) past.push({ at, status: { sites, origins } });
  while (past.length > 1 && at - past[0].at > PAST_SECONDS) past.shift();
}

function take({ at, values, status }) {
  lost = 0;
  if (values.length > 0) store.push(at, values);
  remember(at, status);
  context.status = status;
  if (view.paused) return;
  drawState();
  drawSoon();
}

async function readHistory() {
  const response = await fetch('/history.json');
  if (response.ok) store.replace(await response.json());
}

/** Listens until the connection is lost, and again after a pause. */
function listen() {
  const source = new EventSource('/events');
  const waiting = [];
  let ready = false;
  source.addEventListener('open', async () => {
    await readHistory().catch(() => {});
    ready = true;
    for (const event of waiting.splice(0)) take({ ...event, values: event.at > store.at ? event.values : [] });
  });
  source.addEventListener('second', ({ data }) => {
    const event = JSON.parse(data);
    if (ready) take(event);
    else waiting.push(event);
  });
  source.addEventListener('error', () => {
    source.close();
    lost ||= Math.round(Date.now() / 1000);
    drawState();
    setTimeout(listen, RETRY_MS);
  });
}

readLink();
main.append(list, grid);
apply();
drawState();
listen();

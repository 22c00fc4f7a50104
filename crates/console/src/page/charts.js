// Line charts on a canvas: time runs to the right, the newest second is at the right edge.
import { clock, text } from './format.js';

/** An element with attributes and children. Text is text and never markup. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'class') node.className = value;
    else if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

const STEPS = [1, 2, 2.5, 5, 10];
/** A round number that is at least this. */
function ceiling(value, least) {
  const wanted = Math.max(value, least);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return power * STEPS.find((step) => step * power >= wanted * 0.999999);
}

const INTERVALS = [10, 30, 60, 120, 300, 600, 900];
const PAD = { left: 4, right: 4, top: 8 };
/** Columns without a value that a line passes over: a point that came late. */
const BRIDGED = 2;

/** The point under the pointer or the cursor keys, in seconds before the newest; the same in all charts. */
export const cursor = { ago: null };

export class Chart {
  /**
   * `lines` are `{name, label, color, value(history, index), peak, dashed}`; `format` shows a value; `least` is the least top of the
   * scale; `fill` draws an area below the first line. A round number is one of values times `scale`.
   */
  constructor({ title, lines, format, least, fill, top, scale = 1 }, store) {
    Object.assign(this, { title, lines, format, least, fill, top, scale, store });
    this.canvas = el('canvas', { 'aria-hidden': 'true' });
    this.node = el('div', { class: 'chart', tabindex: '0', role: 'img' }, this.canvas);
    this.node.addEventListener('pointermove', (event) => this.point(event));
    this.node.addEventListener('pointerleave', () => store.setCursor(null, null));
    this.node.addEventListener('blur', () => store.setCursor(null, null));
    this.node.addEventListener('keydown', (event) => this.key(event));
  }

  point(event) {
    const box = this.node.getBoundingClientRect();
    const share = (event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
    const ago = Math.round((1 - Math.min(Math.max(share, 0), 1)) * (this.store.range - 1));
    this.store.setCursor(ago, this);
  }

  key(event) {
    const step = event.shiftKey ? Math.round(this.store.range / 20) : Math.max(1, Math.round(this.store.range / 300));
    const now = cursor.ago ?? 0;
    const moves = { ArrowLeft: now + step, ArrowRight: now - step, Home: this.store.range - 1, End: 0 };
    if (event.key === 'Escape') this.store.setCursor(null, null);
    else if (event.key in moves) {
      this.store.setCursor(Math.min(Math.max(moves[event.key], 0), this.store.range - 1), this);
      event.preventDefault();
    }
  }

  /** One value for each column of about a pixel: the mean, or the peak. */
  columns(line, width) {
    const { store } = this;
    const columns = Math.max(2, Math.min(store.range, Math.floor(width)));
    const values = new Float64Array(columns);
    const first = store.length - store.range;
    for (let column = 0; column < columns; column += 1) {
      const from = first + Math.floor(column * store.range / columns);
      const to = first + Math.floor((column + 1) * store.range / columns);
      let sum = 0, n = 0, most = NaN;
      for (let index = Math.max(from, 0); index < to; index += 1) {
        const value = line.value(store, index);
        if (value === null || Number.isNaN(value)) continue;
        sum += value; n += 1;
        if (!(value <= most)) most = value;
      }
      values[column] = n === 0 ? NaN : (line.peak ? most : sum / n);
    }
    return values;
  }

  draw(styles) {
    const box = this.node.getBoundingClientRect();
    if (box.width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) Object.assign(this.canvas, { width: w, height: h });
    const pen = this.canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, box.width, box.height);
    const area = { x: PAD.left, y: PAD.top, w: box.width - PAD.left - PAD.right, h: box.height - PAD.top - styles.small - 8 };
    const columns = this.lines.map((line) => this.columns(line, area.w));
    let most = 0;
    for (const values of columns) for (const value of values) if (value > most) most = value;
    const top = this.top ?? ceiling(most * this.scale, this.least * this.scale) / this.scale;
    this.axes(pen, area, top, styles);
    columns.forEach((values, place) => this.line(pen, area, values, top, this.lines[place], styles, this.fill && place === 0));
    if (cursor.ago !== null) this.cursor(pen, area, top, styles);
    this.describe();
  }

  axes(pen, area, top, styles) {
    pen.font = `${styles.small}px system-ui, sans-serif`;
    pen.lineWidth = 1;
    pen.strokeStyle = styles.grid;
    for (const share of [0, 0.5, 1]) {
      const y = Math.round(area.y + area.h * share) + 0.5;
      pen.beginPath(); pen.moveTo(area.x, y); pen.lineTo(area.x + area.w, y); pen.stroke();
    }
    pen.fillStyle = styles.faint;
    pen.textBaseline = 'bottom'; pen.textAlign = 'left';
    pen.fillText(text(this.format(top)), area.x, area.y + styles.small + 2);
    const { range, at } = this.store;
    const interval = INTERVALS.find((one) => area.w / (range / one) > 5 * styles.small) ?? 900;
    pen.textBaseline = 'alphabetic'; pen.textAlign = 'center';
    const offset = new Date(at * 1000).getTimezoneOffset() * 60;
    for (let time = Math.ceil((at - range + offset) / interval) * interval - offset; time < at; time += interval) {
      const x = area.x + area.w * (1 - (at - time) / range);
      if (x > area.x + 2 * styles.small && x < area.x + area.w - 2 * styles.small) pen.fillText(clock(time, interval < 60), x, area.y + area.h + styles.small + 3);
    }
  }

  line(pen, area, values, top, { color, dashed }, styles, fill) {
    const x = (column) => area.x + area.w * column / (values.length - 1);
    const y = (value) => area.y + area.h * (1 - Math.min(value / top, 1));
    pen.strokeStyle = styles[color];
    pen.lineWidth = 1.75;
    pen.lineJoin = 'round';
    pen.setLineDash(dashed ? [2, 3] : []);
    let begun = -1, missing = 0;
    const end = (column) => {
      if (begun < 0) return;
      pen.stroke();
      if (fill) {
        pen.lineTo(x(column), area.y + area.h); pen.lineTo(x(begun), area.y + area.h); pen.closePath();
        const shade = pen.createLinearGradient(0, area.y, 0, area.y + area.h);
        shade.addColorStop(0, `${styles[color]}38`); shade.addColorStop(1, `${styles[color]}08`);
        pen.fillStyle = shade; pen.fill();
      }
      begun = -1;
    };
    for (let column = 0; column < values.length; column += 1) {
      if (Number.isNaN(values[column])) {
        missing += 1;
        if (missing > BRIDGED) end(column - missing);
        continue;
      }
      missing = 0;
      if (begun < 0) {
        pen.beginPath(); pen.moveTo(x(column), y(values[column])); pen.lineTo(x(column) + 0.01, y(values[column])); begun = column;
      } else {
        pen.lineTo(x(column), y(values[column]));
      }
    }
    end(values.length - 1 - missing);
    pen.setLineDash([]);
  }

  cursor(pen, area, top, styles) {
    const { store } = this;
    const x = area.x + area.w * (1 - cursor.ago / (store.range - 1));
    pen.strokeStyle = styles.faint; pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(x, area.y); pen.lineTo(x, area.y + area.h); pen.stroke();
    for (const line of this.lines) {
      const value = line.value(store, store.length - 1 - cursor.ago);
      if (value === null || value === undefined || Number.isNaN(value)) continue;
      pen.fillStyle = styles[line.color];
      pen.beginPath(); pen.arc(x, area.y + area.h * (1 - Math.min(value / top, 1)), 3, 0, 2 * Math.PI); pen.fill();
    }
  }

  /** The words at the cursor. */
  tip() {
    const { store } = this;
    const tip = el('div', { class: 'tip', role: 'status' }, el('b', {}, clock(store.at - cursor.ago, true)));
    for (const line of this.lines) {
      const mark = el('i');
      mark.style.background = `var(--${line.color})`;
      const value = line.value(store, store.length - 1 - cursor.ago);
      tip.append(el('div', {}, mark, `${line.label} `, el('b', {}, text(this.format(value ?? NaN)))));
    }
    const box = this.node.getBoundingClientRect();
    const x = box.width * (1 - cursor.ago / (store.range - 1));
    if (x > box.width / 2) tip.style.right = `${box.width - x + 10}px`;
    else tip.style.left = `${x + 10}px`;
    return tip;
  }

  /** What a screen reader says. */
  describe() {
    const newest = this.lines.map((line) => `${line.label} ${text(this.format(line.value(this.store, this.store.length - 1) ?? NaN))}`);
    this.node.setAttribute('aria-label', `${this.title}: ${newest.join(', ')}`);
  }
}

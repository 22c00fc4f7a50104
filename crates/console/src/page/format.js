// Numbers as text. Every function takes null or undefined for a number that is not known.

export const UNKNOWN = '–';

const known = (value) => typeof value === 'number' && Number.isFinite(value);
const digits = (value, most = 3) => value.toLocaleString('en-US', { maximumSignificantDigits: most, useGrouping: false });

function scaled(value, base, units) {
  let place = 0;
  let size = Math.abs(value);
  while (size >= base && place < units.length - 1) { size /= base; place += 1; }
  // 999.6 would be shown as 1000.
  if (Number(digits(size)) >= base && place < units.length - 1) { size /= base; place += 1; }
  return [digits(value < 0 ? -size : size), units[place]];
}

/** A number and its unit, as [text, unit]. */
export const bits = (bytes) => (known(bytes)
  ? scaled(bytes * 8, 1000, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s']) : [UNKNOWN, 'Gbit/s']);
export const bytes = (value) => (known(value) ? scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']) : [UNKNOWN, 'B']);
export const count = (value) => (known(value) ? scaled(value, 1000, ['', 'k', 'M', 'G']) : [UNKNOWN, '']);
export const rate = (value) => { const [text, unit] = count(value); return [text + unit, '/s']; };
export const percent = (value) => [known(value) ? digits(100 * value) : UNKNOWN, '%'];
export const seconds = (value) => {
  if (!known(value)) return [UNKNOWN, 'ms'];
  if (value === 0) return ['0', 'ms'];
  if (value < 1e-3) return [digits(value * 1e6), 'µs'];
  return value < 1 ? [digits(value * 1e3), 'ms'] : [digits(value), 's'];
};
export const plain = (value) => [known(value) ? value.toLocaleString('en-US', { maximumFractionDigits: 2 }) : UNKNOWN, ''];

/** Number and unit in one text; what is not known has no unit. */
export const text = ([number, unit]) => {
  if (number === UNKNOWN) return UNKNOWN;
  return unit === '' || unit === '%' || unit === '/s' ? number + unit : `${number} ${unit}`;
};

/** The two largest units of a time. */
export function duration(value) {
  if (!known(value)) return UNKNOWN;
  const s = Math.round(value);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

const two = (value) => String(value).padStart(2, '0');

/** The time of day of a time in seconds since 1970, with the date if it is another day. */
export function clock(timestamp, withSeconds = false) {
  const at = new Date(timestamp * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ''}`;
  return at.toDateString() === new Date().toDateString() ? time : `${date(timestamp)} ${time}`;
}

export function date(timestamp) {
  const at = new Date(timestamp * 1000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

// The cards of the page: charts of the last hour, and tables of the present state. A card without data is hidden.
import { el } from './charts.js';
import { bits, bytes, clock, count, date, duration, percent, plain, rate, seconds, text, UNKNOWN } from './format.js';

const series = (name, label, color, more = {}) => (
  { label, color, value: (store, index) => store.series[name]?.[index] ?? NaN, ...more });

const at = (store, name, index) => store.series[name]?.[index] ?? NaN;
const last = (store, name) => at(store, name, store.length - 1);

/** The share of the sent bytes that did not come from an origin in that second. */
function bytesFromHere(store, index) {
  const sent = at(store, 'sent_bytes_per_second', index);
  const fetched = at(store, 'origin_bytes_per_second', index);
  return sent > 0 ? Math.max(0, 1 - fetched / sent) : NaN;
}

/** The mean of a series over the shown range. */
export function mean(store, name) {
  let sum = 0, n = 0;
  for (let index = Math.max(0, store.length - store.range); index < store.length; index += 1) {
    const value = at(store, name, index);
    if (!Number.isNaN(value)) { sum += value; n += 1; }
  }
  return n ? sum / n : NaN;
}

const total = (object) => Object.values(object ?? {}).reduce((sum, value) => sum + value, 0);
const big = (parts) => el('div', { class: 'big' }, parts[0], el('small', {}, parts[1]));
const exact = (value, name) => el('span', { 'data-total': name, title: plain(value)[0] }, text(plain(value)));
/** Rows of a table that could have very many. */
const SHOWN = 12;
const sentTotal = (status) => total(status?.sent_bytes);

/** Charts: `big` is shown in large type, `side` beside it, `foot` below the chart. */
export const CHARTS = [
  {
    id: 'out', title: 'Out', format: bits, least: 125, scale: 8, fill: true,
    lines: [series('sent_bytes_per_second', 'sent', 'blue'), series('origin_bytes_per_second', 'from origins', 'orange', { dashed: true })],
    big: (store) => bits(last(store, 'sent_bytes_per_second')),
    foot: (store, status) => ['total ', exact(sentTotal(status), 'sent_bytes'), ' bytes'],
  },
  {
    id: 'requests', title: 'Requests', format: rate, least: 1, fill: true,
    lines: [series('requests_per_second', 'all', 'blue'), series('responses_4xx_per_second', '4xx', 'orange'),
      series('responses_5xx_per_second', '5xx', 'red', { dashed: true, peak: true })],
    big: (store) => rate(last(store, 'requests_per_second')),
    foot: (store, status) => ['total ', exact(status?.requests?.total, 'requests')],
  },
  {
    id: 'viewers', title: 'Viewers (open connections)', format: count, least: 4, fill: true,
    lines: [series('connections', 'open', 'blue'), series('new_connections_per_second', 'new per second', 'sky', { dashed: true })],
    big: (store) => count(last(store, 'connections')),
    foot: (store, status) => [versions(status), ' total ', exact(status?.connections?.total, 'connections')],
  },
  {
    id: 'first-byte', title: 'First byte', format: seconds, least: 1e-4,
    lines: [series('first_byte_p50_seconds', 'p50', 'blue'), series('first_byte_p99_seconds', 'p99', 'orange', { peak: true })],
    big: (store) => seconds(latest(store, 'first_byte_p99_seconds')),
    side: () => 'p99',
    foot: (store) => [`whole response p99 ${text(seconds(latest(store, 'request_p99_seconds')))}`],
  },
  {
    id: 'handshakes', title: 'Handshakes', format: rate, least: 1,
    lines: [series('full_handshakes_per_second', 'full', 'blue'), series('resumed_handshakes_per_second', 'resumed', 'green'),
      series('failed_handshakes_per_second', 'failed', 'red', { dashed: true, peak: true })],
    big: (store) => rate(last(store, 'full_handshakes_per_second') + last(store, 'resumed_handshakes_per_second')),
    side: (store, status) => (status?.handshakes?.resumed_share === null || status?.handshakes?.resumed_share === undefined
      ? '' : `${text(percent(status.handshakes.resumed_share))} resumed`),
    foot: (store, status) => [handshakeCost(store, status)],
  },
  {
    id: 'hits', title: 'Hit ratio by bytes', format: percent, least: 1, top: 1, fill: true,
    has: (status) => status?.cache?.memory || total(status?.cache?.requests) > 0,
    lines: [{ label: 'bytes not from an origin', color: 'green', value: bytesFromHere }, {
      label: 'requests', color: 'violet', dashed: true,
      value: (store, index) => at(store, 'cache_hits_per_second', index) / at(store, 'cache_requests_per_second', index),
    }],
    big: (store) => percent(latestOf(store, bytesFromHere)),
    foot: (store, status) => [list(status?.cache?.requests)],
  },
  {
    id: 'workers', title: 'Workers', format: percent, least: 1, top: 1, fill: true,
    lines: [series('workers_busy_mean_ratio', 'mean', 'blue'), series('workers_busy_max_ratio', 'busiest', 'orange', { peak: true })],
    big: (store) => percent(last(store, 'workers_busy_mean_ratio')),
    side: () => 'busy',
    foot: (store, status) => [cores(status?.workers)],
  },
  {
    id: 'work', title: 'What the CPU goes into', format: percent, least: 0.2, top: 1,
    has: (status) => Array.isArray(status?.work),
    lines: [series('work_handshakes_ratio', 'handshakes', 'orange'), series('work_sealing_ratio', 'sealing', 'blue'),
      series('work_sending_ratio', 'sending', 'green'), series('work_filling_ratio', 'filling', 'violet', { dashed: true })],
    big: (store) => percent(last(store, 'workers_busy_mean_ratio')),
    side: () => 'busy, of which',
    foot: (store, status) => [workShares(status?.work)],
  },
  {
    id: 'slow', title: 'Slow clients', format: rate, least: 1,
    lines: [series('slow_clients_per_second', 'given up', 'red', { peak: true }),
      series('short_responses_per_second', 'ended early', 'orange', { dashed: true, peak: true }),
      series('window_stalls_per_second', 'windows empty', 'violet', { dashed: true })],
    big: (store) => rate(last(store, 'short_responses_per_second')),
    side: () => 'responses ended early',
    foot: (store, status) => [list(status?.requests?.short) || 'none since the start'],
  },
];

/** The newest value that is known, of the last ten seconds. */
function latestOf(store, value) {
  for (let index = store.length - 1; index >= Math.max(0, store.length - 10); index -= 1) {
    const found = value(store, index);
    if (!Number.isNaN(found)) return found;
  }
  return NaN;
}
export const latest = (store, name) => latestOf(store, (from, index) => at(from, name, index));

const list = (object) => Object.entries(object ?? {}).filter(([, value]) => value > 0).sort((one, other) => other[1] - one[1])
  .map(([name, value]) => `${name.replaceAll('_', ' ')} ${text(count(value))}`).join(' · ');

function versions(status) {
  const found = Object.entries(status?.http?.connections ?? {}).filter(([, value]) => value > 0);
  return found.map(([name, value]) => `${name} ${text(count(value))} ·`).join(' ');
}

function handshakeCost(store, status) {
  const core = last(store, 'signing_seconds_per_second');
  const full = status?.handshakes?.seconds?.full?.p50;
  const parts = [];
  if (typeof full === 'number') parts.push(`full p50 ${text(seconds(full))}`);
  const resumed = status?.handshakes?.seconds?.resumed?.p50;
  if (typeof resumed === 'number') parts.push(`resumed p50 ${text(seconds(resumed))}`);
  if (!Number.isNaN(core)) parts.push(`keys cost ${text(percent(core))} of a core`);
  parts.push(`failed ${text(count(status?.handshakes?.failed ?? NaN))}`);
  return parts.join(' · ');
}

function cores(workers) {
  return el('span', { class: 'cores' }, ...(workers ?? []).map((worker, place) => el('span', {
    class: 'core', title: `worker ${place}: ${text(percent(worker.busy_ratio))} busy, ${worker.panics} panics`,
  }, `${place}`, track(worker.busy_ratio))));
}

/** What each worker does, of about its last thousand looks. */
function workShares(workers) {
  const shares = (work) => Object.entries(work).filter(([, share]) => share > 0).sort((one, other) => other[1] - one[1])
    .map(([name, share]) => `${name} ${text(percent(share))}`).join(' · ');
  return el('span', {}, ...(workers ?? []).map((work, place) => el('span', { class: 'work' }, `worker ${place}: ${shares(work) || 'idle'}`)));
}

function track(share, color = 'blue') {
  const bar = el('i');
  bar.style.width = `${Math.min(Math.max(share || 0, 0), 1) * 100}%`;
  bar.style.background = `var(--${color})`;
  return el('div', { class: 'track' }, bar);
}

function meter(name, used, most, words) {
  const share = most > 0 ? used / most : 0;
  return el('div', { class: 'meter', title: `${plain(used)[0]} of ${plain(most)[0]} bytes` },
    el('p', {}, el('span', {}, name), el('span', {}, `${text(bytes(used))} of ${text(bytes(most))} · ${text(percent(share))}`)),
    track(share), words ? el('p', {}, el('span', {}), el('span', {}, words)) : null);
}

function table(heads, rows) {
  const cell = (value, place) => {
    const [content, kind] = Array.isArray(value) ? value : [value, ''];
    return el('td', { class: `${heads[place].startsWith('#') ? 'n' : 'key'} ${kind}`.trim() }, content);
  };
  return el('div', { class: 'scroll' }, el('table', {},
    el('thead', {}, el('tr', {}, ...heads.map((head) => el('th', { scope: 'col', class: head.startsWith('#') ? 'n' : '' }, head.replace('#', ''))))),
    el('tbody', {}, ...rows.map((row) => el('tr', {}, ...row.map(cell))))));
}

const facts = (entries) => el('dl', { class: 'facts' }, ...entries.filter(([, value]) => value !== undefined)
  .flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
const state = (up, fault) => (up ? ['up', 'ok'] : [fault ? `out: ${fault}` : 'out', 'bad']);
const number = (value) => text(count(value ?? NaN));

/** How much a counter has grown in about the last `span` seconds, and in how many; `pick` takes it from a state. */
function grown({ status, statusAt, past }, pick, span) {
  const since = past.findLast(({ at }) => at <= statusAt - span) ?? past[0];
  const [now, before] = [pick(status), since && pick(since.status)];
  const seconds = since ? statusAt - since.at : 0;
  return typeof now === 'number' && typeof before === 'number' && seconds > 0 ? { amount: Math.max(0, now - before), seconds } : { amount: NaN, seconds };
}

/** The growth of a counter per second. */
function growth(context, pick, span = 10) {
  const { amount, seconds } = grown(context, pick, span);
  return amount / seconds;
}

/** The mean of what was counted in the last minute, or of all if that is nothing; `pick` gives `{count, seconds}`. */
function recentMean(context, pick) {
  const count = grown(context, (status) => pick(status)?.count, 60).amount;
  if (count > 0) return grown(context, (status) => pick(status)?.seconds, 60).amount / count;
  const all = pick(context.status);
  return all?.count > 0 ? all.seconds / all.count : NaN;
}

/** The counts of buckets in the last minute, or of all if that is nothing; `pick` gives the buckets. */
function recentBuckets(context, pick) {
  const all = (pick(context.status) ?? []).map((bucket) => bucket.requests);
  const recent = all.map((_, place) => grown(context, (status) => pick(status)?.[place]?.requests, 60).amount);
  return total(recent) > 0 ? recent : all;
}

/** Buckets as one bar; the words say what is in the lowest `low` of them. */
function spread(counts, colors, low, words) {
  const sum = total(counts);
  if (!(sum > 0)) return UNKNOWN;
  const share = counts.slice(0, low).reduce((part, count) => part + count, 0) / sum;
  const bar = el('span', { class: 'spread', 'aria-hidden': 'true' }, ...counts.map((count, place) => {
    const part = el('i');
    part.style.width = `${100 * count / sum}%`;
    part.style.background = `var(--${colors[place]})`;
    return part;
  }));
  return el('span', {}, bar, `${text(percent(share))} ${words}`);
}

const BUFFER_COLORS = ['red', 'orange', 'sky', 'blue', 'green'];
const THROUGHPUT_COLORS = ['red', 'orange', 'blue', 'green'];

function bands(name, colors, labels) {
  return el('p', { class: 'legend bands' }, `${name}: `, ...labels.map((label, place) => {
    const entry = el('span', {}, label);
    entry.style.setProperty('--c', `var(--${colors[place]})`);
    return entry;
  }));
}

/** A server of an origin as one site uses it; what it has for all sites is in its first row. */
function originRow(context, server, one, isFirst) {
  const here = (status) => status?.origins?.sites?.find((other) => other.site === one?.site && other.url === server.url);
  const failed = (status) => total(here(status)?.requests) - (here(status)?.requests?.answered ?? 0);
  const mean = (part) => text(seconds(recentMean(context, (status) => here(status)?.[part])));
  const failing = grown(context, failed, 10).amount > 0;
  const [words, kind] = state(server.up, server.fault);
  return [isFirst ? el('span', {}, server.url, el('span', { class: `below ${kind}` }, words)) : '', one?.site ?? UNKNOWN,
    mean('connect'), mean('first_byte'), mean('response'), text(rate(growth(context, (status) => total(here(status)?.requests)))),
    [number(failed(context.status)), failing ? 'bad' : ''], ...(isFirst ? [number(server.connections), number(server.waiting)] : ['', ''])];
}

/** Tables: `draw` gives what the card shows, or null if there is nothing. `context` is `{store, status, statusAt, past}`. */
export const TABLES = [
  {
    id: 'tiers', title: 'Tiers of the cache', draw({ store, status }) {
      const cache = status.cache;
      if (!cache?.memory) return null;
      const { memory, disks } = cache;
      const age = (evicted) => (evicted > 0 ? `replaced within ${duration(evicted)}` : '');
      const evictions = mean(store, 'evictions_per_second');
      const meters = [meter('memory', memory.bytes, memory.bytes_max, age(evictions > 0 ? memory.slices / evictions : 0))];
      const written = mean(store, 'disk_written_bytes_per_second') / Math.max(disks.length, 1);
      for (const disk of disks) {
        const name = disk.in_service ? disk.directory : `${disk.directory}: out of service`;
        meters.push(meter(name, disk.bytes, disk.bytes_max, disk.segments_dropped > 0 ? age(disk.bytes / written) : ''));
      }
      return [...meters, facts([['slices in memory', number(memory.slices)], ['evicted', number(memory.evictions)], ['found no space', number(memory.refusals)]])];
    },
  },
  {
    id: 'origins', title: 'Origins', wide: true, draw(context) {
      const { servers = [], sites = [], requests } = context.status.origins ?? {};
      if (servers.length === 0) return null;
      const rows = servers.flatMap((server) => {
        const asked = sites.filter((one) => one.url === server.url);
        return (asked.length > 0 ? asked : [undefined]).map((one, place) => originRow(context, server, one, place === 0));
      });
      return [table(['server', 'site', '#connect', '#first byte', '#whole', '#requests', '#failed', '#open', '#waiting'], rows),
        el('p', { class: 'foot' }, list(requests))];
    },
  },
  {
    id: 'sites', title: 'Sites', wide: true, draw(context) {
      const sites = context.status.sites;
      if (!Array.isArray(sites) || sites.length === 0) return null;
      const rows = sites.map((site) => {
        const of = (field) => growth(context, (status) => status.sites?.find?.((one) => one.name === site.name)?.[field]);
        // As in the metrics: of the bytes that the cache could have had.
        const hits = site.cache_bytes > 0 ? site.hit_bytes / site.cache_bytes : NaN;
        return [site.name, text(bits(of('bytes'))), text(rate(of('requests'))), text(percent(hits)), number(site.requests), text(bytes(site.bytes))];
      });
      return [table(['site', '#out', '#requests', '#hits by bytes', '#requests since start', '#bytes'], rows)];
    },
  },
  {
    id: 'players', title: 'Players', wide: true, draw(context) {
      const sites = (context.status.sites ?? []).filter((site) => site.players);
      if (sites.length === 0) return null;
      const rows = sites.map(({ name, players }) => {
        const here = (status) => status?.sites?.find?.((site) => site.name === name)?.players;
        const asked = grown(context, (status) => here(status)?.requests, 60).amount;
        const starved = grown(context, (status) => here(status)?.starved, 60).amount;
        const share = asked > 0 ? starved / asked : players.starved / players.requests;
        return [name, number(players.sessions), number(players.requests), [text(percent(share)), share > 0.01 ? 'warn' : ''],
          spread(recentBuckets(context, (status) => here(status)?.buffer), BUFFER_COLORS, 2, 'below 5 s'),
          spread(recentBuckets(context, (status) => here(status)?.throughput), THROUGHPUT_COLORS, 1, 'below 1×'), number(players.startup)];
      });
      return [table(['site', '#sessions', '#requests', '#with an empty buffer', 'buffer', 'throughput against bitrate', '#starts'], rows),
        bands('buffer', BUFFER_COLORS, ['below 1 s', '5 s', '10 s', '30 s', 'more']), bands('throughput', THROUGHPUT_COLORS, ['below 1×', '1.5×', '3×', 'more'])];
    },
  },
  ...Object.entries({ titles: ['Titles by bytes', 'title'], titles_by_requests: ['Titles by requests', 'title'], starved_titles: ['Titles that starve', 'title'], not_found: ['Paths with 4xx', 'path'],
    networks: ['Networks of clients', 'network'], user_agents: ['Software of clients', 'User-Agent'] }).map(([kind, [title, head]]) => ({
    id: kind.replaceAll('_', '-'), title, wide: true, draw({ status }) {
      const entries = status.top?.[kind];
      if (!Array.isArray(entries) || entries.length === 0) return null;
      const starved = (players) => (players ? players.starved / players.requests : NaN);
      const little = (players) => (players ? (players.buffer[0].requests + players.buffer[1].requests) / total(players.buffer.map((one) => one.requests)) : NaN);
      const heard = kind !== 'starved_titles' && entries.some((entry) => entry.players);
      const rows = entries.slice(0, SHOWN).map((entry) => [String(entry.key), number(entry.requests), text(bytes(entry.bytes)),
        ...(heard ? [[text(percent(starved(entry.players))), starved(entry.players) > 0.01 ? 'warn' : ''], text(percent(little(entry.players)))] : []),
        // A count is at most so much too small, in what ranks the table.
        entry.error ? `+ ${['titles', 'networks'].includes(kind) ? text(bytes(entry.error)) : number(entry.error)}` : '']);
      return [table([head, kind === 'starved_titles' ? '#empty buffers' : '#requests', '#bytes', ...(heard ? ['#with an empty buffer', '#with less than 5 s'] : []), '#error'], rows)];
    },
  })),
  {
    id: 'slow-sites', title: 'Slower than a rendition needs', wide: true, draw({ status }) {
      const sites = (status.sites ?? []).filter((site) => site.slow?.length > 0 && site.measured > 0);
      if (sites.length === 0) return null;
      const heads = sites[0].slow.map((one) => `#below ${text(bits(one.bytes_per_second))}`);
      const viewers = sites[0].slow.map((one) => `#viewers below ${text(bits(one.bytes_per_second))}`);
      return [table(['site', '#responses', ...heads, '#viewers of the last minute', ...viewers], sites.map((site) => [site.name, number(site.measured),
        ...site.slow.map((one) => text(percent(one.responses / site.measured))), number(site.measured_viewers),
        ...site.slow.map((one) => text(percent(one.viewers / site.measured_viewers)))]))];
    },
  },
  {
    id: 'kinds', title: 'Kinds of clients', wide: true, draw({ status }) {
      // A keyserver has its clients there, as a list.
      const kinds = Array.isArray(status.clients) ? [] : Object.entries(status.clients ?? {});
      if (kinds.length === 0) return null;
      const parts = (shares) => Object.entries(shares).sort(([, one], [, other]) => other.count - one.count)
        .map(([name, one]) => `${name} ${text(percent(one.share))}`).join(' · ');
      const rows = kinds.map(([kind, { connections, handshakes }]) => [kind, number(connections), number(handshakes.full.count),
        text(seconds(handshakes.full.busy_seconds_mean)), text(percent(handshakes.resumed_share)), text(seconds(handshakes.resumed.busy_seconds_mean)),
        parts(handshakes.versions), parts(handshakes.ciphers)]);
      return [table(['kind', '#connections', '#full handshakes', '#CPU of each', '#resumed', '#CPU of each', 'versions', 'ciphers'], rows)];
    },
  },
  {
    id: 'acme', title: 'Certificates that are ordered', wide: true, draw({ status }) {
      const names = status.acme?.names;
      if (!Array.isArray(names) || names.length === 0) return null;
      const day = (timestamp) => (typeof timestamp === 'number' ? `${date(timestamp)} ${clock(timestamp)}`.replace(/^(\S+) \1/, '$1') : UNKNOWN);
      const rows = names.map((one) => [one.name, [one.state, one.error ? 'bad' : one.not_after_timestamp_seconds ? 'ok' : ''],
        day(one.not_after_timestamp_seconds), day(one.next_timestamp_seconds), [one.error ?? '', one.error ? 'bad' : '']]);
      return [table(['name', 'state', 'ends', 'next attempt', 'last error, in words of the authority'], rows),
        el('p', { class: 'foot' }, list(status.acme.orders)),
        ...(status.acme.clock ? [el('p', { class: 'foot' }, status.acme.clock)] : [])];
    },
  },
  {
    id: 'pressure', title: 'What pressure did', draw({ status }) {
      const { pressure, connections } = status;
      if (!pressure) return null;
      const refused = Object.entries(connections?.refused ?? {}).map(([reason, value]) => [`connections refused: ${reason}`, value]);
      const happened = [...refused, ['handshakes that waited to sign', pressure.handshakes_queued], ['streams refused', pressure.streams_refused],
        ['slices without space', pressure.cache_refusals], ['disk writes skipped', pressure.disk_writes_skipped],
        ['switches of ChaCha20', pressure.chacha20_switches?.pressure]].filter(([, value]) => value > 0);
      const without = (pressure.given_up ?? []).map((one) => el('p', { class: 'foot warn' }, `does without ${one.what} since ${clock(one.since_timestamp_seconds)}`));
      const limit = pressure.handshake_rate_limit;
      return [...without, happened.length === 0 ? el('p', { class: 'empty' }, 'Nothing since the start.') : facts(happened.map(([name, value]) => [name, number(value)])),
        facts([['ChaCha20', pressure.chacha20_last_choice === 1 ? 'last choice' : 'as clients prefer'],
        ['full handshakes', typeof limit === 'number' ? `at most ${text(rate(limit))}` : 'no limit']])];
    },
  },
  {
    id: 'certificates', title: 'Certificates by end', draw({ status }) {
      const certificates = status.certificates ?? [];
      if (certificates.length === 0) return null;
      const now = Date.now() / 1000;
      const rows = [...certificates].sort((one, other) => one.not_after_timestamp_seconds - other.not_after_timestamp_seconds).slice(0, SHOWN).map((one) => {
        const left = (one.not_after_timestamp_seconds - now) / 86400;
        return [`${one.subject} (${one.kind})`, date(one.not_after_timestamp_seconds), [left < 0 ? 'expired' : `${Math.floor(left)} d`, left < 0 ? 'bad' : left < 14 ? 'warn' : '']];
      });
      const more = certificates.length > SHOWN ? el('p', { class: 'foot' }, `${certificates.length - SHOWN} more end later`) : null;
      return [table(['certificate', '#ends', '#left'], rows), more];
    },
  },
  {
    id: 'peers', title: 'Nodes of the cluster', wide: true, draw({ status }) {
      const nodes = status.cluster;
      if (!Array.isArray(nodes)) return null;
      const of = (node) => node.summary ?? {};
      const hits = (node) => of(node).cache_hits_per_second / of(node).cache_requests_per_second;
      const all = (name) => nodes.reduce((sum, node) => sum + (of(node)[name] ?? 0), 0);
      const rows = nodes.map((node) => [
        node.name, node.self ? 'this node' : state(node.up, node.fault), text(bits(of(node).sent_bytes_per_second)),
        text(rate(of(node).requests_per_second)), text(percent(hits(node))), text(bits(of(node).origin_bytes_per_second)),
        text(percent(of(node).workers_busy_mean_ratio ?? node.busy)), number(of(node).connections ?? node.connections),
        number(node.requests?.answered), [number(node.requests?.failed), node.requests?.failed > 0 ? 'warn' : ''], [number(node.purges_missed), node.purges_missed > 0 ? 'warn' : ''],
        [(of(node).problems ?? []).map((problem) => problem.what).join('; '), of(node).problems?.some((one) => one.severity === 'critical') ? 'bad' : 'warn']]);
      return [table(['node', 'state', '#out', '#requests', '#hits', '#fill', '#busy', '#connections', '#answered', '#failed', '#purges to confirm', 'what is wrong there'], rows),
        el('p', { class: 'foot' }, `all: ${text(bits(all('sent_bytes_per_second')))} out, ${text(rate(all('requests_per_second')))}, ${text(bits(all('origin_bytes_per_second')))} from origins`)];
    },
  },
  {
    id: 'keyservers', title: 'Keyservers and tokens', wide: true, draw({ status }) {
      const signers = [...(status.private_keys?.keyservers ?? []).map((one) => [one.address, one]),
        ...(status.private_keys?.tokens ?? status.tokens ?? []).map((one) => [one.name, one])];
      if (signers.length === 0) return null;
      const failed = (one) => total(one.operations) - (one.operations?.ok ?? 0) - (one.operations?.abandoned ?? 0);
      return [table(['signer', 'state', '#mean', '#signed', '#failed', '#under way'], signers.map(([name, one]) => [
        name, one.circuit_open ? ['gets none: failed too often', 'bad'] : state(one.up), text(seconds(one.mean_seconds)),
        number(one.operations?.ok), [number(failed(one)), failed(one) > 0 ? 'warn' : ''], number(one.under_way)])),
      status.private_keys ? el('p', { class: 'foot' }, `signed by a local copy: ${number(status.private_keys.fallbacks)}`) : null];
    },
  },
  {
    id: 'store', title: 'Store of the fleet', draw({ status, statusAt }) {
      const fleet = status.fleet;
      if (!fleet) return null;
      const up = fleet.up ? (fleet.circuit === 'open' ? 'too slow' : 'up') : 'out';
      const members = fleet.members ?? [];
      const edges = members.slice(0, SHOWN).map((one) => [one.name,
        one.self ? 'this edge' : one.up ? ['up', 'ok'] : [`away for ${duration(Math.max(0, statusAt - one.seen_timestamp_seconds))}`, 'bad'],
        [number(one.purges_missing), one.purges_missing > 0 ? 'warn' : '']]);
      const warn = (value) => (value > 0 ? el('span', { class: 'warn' }, number(value)) : number(value));
      return [facts([['state', el('span', { class: up === 'up' ? 'ok' : 'bad' }, up)], ['edges', number(fleet.edges)],
        ['secret', fleet.secret_fingerprint ?? UNKNOWN], ['latency', text(seconds(fleet.latency_seconds))],
        ['handshakes that wait', number(fleet.operations_in_flight)], ['purges applied', number(fleet.purges_applied)],
        ['purges that wait', warn(fleet.purges_waiting)], ['whole cache purged', warn(fleet.purges_missed)],
        ['revoked ids', number(fleet.revoked_ids)], ['revoked ids that wait', warn(fleet.revoked_ids_waiting)]]),
      edges.length > 0 ? table(['edge', 'state', '#purges to apply'], edges) : null,
      members.length > SHOWN ? el('p', { class: 'foot' }, `${members.length - SHOWN} more`) : null];
    },
  },
  {
    id: 'process', title: 'Process', draw({ store, status }) {
      const { process } = status;
      if (!process) return null;
      const reloads = Object.entries(status.reloads ?? {}).map(([outcome, value]) => [`reloads ${outcome}`, number(value)]);
      const dropped = total(status.access_log?.dropped);
      return [facts([['CPU', `${text(percent(last(store, 'cpu_seconds_per_second')))} of a core`], ['memory', text(bytes(process.resident_bytes))],
        ['descriptors', `${number(process.open_descriptors)} of ${number(process.max_descriptors)}`], ['open files', number(status.files?.open)],
        ['access log lines', number(status.access_log?.written)], ['dropped', number(dropped)], ...reloads])];
    },
  },
  {
    id: 'key-clients', title: 'Clients of the keyserver', wide: true, draw({ status }) {
      if (!Array.isArray(status.clients)) return null;
      const done = (client) => Object.values(client.operations ?? {}).reduce((sum, results) => sum + total(results), 0);
      return [facts([['keys', number(status.keys)], ['threads', number(status.threads)], ['queue', number(status.queue)]]),
        table(['client', '#connections', '#operations', '#under way'], status.clients.map((client) => [client.name, number(client.connections), number(done(client)), number(client.under_way)]))];
    },
  },
];

/** The problems, the worst first. `lost` is since when there is no connection. */
export function problems(status, lost) {
  const found = [...(status?.problems ?? [])];
  if (lost) {
    found.unshift({ severity: 'critical', what: 'this page has lost its connection with the server', since_timestamp_seconds: lost,
      help: 'it tries again by itself; systemctl status penstock' });
  }
  if (found.length === 0) {
    return [el('li', { class: 'good' }, el('span', { class: 'sign' }, '✓'), el('span', { class: 'what' }, status ? 'Nothing is wrong.' : 'Waiting for the first numbers.'))];
  }
  return found.map((problem) => el('li', { class: problem.severity === 'critical' ? 'critical' : 'warning' },
    el('span', { class: 'sign' }, problem.severity === 'critical' ? '✕' : '!'), el('span', { class: 'what' }, problem.what),
    el('time', {}, `since ${clock(problem.since_timestamp_seconds)}`), el('span', { class: 'help' }, problem.help)));
}

export { big, UNKNOWN };

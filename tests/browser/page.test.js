// A real Chromium shows the page of the admin listener while the server works.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { chromium } from 'playwright-core';
import { LAUNCH, PATIENCE_MS, until } from './browser.js';
import { serve } from './server.js';

const TOKEN = '0123456789abcdef';
const FOUND = { http: /(?<=listening on )\S+(?=, HTTP\n)/, admin: /(?<=listening on )\S+(?=, admin)/ };
/** The name of a disk that would be markup if it were not text. */
const MARKUP = '<img src=x onerror=alert(1)>';

let directory, origin, server, browser, context, page;
let faults; // what the browser complained of
let working; // resolves once the load has ended
let load = false;

function configure(name, lines) {
  const file = join(directory, name);
  writeFileSync(file, lines);
  return file;
}

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'penstock-page-'));
  mkdirSync(join(directory, 'memory'));
  const body = Buffer.alloc(100_000, 'x');
  origin = createServer((request, response) => {
    response.writeHead(200, { 'Content-Type': 'video/mp4', 'Content-Length': body.length, 'Cache-Control': 'max-age=60' });
    response.end(body);
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  const [key, cert] = [join(directory, 'key.pem'), join(directory, 'cert.pem')];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
    '-keyout', key, '-out', cert, '-days', '9', '-subj', '/CN=video.test', '-addext', 'subjectAltName=DNS:video.test'], { stdio: 'pipe' });
  server = await serve(['-c', configure('penstock.yaml', `
listeners: [{address: "127.0.0.1:0"}, {address: "127.0.0.1:0", tls: true}]
tls: {certificates: [{chain: cert.pem, key: key.pem}]}
cache: {memory: {size: 32MiB, directory: memory}, disk: [{directory: "${MARKUP}", size: 16MiB}]}
sites:
  - {hosts: ["127.0.0.1"], origin: {http: ["http://127.0.0.1:${origin.address().port}"]}}
  - {hosts: ["b.test"], origin: {http: ["http://127.0.0.1:1"]}}
admin: {address: "127.0.0.1:0"}
`)], FOUND);
  browser = await chromium.launch(LAUNCH);
});

after(async () => {
  await browser?.close();
  if (server) assert.equal(await server.stop(), 0, 'the program ends cleanly when told to');
  origin?.close();
  origin?.closeAllConnections();
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
});

const ask = (path) => fetch(`http://${server.http}${path}`).then((response) => response.arrayBuffer());
// `fetch` of Node does not let a request name another host, so curl does.
const curl = (path, host) => execFileSync('curl', ['--silent', '--output', '/dev/null', '-H', `Host: ${host}`, `http://${server.http}${path}`]);

beforeEach(async () => {
  faults = [];
  load = true;
  working = (async () => { for (let n = 0; load; n += 1) await ask(`/load/${n % 50}.mp4`).catch(() => {}); })();
  context = await browser.newContext({ viewport: { width: 1440, height: 1000 } });
  context.setDefaultTimeout(PATIENCE_MS);
  page = await context.newPage();
  page.on('console', (message) => faults.push(message.text()));
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('dialog', (dialog) => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('response', (response) => { if (response.status() >= 400) faults.push(`${response.url()}: ${response.status()}`); });
});

afterEach(async () => {
  load = false;
  await working;
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/page-${Date.now()}.png`, fullPage: true });
  await context.close();
  assert.deepEqual(faults, [], 'the browser has nothing to say');
});

const open = (link = '') => page.goto(`http://${server.admin}/${link}`);
const shown = (id) => page.locator(`#card-${id}`);
const total = async (name) => Number((await page.locator(`[data-total="${name}"]`).textContent()).replaceAll(',', ''));

/** The sum of a counter in /metrics. */
async function metric(name) {
  const text = await (await fetch(`http://${server.admin}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith(name) && (name.includes('{') || '{ '.includes(line[name.length])));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}

test('the numbers move, and are those of /metrics', async () => {
  await open();
  const first = (await total('requests').catch(() => 0)) || 0;
  await page.waitForFunction((before) => {
    const text = document.querySelector('[data-total="requests"]')?.textContent.replaceAll(',', '');
    return Number(text) > before && Number(text) > 0;
  }, first);
  for (const [name, counter] of [['requests', 'penstock_requests_total'], ['sent_bytes', 'penstock_sent_bytes_total'], ['connections', 'penstock_connections_total']]) {
    const least = await metric(counter);
    await page.waitForFunction(([of, value]) => Number(document.querySelector(`[data-total="${of}"]`).textContent.replaceAll(',', '')) >= value, [name, least]);
    const seen = await total(name);
    assert.ok(seen <= await metric(counter), `${name}: ${seen} is not more than /metrics has`);
  }
  load = false;
  await working;
  // A response is counted after its last byte was sent.
  await until('the page to have the number of /metrics', async () => await total('requests') === await metric('penstock_requests_total'));
});

test('a page opened later has the past', async () => {
  const history = await (await fetch(`http://${server.admin}/history.json`)).json();
  assert.ok(history.series.requests_per_second.length >= 2, 'points were taken before any page was open');
  await open();
  const label = () => page.locator('#card-requests .chart').getAttribute('aria-label');
  await page.waitForFunction(() => document.querySelector('#card-requests .chart')?.getAttribute('aria-label'));
  assert.match(await label(), /^Requests: all /);
});

test('an origin that is out is said in words with what helps, and no text becomes markup', async () => {
  for (let n = 0; n < 12; n += 1) curl(`/${n}`, 'b.test');
  await open();
  const problem = page.locator('.problems .critical', { hasText: 'origin http://127.0.0.1:1 is out: ' });
  await problem.waitFor();
  assert.match(await problem.textContent(), /since \d\d:\d\d/);
  assert.match(await problem.locator('.help').textContent(), /curl -v/);
  await shown('origins').getByText('out: ').first().waitFor();
  await shown('tiers').getByText(MARKUP).waitFor();
  assert.equal(await page.locator('main img').count(), 0);
});

test('a section is shown when its data is there and hidden when it is not', async () => {
  await open();
  await shown('origins').waitFor();
  for (const absent of ['players', 'acme', 'slow-sites', 'starved-titles', 'peers', 'keyservers', 'store', 'key-clients']) assert.equal(await shown(absent).isVisible(), false, absent);
  const status = await (await fetch(`http://${server.admin}/status.json`)).json();
  Object.assign(status, {
    sites: [{ name: MARKUP, requests: 7, bytes: 4096, cache_bytes: 2048, hit_requests: 6, hit_bytes: 1024, measured: 8, slow: [{ bytes_per_second: 125000, responses: 2, viewers: 3 }], measured_viewers: 4,
      players: { requests: 200, starved: 5, startup: 3, sessions: 4, buffer: [1, 2, 3, 4, 10].map((requests) => ({ requests })), throughput: [1, 0, 3, 4].map((requests) => ({ requests })) } }],
    origins: { requests: { answered: 9, timeout: 1 }, servers: [{ url: 'http://192.0.2.1', up: true, fault: '', connections: 2, waiting: 0, mean_seconds: 0.003 }],
      sites: [{ site: MARKUP, url: 'http://192.0.2.1', requests: { answered: 9, timeout: 1 }, connect: { count: 2, seconds: 0.0024 },
        first_byte: { count: 10, seconds: 0.07 }, response: { count: 10, seconds: 5 } },
      { site: 'b.test', url: 'http://192.0.2.1', requests: {}, connect: { count: 0, seconds: 0 }, first_byte: { count: 0, seconds: 0 }, response: { count: 0, seconds: 0 } }] },
    top: { titles_by_requests: [{ key: 'video.test/often/', requests: 98765, bytes: 1, error: 4 }], titles: [{ key: `/film/${MARKUP}`, requests: 1234, bytes: 4096, error: 3,
      players: { requests: 20, starved: 1, buffer: [1, 2, 3, 0, 0].map((requests) => ({ requests })), throughput: [] } }], starved_titles: [{ key: MARKUP, requests: 5, bytes: 1, error: 0 }] },
    acme: { orders: { ok: 1, rejected: 2 }, names: [{ name: 'video.example', state: 'waiting', not_after_timestamp_seconds: null,
      next_timestamp_seconds: 1900000000, error: `urn:ietf:params:acme:error:dns: ${MARKUP}` }] },
    work: [{ rest: 0.25, handshakes: 0.5, sealing: 0.25, sending: 0, filling: 0 }],
    cluster: [{ name: 'edge2', self: false, up: false, purges_missed: 7, fault: 'timeout', load: 1, connections: 2, busy: 0.5, requests: { answered: 1, failed: 2 },
      summary: { sent_bytes_per_second: 1.25e9, requests_per_second: 40, cache_hits_per_second: 9, cache_requests_per_second: 10,
        problems: [{ severity: 'critical', what: `origin ${MARKUP} is out` }] } }],
    private_keys: { fallbacks: 1, keyservers: [{ address: '192.0.2.9:2407', up: true, circuit_open: false, operations: { ok: 4, timed_out: 1 }, mean_seconds: 0.002, under_way: 0 }], tokens: [] },
    fleet: { up: true, circuit: 'closed', latency_seconds: 0.001, edges: 2, members: [{ name: 'edge-b', self: false, up: false, seen_timestamp_seconds: -7199, purges_missing: 3 },
      { name: 'edge-a', self: true, up: true, seen_timestamp_seconds: 1, purges_missing: 0 }] },
  });
  Object.assign(status.pressure, { given_up: [{ what: 'prefetch', since_timestamp_seconds: 1700000000 }], handshake_rate_limit: 120 });
  const event = `event: second\ndata: ${JSON.stringify({ at: 1, values: [], status })}\n\n`;
  await page.route('**/events', (route) => route.fulfill({ contentType: 'text/event-stream', body: event }));
  await page.reload();
  await shown('sites').getByText(MARKUP).waitFor();
  await shown('sites').getByText('50%').waitFor();
  await shown('titles').getByText(`/film/${MARKUP}`).waitFor();
  await shown('titles').getByText('1.23 k').or(shown('titles').getByText('1.23k')).first().waitFor();
  await shown('titles').getByText('5%', { exact: true }).waitFor();
  await shown('titles').getByText('50%').waitFor();
  const row = (id, text) => shown(id).locator('tr', { hasText: text });
  assert.match(await row('titles-by-requests', 'video.test/often/').textContent(), /98\.8 k/);
  assert.match(await row('origins', MARKUP).textContent(), /^http:\/\/192\.0\.2\.1up<img.*1\.2 ms7 ms500 ms/);
  assert.match(await row('origins', 'b.test').textContent(), /^b\.test–––/);
  assert.match(await row('players', MARKUP).textContent(), /15% below 5 s12\.5% below 1×/);
  assert.match(await row('store', 'edge-b').textContent(), /away for 2 h 0 min3/);
  assert.match(await row('store', 'edge-a').textContent(), /this edge0/);
  await row('peers', 'edge2').getByText('7', { exact: true }).waitFor();
  await shown('players').getByText('2.5%', { exact: true }).waitFor();
  await shown('starved-titles').getByText(MARKUP).waitFor();
  await shown('slow-sites').getByText('below 1 Mbit/s', { exact: true }).waitFor();
  await shown('slow-sites').getByText('75%').waitFor();
  await shown('slow-sites').getByText('25%').waitFor();
  await shown('acme').getByText(`urn:ietf:params:acme:error:dns: ${MARKUP}`).waitFor();
  await shown('acme').getByText('2030-').waitFor();
  await shown('pressure').getByText(/^does without prefetch since /).waitFor();
  await shown('pressure').getByText('at most 120/s').waitFor();
  await shown('work').getByText('worker 0: handshakes 50% · ').waitFor();
  await shown('peers').getByText('out: timeout').waitFor();
  await shown('peers').getByText('10 Gbit/s', { exact: true }).waitFor();
  await shown('peers').getByText('90%').waitFor();
  await shown('peers').getByText(`origin ${MARKUP} is out`).waitFor();
  await shown('keyservers').getByText('192.0.2.9:2407').waitFor();
  await shown('store').getByText('up', { exact: true }).waitFor();
  assert.equal(await page.locator('main img').count(), 0);
});

/** Asks as a player does that says how it is doing. */
const play = (path, said) => ask(`${path}?CMCD=${encodeURIComponent(said)}`);

test('titles, players and origins are shown as real requests made them', async () => {
  for (let n = 0; n < 80; n += 1) {
    await play(`/film/720p/${n % 4}.m4s`, n < 8 ? 'bl=0,br=3000,bs,mtp=1500,sid="one"' : 'bl=20000,br=3000,mtp=6000,sid="two"');
    if (n % 8 === 0) curl(`/film/${n}`, 'b.test');
  }
  await open();
  const row = (id, text) => shown(id).locator('tr', { hasText: text });
  // The load is one title, however much it asks for, so the film is among the first.
  await row('titles', '127.0.0.1/film/').getByText('10%').first().waitFor();
  await row('titles-by-requests', '127.0.0.1/film/').getByText('80', { exact: true }).waitFor();
  const players = await row('players', '127.0.0.1').textContent();
  assert.match(players, /^127\.0\.0\.128010%/, 'two sessions, 80 requests');
  assert.match(players, /10% below 5 s10% below 1×/);
  await row('starved-titles', '127.0.0.1/film/').waitFor();
  const starving = page.locator('.problems .warning', { hasText: /players of the site 127\.0\.0\.1 starve: .* at \d/ });
  await starving.waitFor();
  assert.match(await starving.locator('.help').textContent(), /penstock top -c FILE/);
  const well = await row('origins', `http://127.0.0.1:${origin.address().port}`).textContent();
  assert.match(well, /up127\.0\.0\.1[\d.]+ (µs|ms)[\d.]+ (µs|ms)[\d.]+ (µs|ms)/, 'connect, first byte and whole latency');
  const away = row('origins', 'b.test');
  assert.match(await away.textContent(), /^http:\/\/127\.0\.0\.1:1out: .*b\.test–––/);
  load = false;
  await working; // it opens a connection from time to time
  const tools = await metric('penstock_client_connections_total{client="tool"}');
  await row('kinds', /^tool/).getByText(String(tools), { exact: true }).first().waitFor();
  const counted = (await metric('penstock_origin_target_requests_total{site="b.test"'));
  assert.ok(counted >= 1, `${counted} requests failed`);
});

test('hovering and the keyboard show the numbers of a second, and the link keeps the view', async () => {
  await open();
  const chart = page.locator('#card-out .chart');
  await chart.waitFor();
  await chart.hover({ position: { x: 250, y: 40 } });
  await page.locator('#card-out .tip').waitFor();
  assert.match(await page.locator('#card-out .tip').textContent(), /\d\d:\d\d:\d\dsent /);
  await page.mouse.move(0, 0);
  await page.locator('#card-out .tip').waitFor({ state: 'detached' });
  await chart.focus();
  await page.keyboard.press('ArrowLeft');
  await page.locator('#card-out .tip').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('#card-out .tip').waitFor({ state: 'detached' });
  await page.keyboard.press('1');
  await page.locator('#card-handshakes h2 button').click();
  assert.match(page.url(), /#range=300&card=handshakes$/);
  await page.reload();
  await page.locator('#card-handshakes.open').waitFor();
  assert.equal(await page.getByRole('button', { name: '5 min', exact: true }).getAttribute('aria-pressed'), 'true');
});

test('the page fits a phone and a wall, in dark and light', async () => {
  await open();
  await shown('out').waitFor();
  for (const [width, height, columns] of [[400, 800, 1], [2560, 1440, 5]]) {
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height });
      const [overflow, tracks, ground] = await page.evaluate(() => [
        document.documentElement.scrollWidth - document.documentElement.clientWidth,
        getComputedStyle(document.querySelector('.grid')).gridTemplateColumns.split(' ').length,
        getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number),
      ]);
      assert.equal(overflow, 0, `at ${width} px the page does not scroll sideways`);
      assert.ok(columns === 1 ? tracks === 1 : tracks >= columns, `at ${width} px there are ${tracks} columns`);
      assert.equal(ground[0] < 100, colorScheme === 'dark');
    }
  }
});

test('a table that was scrolled sideways on a phone stays there', async () => {
  await page.setViewportSize({ width: 400, height: 800 });
  await open();
  await shown('origins').waitFor();
  // In one step: the page may draw another table between two.
  await page.evaluate(() => {
    const node = document.querySelector('#card-origins .scroll');
    node.scrollLeft = 60;
    node.dataset.before = 'yes';
  });
  // The next second draws another one in its place.
  await page.waitForFunction(() => document.querySelector('#card-origins .scroll')?.dataset.before === undefined);
  assert.equal(await page.evaluate(() => document.querySelector('#card-origins .scroll').scrollLeft), 60);
});

test('a purge is confirmed first, and purges', async () => {
  await ask('/purged.mp4');
  await open();
  await shown('out').waitFor();
  const before = await metric('penstock_cache_purges_total');
  await page.keyboard.press('x');
  await page.getByLabel('What to purge').fill('http://127.0.0.1/purged.mp4?a=1&b=50%25+c');
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByText('Really purge the URL').waitFor();
  assert.equal(await metric('penstock_cache_purges_total'), before, 'nothing is purged before the confirmation');
  await page.getByRole('button', { name: 'Purge', exact: true }).click();
  await page.getByText(/^Purged \d+ objects? here/).waitFor();
  assert.equal(await metric('penstock_cache_purges_total'), before + 1);
  await page.getByRole('button', { name: 'Close' }).click();
});

test('with a token the browser asks for a password, and the page works with it', async (t) => {
  writeFileSync(join(directory, 'admin.token'), `${TOKEN}\n`, { mode: 0o600 });
  const guarded = await serve(['-c', configure('guarded.yaml', `
listeners: [{address: "127.0.0.1:0"}]
sites: [{hosts: ["*"], origin: {directory: "."}}]
admin: {address: "127.0.0.1:0", token: admin.token}
`)], FOUND);
  t.after(guarded.stop);
  const stranger = await fetch(`http://${guarded.admin}/`);
  assert.equal(stranger.status, 401);
  const admitted = await browser.newContext({ httpCredentials: { username: 'ops', password: TOKEN, send: 'unauthorized' } });
  t.after(() => admitted.close());
  const other = await admitted.newPage();
  other.setDefaultTimeout(PATIENCE_MS);
  await other.goto(`http://${guarded.admin}/`);
  await other.waitForFunction(() => Number(document.querySelector('[data-total="requests"]')?.textContent) === 0);
  await other.locator('.problems .good').waitFor();
});

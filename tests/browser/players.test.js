// hls.js, dash.js and Shaka in a real Chromium: what they say (CMCD), what they are told (CMSD), where they are sent (steering), and the
// tokens that they carry.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { FLAGS, LAUNCH, PATIENCE_MS, until } from './browser.js';
import { program, serve } from './server.js';

const SEGMENTS = 120; // of one second each, so that none has all of them before a test ends
const HTTP = { http: /(?<=listening on )\S+(?=, HTTP\n)/ };
const TYPES = { m3u8: 'application/vnd.apple.mpegurl', mpd: 'application/dash+xml', m4s: 'video/iso.segment', js: 'text/javascript' };
const MODULES = fileURLToPath(new URL('node_modules/', import.meta.url));
const PLAYERS = {
  '/hls.js': 'hls.js/dist/hls.min.js',
  '/dash.js': 'dashjs/dist/modern/umd/dash.all.min.js',
  '/shaka.js': 'shaka-player/dist/shaka-player.compiled.js',
};
const PAGE = `<!doctype html><video muted></video>${Object.keys(PLAYERS).map((script) => `<script src="${script}"></script>`).join('')}`;

let directory, media, ranges, key, origin, pages, server, guarded, browser, context, page;
let asked = []; // what the origin was asked for: targets and fields
let changed = {}; // texts in place of files of the origin, by path
let faults, requests, responses; // of the browser

const listen = async (answer) => {
  const listener = createServer(answer);
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  return listener;
};
const close = (listener) => { listener?.close(); listener?.closeAllConnections(); };
const address = (listener) => `127.0.0.1:${listener.address().port}`;
const freePort = async () => {
  const socket = createSocket().listen(0, '127.0.0.1');
  await once(socket, 'listening');
  const { port } = socket.address();
  await new Promise((resolve) => socket.close(resolve));
  return port;
};

/** The media below any first directory, so that each test has objects of its own. */
function answer(request, response) {
  asked.push({ target: request.url, fields: request.headers });
  const path = request.url.split('?')[0];
  const file = join(path.includes('/ranges/') ? ranges : media, path.split('/').at(-1));
  const type = TYPES[path.split('.').at(-1)] ?? 'application/octet-stream';
  const fields = { 'Content-Type': type, 'Cache-Control': 'max-age=600', ETag: '"1"', 'CMSD-Dynamic': '"origin";etp=2000' };
  if (changed[path]) {
    response.writeHead(200, fields).end(changed[path]);
  } else if (existsSync(file)) {
    response.writeHead(200, { ...fields, 'Content-Length': statSync(file).size });
    createReadStream(file).pipe(response);
  } else {
    response.writeHead(404).end();
  }
}

const configuration = (name, sites, more = '') => {
  mkdirSync(join(directory, `${name}-memory`));
  const file = join(directory, `${name}.yaml`);
  writeFileSync(file, `
listeners: [{address: "127.0.0.1:0"}]
cache: {memory: {size: 64MiB, directory: ${name}-memory}}
sites:
${sites}${more}
`);
  return file;
};

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'penstock-players-'));
  media = join(directory, 'media');
  mkdirSync(media);
  ranges = join(directory, 'ranges');
  mkdirSync(ranges);
  // The second one is a file whose segments are byte ranges.
  for (const [folder, layout] of [[media, ['-use_timeline', '0']], [ranges, ['-single_file', '1']]]) {
    execFileSync('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', `testsrc2=size=320x180:rate=10:duration=${SEGMENTS}`,
      '-c:v', 'libx264', '-preset', 'ultrafast', '-b:v', '100k', '-g', '10', '-keyint_min', '10', '-sc_threshold', '0',
      '-f', 'dash', '-seg_duration', '1', ...layout, '-hls_playlist', '1', join(folder, 'manifest.mpd')], { stdio: 'pipe' });
  }
  key = join(directory, 'token.key');
  writeFileSync(key, '00112233445566778899aabbccddeeff', { mode: 0o600 });
  origin = await listen(answer);
  pages = await listen((request, response) => {
    const file = PLAYERS[request.url];
    response.writeHead(200, { 'Content-Type': file ? TYPES.js : 'text/html' });
    response.end(file ? readFileSync(join(MODULES, file)) : PAGE);
  });
  const site = (host, keys) => `  - {hosts: [${host}], origin: {http: ["http://${address(origin)}"]}, cors: {origins: ["*"]}, cache: {prefetch: 0}${keys}}\n`;
  server = await serve(['-c', configuration('edge', site('"127.0.0.1"', ', cmcd: {prefetch: true}, cmsd: true') + site('localhost', ''))], HTTP);
  guarded = await serve(['-c', configuration('guarded', `  - {origin: {http: ["http://${address(origin)}"]},
    cors: {origins: ["http://${address(pages)}"], credentials: true}, tokens: {format: akamai, key: ${key}, cookie: hdntl, set_cookie: true},
    routes: [{path: /penstock/*, tokens: {format: penstock, key: ${key}}}]}\n`)], HTTP);
  browser = await chromium.launch({ ...LAUNCH, args: [...FLAGS, '--autoplay-policy=no-user-gesture-required'] });
});

after(async () => {
  await browser?.close();
  for (const one of [server, guarded]) {
    if (one) assert.equal(await one.stop(), 0, 'the program ends cleanly when told to');
  }
  close(origin);
  close(pages);
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
});

beforeEach(async () => {
  [asked, faults, requests, responses] = [[], [], [], []];
  context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE_MS);
  page = await context.newPage();
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('request', (request) => requests.push(request));
  page.on('response', (response) => responses.push(response));
  await page.goto(`http://${address(pages)}/`);
});

afterEach(async () => {
  await context.close();
  assert.deepEqual(faults, []);
});

const isSegment = (url) => /chunk-.*\.m4s/.test(url);
const playedTo = (seconds) => page.waitForFunction((s) => document.querySelector('video').currentTime >= s, seconds);

/** Plays with hls.js, at this rate, with cookies or without. */
const withHls = (url, cmcd, rate = 1, withCredentials = false) => page.evaluate(([url, cmcd, rate, withCredentials]) => {
  const xhrSetup = (request) => { request.withCredentials = withCredentials; };
  const hls = new Hls({ cmcd, xhrSetup, maxBufferLength: 2, maxMaxBufferLength: 2 });
  const video = document.querySelector('video');
  hls.loadSource(url);
  hls.attachMedia(video);
  hls.on(Hls.Events.MANIFEST_PARSED, () => { video.playbackRate = rate; video.play(); });
}, [url, cmcd, rate, withCredentials]);

/** Plays with dash.js. */
const withDash = (url, cmcd, more = {}, withCredentials = false) => page.evaluate(([url, cmcd, more, withCredentials]) => {
  const player = dashjs.MediaPlayer().create();
  player.setXHRWithCredentialsForType(null, withCredentials);
  player.updateSettings({ streaming: { cmcd, ...more } });
  player.initialize(document.querySelector('video'), url, true);
}, [url, cmcd, more, withCredentials]);

/** Plays with Shaka. */
const withShaka = (url, cmcd, withCredentials = false) => page.evaluate(async ([url, cmcd, withCredentials]) => {
  const player = new shaka.Player();
  await player.attach(document.querySelector('video'));
  player.getNetworkingEngine().registerRequestFilter((_type, request) => { request.allowCrossSiteCredentials = withCredentials; });
  player.configure({ cmcd, streaming: { bufferingGoal: 4 } });
  await player.load(url);
  document.querySelector('video').play();
}, [url, cmcd, withCredentials]);

for (const [name, play] of [
  ['Shaka', (url, useHeaders) => withShaka(`${url}/manifest.mpd`, { enabled: true, contentId: 'film', useHeaders })],
  ['hls.js', (url, useHeaders) => withHls(`${url}/master.m3u8`, { sessionId: crypto.randomUUID(), contentId: 'film', useHeaders })],
  ['dash.js', (url, useHeaders) => withDash(`${url}/manifest.mpd`, {
    enabled: true, cid: 'film', mode: useHeaders ? 'header' : 'query',
  })],
]) {
  for (const useHeaders of [false, true]) {
    test(`${name} says what it says by ${useHeaders ? 'fields' : 'query'}, and the origin is asked as without it`, async () => {
      const directory = `${name}-${useHeaders}`;
      for (const _viewer of [1, 2]) {
        await play(`http://${server.http}/${directory}`, useHeaders);
        await playedTo(4);
        await page.reload();
      }
      const said = requests.filter((request) => isSegment(request.url())
        && (useHeaders ? Object.keys(request.headers()).some((field) => field.startsWith('cmcd-')) : request.url().includes('CMCD=')));
      assert.ok(said.length >= 8, `${said.length} segment requests with CMCD`);
      assert.ok(asked.length >= 5);
      const targets = asked.map(({ target }) => target);
      assert.deepEqual(targets.filter((target, place) => targets.indexOf(target) !== place), [], 'each is asked for once');
      assert.deepEqual(asked.filter(({ target, fields }) => /cmcd/i.test(target + Object.keys(fields))), []);
    });
  }
}

for (const [format, place, mark] of [['penstock', 'path', '/token='], ['akamai', 'cookie', 'hdnts=']]) {
  for (const [name, manifest, play] of [
    ['hls.js', 'master.m3u8', (url) => withHls(url, undefined, 1, true)],
    ['dash.js', 'manifest.mpd', (url) => withDash(url, { enabled: false }, {}, true)],
    ['Shaka', 'manifest.mpd', (url) => withShaka(url, { enabled: false }, true)],
  ]) {
    test(`${name} plays byte ranges with a token of ${format} in the ${place}`, async () => {
      const folder = `/${format}/${name}/`;
      const sign = ['sign', `${folder}ranges/${manifest}`, '--format', format, '--key-file', key, '--prefix', folder, '--expires', '1h'];
      const target = execFileSync(program, [...sign, '--in', place === 'path' ? 'path' : 'query', '--key-id', 'one']).toString().trim();
      await play(`http://${guarded.http}${target}`);
      await playedTo(3);
      const media = responses.filter((response) => response.url().includes('manifest-stream0.mp4') && response.request().method() === 'GET');
      assert.ok(media.length >= 4, `${media.length} requests for media`);
      for (const response of media) {
        assert.equal(response.status(), 206);
        assert.equal(response.url().includes(mark), place === 'path', response.url());
      }
      assert.deepEqual(asked.filter(({ target, fields }) => /hmac|hdnt/.test(target + JSON.stringify(fields))), [], 'no origin sees it');
      const status = async (path) => (await fetch(`http://${guarded.http}${path}`)).status;
      const of = (path) => status(target.replace(`${name}/ranges/${manifest}`, path));
      assert.equal(await status(`${folder}ranges/manifest-stream0.mp4`), 403, 'without it');
      assert.deepEqual([await of(`${name}/ranges/manifest-stream0.mp4`), await of('other/ranges/manifest-stream0.mp4')], [200, 403]);
    });
  }
}

test('at a cold edge few segment requests wait for the origin if the player names the next one', async () => {
  const waiting = async (host) => {
    responses = [];
    const url = `http://${server.http.replace('127.0.0.1', host)}/cold/master.m3u8`;
    await withHls(url, { sessionId: 'a', contentId: 'film' }, 4);
    await playedTo(37);
    // A player may ask for a segment twice.
    const segments = [...new Map(responses.filter((response) => isSegment(response.url())).reverse()
      .map((response) => [response.url(), response])).values()];
    const waited = segments.filter((response) => !response.headers()['cache-status'].includes('; hit'));
    return waited.length / segments.length;
  };
  assert.equal(await waiting('localhost'), 1, 'without prefetching all of them wait');
  await page.reload();
  const share = await waiting('127.0.0.1');
  // The first always waits, and a busy origin may be later than the player.
  assert.ok(share < 0.3, `${share} of the requests waited`);
});

// Renditions by their directory, in kbit/s. Segments come at a pace at which dash.js measures enough for the lowest one alone.
const RENDITIONS = { low: 100, middle: 1500, high: 4000 };
for (const [name, host, isTold, expected] of [
  ['that the server has measured', '127.0.0.1', true, 'high'],
  ['that the origin promises, if the server promises none', 'localhost', true, 'middle'],
  ['of its own if it reads no promise', '127.0.0.1', false, 'low'],
]) {
  test(`dash.js starts with the rendition for the throughput ${name}`, async (t) => {
    const site = (keys) => `  - {hosts: [${keys}, origin: {http: ["http://${address(origin)}"]}, cors: {origins: ["*"]}, cache: {prefetch: 0},
      routes: [{path: "*.m4s", pace: {rate: 32KiB}}]}\n`;
    const paced = await serve(['-c', configuration(`paced-${expected}`, site('"127.0.0.1"], cmsd: true') + site('localhost]'))], HTTP);
    t.after(() => paced.stop());
    const url = `http://${paced.http.replace('127.0.0.1', host)}/told`;
    const description = readFileSync(join(media, 'manifest.mpd'), 'utf8');
    const [representation] = description.match(/<Representation[^]*<\/Representation>/);
    const renditions = Object.entries(RENDITIONS).map(([id, kilobits]) => representation.replaceAll('$RepresentationID$', '0')
      .replace(/ id="\d+"/, ` id="${id}"`).replace(/ bandwidth="\d+"/, ` bandwidth="${kilobits}000"`)
      .replace('>', `><BaseURL>${id}/</BaseURL>`));
    changed['/told/manifest.mpd'] = description.replace(representation, renditions.join(''));
    // The connection has to have sent something before its throughput is known.
    await page.evaluate(async (target) => (await fetch(target)).arrayBuffer(), `${url}/ranges/manifest-stream0.mp4`);
    await withDash(`${url}/manifest.mpd`, { enabled: false }, { cmsd: { enabled: isTold, abr: { etpWeightRatio: 1 } } });
    await playedTo(3);
    const segments = responses.filter((response) => isSegment(response.url())).map((response) => ({
      rendition: response.url().split('/').at(-2),
      number: Number(response.url().match(/(\d+)\.m4s/)[1]),
      promised: Number(response.headers()['cmsd-dynamic'].match(/;etp=(\d+)/)[1]),
    }));
    assert.equal(segments[0].rendition, 'low', 'before it knows any throughput');
    // dash.js takes nine tenths of a throughput.
    const best = Object.entries(RENDITIONS).findLast(([, kilobits]) => kilobits <= 0.9 * segments[0].promised)[0];
    assert.equal(isTold ? best : 'low', expected, `${segments[0].promised} kbit/s`);
    // It asks for the second one before it has chosen.
    const chosen = segments.filter(({ number }) => number === 3 || number === 4);
    assert.ok(chosen.length >= 2, JSON.stringify(segments));
    assert.deepEqual(chosen.filter(({ rendition }) => rendition !== expected), []);
  });
}

test('players leave a node that drains, and go on playing', async (t) => {
  const ports = [await freePort(), await freePort()];
  const list = ports.map((port, place) => `{name: edge${place + 1}, address: "127.0.0.1:${port}"}`).join(', ');
  const site = `  - {origin: {http: ["http://${address(origin)}"]}, cors: {origins: ["*"]}, steering: {hls: /steering.json, dash: /steering.json, ttl: 1s}}\n`;
  const nodes = await Promise.all([1, 2].map((own) => serve(['-c', configuration(`edge${own}`, site,
    `cluster: {self: edge${own}, nodes: [${list}]}\nlimits: {lame_duck: 1h}`)], HTTP)));
  t.after(() => Promise.all(nodes.map((node) => { node.tell('SIGINT'); return node.stop(); })));
  const [one, two] = nodes.map((node) => `http://${node.http}`);
  const steering = `${two}/steering.json`;
  const first = async () => (await (await fetch(steering)).json())['PATHWAY-PRIORITY'][0];
  await until('both nodes', async () => await first() === 'edge1');

  const master = readFileSync(join(media, 'master.m3u8'), 'utf8');
  const [attributes, playlist] = master.match(/#EXT-X-STREAM-INF:(.*)\n(.*)/).slice(1);
  const variant = (id, url) => `#EXT-X-STREAM-INF:${attributes},PATHWAY-ID="${id}"\n${url}/steered/${playlist}\n`;
  changed['/steered/master.m3u8'] = `#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-CONTENT-STEERING:SERVER-URI="${steering}",PATHWAY-ID="edge1"\n`
    + variant('edge1', one) + variant('edge2', two);
  changed['/steered/manifest.mpd'] = readFileSync(join(media, 'manifest.mpd'), 'utf8').replace(/<Period/,
    `<BaseURL serviceLocation="edge1">${one}/steered/</BaseURL><BaseURL serviceLocation="edge2">${two}/steered/</BaseURL>`
    + `<ContentSteering defaultServiceLocation="edge1" queryBeforeStart="true">${steering}</ContentSteering><Period`);
  const segmentsOf = (node) => requests.filter((request) => isSegment(request.url()) && request.url().startsWith(node)).length;
  const other = await context.newPage();
  other.on('request', (request) => requests.push(request));
  await other.goto(`http://${address(pages)}/`);
  await withHls(`${two}/steered/master.m3u8`, undefined);
  await until('hls.js to use the first', () => segmentsOf(one) >= 2);
  assert.ok(requests.find((request) => isSegment(request.url())).url().startsWith(one), 'the first segment');
  const hlsPage = page;
  page = other;
  await withDash(`${two}/steered/manifest.mpd`, { enabled: false }, { buffer: { bufferTimeDefault: 2, bufferTimeAtTopQuality: 2, bufferTimeAtTopQualityLongForm: 2 } });
  await playedTo(1);
  nodes[0].tell('SIGTERM');
  await until('the manifest to name the other first', async () => await first() === 'edge2');
  for (const one of [hlsPage, other]) {
    page = one;
    let here = requests.length;
    await until('segments of the other node', () => requests.slice(here).some((request) => request.frame().page() === one
      && isSegment(request.url()) && request.url().startsWith(two)));
    here = await page.evaluate(() => document.querySelector('video').currentTime);
    await playedTo(here + 3);
  }
  page = hlsPage;
  assert.ok(requests.some((request) => request.url().includes('_HLS_pathway=')) && requests.some((request) => request.url().includes('_DASH_pathway=')));
});

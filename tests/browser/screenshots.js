// Makes the screenshots of the documentation: a real server with viewers, and an origin of which one server is out.
// Usage: node screenshots.js DIRECTORY [SECONDS]
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { LAUNCH } from './browser.js';
import { serve } from './server.js';

const SHOTS = [['page-light.png', 1440, 900, 'light'], ['page-dark.png', 1440, 900, 'dark'], ['page-phone.png', 400, 860, 'dark']];
/** The cards of the last picture, from the first to the last. */
const OF_VIEWERS = ['players', 'kinds'];
/** What viewers watch with, and how many of twelve do. */
const DEVICES = [
  ...Array(5).fill('Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'),
  ...Array(4).fill('Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0 Mobile Safari/537.36'),
  ...Array(3).fill('Mozilla/5.0 (SMART-TV; Linux; Tizen 8.0) AppleWebKit/537.36 (KHTML, like Gecko) TV Safari/537.36'),
];
const TITLES = [['video.example.com', '/films/sintel'], ['video.example.com', '/films/tears-of-steel'], ['live.example.com', '/news/hd']];
/** Bits per second of the only rendition. */
const BITRATE = 5_000_000;
/** Bytes per second that another one would need. */
const NEEDED = 2_500_000;

const [target, seconds = '150'] = process.argv.slice(2);
if (!target) throw new Error('write the directory for the screenshots: node screenshots.js docs');
const directory = mkdtempSync(join(tmpdir(), 'penstock-screenshots-'));
const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

const bodies = Array.from({ length: 60 }, (_, place) => Buffer.alloc(200_000 + 20_000 * place, 'x'));
const origin = createServer(async (request, response) => {
  const body = bodies[Number(request.url.match(/\d+/)?.[0] ?? 0) % bodies.length];
  await sleep(3 + 12 * Math.random());
  response.writeHead(200, { 'Content-Type': 'video/mp4', 'Content-Length': body.length, 'Cache-Control': 'max-age=8' });
  response.end(body);
});
origin.listen(0, '127.0.0.1');
await once(origin, 'listening');

mkdirSync(join(directory, 'memory'));
execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', join(directory, 'key.pem'),
  '-out', join(directory, 'cert.pem'), '-days', '9', '-subj', '/CN=video.example.com', '-addext', 'subjectAltName=DNS:video.example.com,DNS:live.example.com'], { stdio: 'pipe' });
writeFileSync(join(directory, 'penstock.yaml'), `
listeners: [{address: "127.0.0.1:0", tls: true}]
tls: {certificates: [{chain: cert.pem, key: key.pem}]}
cache: {memory: {size: 256MiB, directory: memory}, disk: [{directory: nvme0, size: 512MiB}]}
sites:
- {hosts: [video.example.com], origin: {http: ["http://127.0.0.1:${origin.address().port}", "http://127.0.0.1:1"]}}
- {hosts: [live.example.com], origin: {http: ["http://127.0.0.1:${origin.address().port}"]}}
metrics: {rates: [${NEEDED}]}
admin: {address: "127.0.0.1:0"}
`);
const server = await serve(['-c', join(directory, 'penstock.yaml')], { https: /(?<=listening on )\S+(?=, HTTPS)/, admin: /(?<=listening on )\S+(?=, admin)/ });
const port = Number(server.https.split(':').at(-1));
let isOver = false;

/** Sessions are kept by the agent, so that a new connection resumes one. A slow viewer reads a little and waits. */
const get = (agent, place, host, path, isSlow) => new Promise((done) => {
  const headers = { Host: host, 'User-Agent': DEVICES[place] };
  const request = https.get({ host: '127.0.0.1', localAddress: `127.0.0.${10 + place}`, port, servername: host, path, agent, headers }, (response) => {
    if (isSlow) response.on('data', () => { response.pause(); setTimeout(() => response.resume(), 10); });
    else response.resume();
    response.on('close', done);
  });
  request.on('error', done);
});

/** A player that tells how it is doing (CMCD). */
async function viewer(place) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
  const isSlow = place === DEVICES.length - 1;
  for (let n = 0; !isOver; n += 1) {
    const busy = 0.6 + 0.4 * Math.sin(Date.now() / 25_000 + place / 9);
    const [host, title] = TITLES[(place + Math.floor(n / 400)) % TITLES.length];
    const isStarved = isSlow && n % 3 === 0;
    const buffer = isStarved ? 0 : Math.round(isSlow ? 3000 : 4000 + 28_000 * Math.random());
    const throughput = Math.round(BITRATE / 1000 * (isSlow ? 0.7 + 0.5 * Math.random() : 1.2 + 4 * Math.random()));
    const said = [`bl=${buffer}`, `br=${BITRATE / 1000}`, ...(isStarved ? ['bs'] : []), `mtp=${throughput}`, `sid="${place}-${Math.floor(n / 400)}"`, ...(n % 400 === 0 ? ['su'] : [])];
    const segment = Math.floor(Math.random() ** 2 * bodies.length);
    await get(agent, place, host, `${title}/segment-${segment}.m4s?CMCD=${encodeURIComponent(said.join(','))}`, isSlow);
    if (n % 12 === 0) agent.destroy();
    await sleep(60 + 160 * (1 - busy));
  }
}

const viewers = Promise.all(DEVICES.map((_, place) => viewer(place)));
await sleep(1000 * Number(seconds));
const browser = await chromium.launch(LAUNCH);
/** Opens the page, and waits until it has numbers. */
async function open(width, height, colorScheme) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  await page.goto(`http://${server.admin}/#range=300`);
  await page.waitForFunction(() => Number(document.querySelector('[data-total="requests"]')?.textContent.replaceAll(',', '')) > 0);
  // A few seconds have rates.
  await sleep(3000);
  return page;
}

for (const [file, width, height, colorScheme] of SHOTS) {
  const page = await open(width, height, colorScheme);
  await page.screenshot({ path: join(target, file) });
  await page.close();
}
const page = await open(1440, 900, 'light');
const [first, last] = await Promise.all(OF_VIEWERS.map((id) => page.locator(`#card-${id}`).boundingBox()));
const clip = { x: first.x - 6, y: first.y - 6, width: first.width + 12, height: last.y + last.height - first.y + 12 };
await page.screenshot({ path: join(target, 'page-viewers.png'), fullPage: true, clip });
await browser.close();
isOver = true;
await viewers;
await server.stop();
origin.close();
origin.closeAllConnections();
rmSync(directory, { recursive: true, force: true, maxRetries: 5 });

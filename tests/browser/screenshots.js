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
import { CHROMIUM, FLAGS } from './browser.js';
import { serve } from './server.js';

const VIEWERS = 12;
const SHOTS = [['page-light.png', 1440, 900, 'light'], ['page-dark.png', 1440, 900, 'dark'], ['page-phone.png', 400, 860, 'dark']];

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
  '-out', join(directory, 'cert.pem'), '-days', '9', '-subj', '/CN=video.example.com', '-addext', 'subjectAltName=DNS:video.example.com'], { stdio: 'pipe' });
writeFileSync(join(directory, 'penstock.yaml'), `
listeners: [{address: "127.0.0.1:0", tls: true}]
tls: {certificates: [{chain: cert.pem, key: key.pem}]}
cache: {memory: {size: 64MiB, directory: memory}, disk: [{directory: nvme0, size: 256MiB}]}
sites: [{hosts: ["*"], origin: {http: ["http://127.0.0.1:${origin.address().port}", "http://127.0.0.1:1"]}}]
admin: {address: "127.0.0.1:0"}
`);
const server = await serve(['-c', join(directory, 'penstock.yaml')], { https: /(?<=listening on )\S+(?=, HTTPS)/, admin: /(?<=listening on )\S+(?=, admin)/ });
const port = Number(server.https.split(':').at(-1));
let isOver = false;

/** Sessions are kept by the agent, so that a new connection resumes one. */
const get = (agent, path) => new Promise((done) => {
  const request = https.get({ host: '127.0.0.1', port, servername: 'video.example.com', path, agent, headers: { Host: 'video.example.com' } }, (response) => {
    response.resume();
    response.on('close', done);
  });
  request.on('error', done);
});

async function viewer(place) {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
  for (let n = 0; !isOver; n += 1) {
    const busy = 0.6 + 0.4 * Math.sin(Date.now() / 25_000 + place / 9);
    await get(agent, `/segment-${Math.floor(Math.random() ** 2 * bodies.length)}.m4s`);
    if (n % 12 === 0) agent.destroy();
    await sleep(60 + 160 * (1 - busy));
  }
}

const viewers = Promise.all(Array.from({ length: VIEWERS }, (_, place) => viewer(place)));
await sleep(1000 * Number(seconds));
const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS, headless: true });
for (const [file, width, height, colorScheme] of SHOTS) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  await page.goto(`http://${server.admin}/#range=300`);
  await page.waitForFunction(() => Number(document.querySelector('[data-total="requests"]')?.textContent.replaceAll(',', '')) > 0);
  await sleep(2000);
  await page.screenshot({ path: join(target, file) });
  await page.close();
}
await browser.close();
isOver = true;
await viewers;
await server.stop();
origin.close();
origin.closeAllConnections();
rmSync(directory, { recursive: true, force: true, maxRetries: 5 });

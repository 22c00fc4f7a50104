// A real Chromium loads pages over HTTP/3. It takes QUIC from servers without a public certificate by force alone, so Alt-Svc is not tried.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { chromium } from 'playwright-core';
import { FLAGS, LAUNCH, PATIENCE_MS } from './browser.js';
import { makeCertificate } from './certificate.js';
import { serve } from './server.js';

const film = randomBytes(3_000_000);

/** A server with a page and a film, and a browser that uses QUIC for it and nothing else. */
async function open(t) {
  const directory = mkdtempSync(join(tmpdir(), 'penstock-http3-'));
  t.after(() => rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 }));
  const { hash } = makeCertificate(directory, 'DNS:localhost,IP:127.0.0.1');
  mkdirSync(join(directory, 'www'));
  writeFileSync(join(directory, 'www/index.html'), '<!doctype html><title>over QUIC</title>');
  writeFileSync(join(directory, 'www/film.mp4'), film);
  const file = join(directory, 'penstock.yaml');
  writeFileSync(file, `
listeners: [{address: "127.0.0.1:0", tls: true}]
tls: {certificates: [{chain: cert.pem, key: key.pem}]}
sites: [{hosts: ["*"], origin: {directory: www}}]
`);
  const server = await serve(['-c', file], { https: /(?<=listening on )\S+(?=, HTTPS)/ });
  t.after(server.stop);
  const port = Number(server.https.split(':').at(-1));
  const browser = await chromium.launch({
    ...LAUNCH,
    args: [...FLAGS.filter((flag) => flag !== '--disable-quic'), '--enable-quic', '--no-proxy-server',
      '--host-resolver-rules=MAP localhost 127.0.0.1', `--ignore-certificate-errors-spki-list=${hash}`,
      `--origin-to-force-quic-on=localhost:${port}`],
  });
  t.after(() => browser.close());
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  return { page, url: `https://localhost:${port}/` };
}

/** The response to a page. On a busy machine the browser may give a handshake up. */
async function loaded(page, url) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await page.goto(url);
    } catch (error) {
      if (Date.now() > end) throw error;
    }
  }
}

test('Chromium that may use nothing else gets pages and films over HTTP/3, byte for byte', async (t) => {
  const { page, url } = await open(t);
  const response = await loaded(page, url);
  assert.equal(response.status(), 200);
  assert.equal(await page.title(), 'over QUIC');
  assert.equal(await page.evaluate(() => performance.getEntriesByType('navigation')[0].nextHopProtocol), 'h3');
  const seen = await page.evaluate(async () => {
    const answers = await Promise.all([fetch('/film.mp4'), fetch('/film.mp4', { headers: { Range: 'bytes=1000-1999' } })]);
    const bodies = await Promise.all(answers.map((answer) => answer.arrayBuffer()));
    const hex = async (body) => Array.from(new Uint8Array(await crypto.subtle.digest('SHA-256', body)),
      (byte) => byte.toString(16).padStart(2, '0')).join('');
    const versions = performance.getEntriesByType('resource').map((entry) => entry.nextHopProtocol);
    return { statuses: answers.map((answer) => answer.status), hashes: await Promise.all(bodies.map(hex)), versions };
  });
  const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');
  assert.deepEqual(seen.statuses, [200, 206]);
  assert.deepEqual(seen.hashes, [hash(film), hash(film.subarray(1000, 2000))]);
  assert.ok(seen.versions.every((version) => version === 'h3'), seen.versions.join(' '));
});

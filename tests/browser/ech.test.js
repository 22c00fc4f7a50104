// A real Chromium hides the name it asks for (ECH, RFC 9849), with the record that `penstock ech new` printed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { chromium } from 'playwright-core';
import { FLAGS, LAUNCH, PATIENCE_MS } from './browser.js';
import { makeCertificate } from './certificate.js';
import { resolveName } from './names.js';
import { program, serve } from './server.js';

const HIDDEN = 'hidden.test';
const PUBLIC = 'public.test';
// Chromium waits for the HTTPS record at most 50 ms longer than for addresses, and then asks without ECH; with zeros without a limit.
const WAITS_FOR_RECORD = '--enable-features=UseDnsHttpsSvcb:'
  + ['TimeMax', 'TimePercent', 'TimeMin'].map((one) => `UseDnsHttpsSvcbSecureExtra${one}/0`).join('/');

function configure(directory) {
  mkdirSync(join(directory, 'www'));
  writeFileSync(join(directory, 'www/index.html'), '<!doctype html><title>hidden</title>');
  const file = join(directory, 'penstock.yaml');
  writeFileSync(file, `
listeners: [{address: "127.0.0.1:0", tls: true}]
tls: {certificates: [{chain: cert.pem, key: key.pem}], ech: {directory: ech}}
sites: [{hosts: ["*"], origin: {directory: www}}]
admin: {address: "127.0.0.1:0"}
`);
  return file;
}

const handshakes = async (admin, outcome) => {
  const metrics = await (await fetch(`http://${admin}/metrics`)).text();
  const line = metrics.split('\n').find((one) => one.startsWith(`penstock_ech_handshakes_total{outcome="${outcome}"}`));
  return Number(line?.split(' ')[1] ?? 0);
};

test('Chromium encrypts its ClientHello to the printed key', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'penstock-ech-'));
  t.after(() => rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 }));
  const certificate = makeCertificate(directory, `DNS:${HIDDEN},DNS:${PUBLIC},IP:127.0.0.1`);
  const text = execFileSync(program, ['ech', 'new', '--public-name', PUBLIC, join(directory, 'ech')],
    { stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim();

  const server = await serve(['-c', configure(directory)], {
    https: /(?<=listening on )\S+(?=, HTTPS)/, admin: /(?<=listening on )\S+(?=, admin)/,
  });
  t.after(server.stop);
  const port = Number(server.https.split(':').at(-1));
  const resolver = await resolveName({ host: HIDDEN, port, text, certificate });
  t.after(resolver.stop);

  // Browsers use ECH only with names from a resolver they trust.
  const profile = join(directory, 'profile');
  mkdirSync(profile);
  writeFileSync(join(profile, 'Local State'),
    JSON.stringify({ dns_over_https: { mode: 'secure', templates: resolver.url } }));
  const context = await chromium.launchPersistentContext(profile, {
    ...LAUNCH,
    args: [...FLAGS, WAITS_FOR_RECORD, '--no-proxy-server', `--ignore-certificate-errors-spki-list=${certificate.hash}`],
  });
  t.after(() => context.close());
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const response = await page.goto(`https://${HIDDEN}:${port}/`);

  assert.equal(response.status(), 200);
  assert.equal(await page.title(), 'hidden');
  assert.ok(resolver.asked.has(`_${port}._https.${HIDDEN}`), `asked for ${[...resolver.asked].join(' ')}`);
  assert.ok(await handshakes(server.admin, 'accepted') >= 1, 'the hello came encrypted and was opened');
});

// A real Chromium plays the demo page from the real program.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { chromium } from 'playwright-core';
import { LAUNCH, PATIENCE_MS } from './browser.js';
import { serveDemo } from './server.js';

let server, browser, context, page;
let faults; // what the browser complained of
let answers; // every response of the server

before(async () => {
  server = await serveDemo();
  browser = await chromium.launch(LAUNCH);
});

after(async () => {
  await browser?.close();
  if (server) assert.equal(await server.stop(), 0, 'the program ends cleanly when told to');
});

beforeEach(async () => {
  faults = [];
  answers = [];
  context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1200, height: 1100 } });
  context.setDefaultTimeout(PATIENCE_MS);
  page = await context.newPage();
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) faults.push(message.text()); });
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('requestfailed', (request) => {
    const { errorText } = request.failure();
    // A player gives up requests it no longer needs, after a seek for one.
    if (errorText !== 'net::ERR_ABORTED') faults.push(`${request.url()}: ${errorText}`);
  });
  page.on('response', (response) => {
    answers.push(response);
    if (response.status() >= 400) faults.push(`${response.url()}: ${response.status()}`);
  });
  await page.goto(server.url);
});

afterEach(async () => {
  faults.push(...await page.evaluate(() => window.__penstock.errors));
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/${Date.now()}.png` });
  await context.close();
  assert.deepEqual(faults, []);
});

const playedTo = (seconds) => page.waitForFunction((s) => window.__penstock.currentTime >= s, seconds);

test('the page plays ten seconds of HLS', async () => {
  await playedTo(10);
  await page.waitForFunction(() => window.__penstock.state === 'playing');
  const { segments } = await page.evaluate(() => window.__penstock);
  assert.ok(segments.length >= 3, `ten seconds are at least three segments, got ${segments.length}`);
});

test('segments come over HTTP/2', async () => {
  await playedTo(5);
  const protocols = await page.evaluate(() => performance.getEntriesByType('resource')
    .filter(({ name }) => name.endsWith('.m4s')).map(({ nextHopProtocol }) => nextHopProtocol));
  assert.ok(protocols.length >= 2, `at least two segments, got ${protocols.length}`);
  assert.deepEqual([...new Set(protocols)], ['h2']);
  await page.waitForFunction(() => document.getElementById('protocol').textContent === 'H2');
});

test('a chosen rendition is the one that plays', async () => {
  await playedTo(1);
  for (const height of [360, 720, 480]) {
    await page.getByText(`${height}p`, { exact: true }).first().click();
    await page.waitForFunction((h) => document.querySelector('video').videoHeight === h
      && window.__penstock.rendition === `${h}p`, height);
  }
});

test('the MP4 jumps to 40 s by a range request', async () => {
  await page.getByText('MP4', { exact: true }).first().click();
  await playedTo(1);
  answers.length = 0;
  await page.evaluate(() => { document.querySelector('video').currentTime = 40; });
  await playedTo(42);
  const ranges = answers.filter((answer) => answer.status() === 206).map((answer) => answer.headers()['content-range']);
  assert.match(ranges.join(), /bytes [1-9]\d*-/, 'a part from the middle was asked for and sent');
});

test('the video fills its column in narrow and wide windows', async () => {
  for (const [width, height, least] of [[400, 800, 360], [2560, 1440, 1280]]) {
    await page.setViewportSize({ width, height });
    const [video, column, overflow] = await page.evaluate(() => [
      document.querySelector('video').getBoundingClientRect().width,
      document.querySelector('main section').getBoundingClientRect().width,
      document.documentElement.scrollWidth - document.documentElement.clientWidth,
    ]);
    assert.equal(video, column, `at ${width} px`);
    assert.ok(video >= least, `at ${width} px the video has ${video} px`);
    assert.equal(overflow, 0, `at ${width} px the page does not scroll sideways`);
  }
});

test('the time of the handshake is shown, or that the connection was reused', async () => {
  const shown = () => page.evaluate(() => document.getElementById('handshake').textContent);
  await page.waitForFunction(() => /^\d+\.\d ms$/.test(document.getElementById('handshake').textContent));
  assert.notEqual(await shown(), '0.0 ms');
  await page.reload();
  await page.waitForFunction(() => document.getElementById('handshake').textContent === 'connection reused');
});

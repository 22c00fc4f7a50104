// Runs http-cache-tests through the real program, and compares the failures with the list of deliberate deviations.
//
// The archive beside this file is the suite of github.com/http-tests/cache-tests at commit b55b8bd (2026-07-20): the package
// of the same name on npm is three years older, and contradicts RFC 9111 in what it expects of Age.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { getResults, runTests } from 'http-cache-tests/test-engine/client/runner.mjs';
import suites from 'http-cache-tests/tests/index.mjs';
import { serve } from '../browser/server.js';
import { DEVIATIONS } from './deviations.js';
import { startOrigin } from './origin.js';

// Fields of requests that the tests look for at the origin, or that it selects by.
const FIELDS = ['Req-Num', 'Test-ID', 'Foo', 'Bar', 'Baz', 'Test-Header', 'Abc', 'Accept-Language', 'Accept-Encoding',
  'Authorization'];
const METHODS = ['POST', 'PUT', 'DELETE', 'M-SEARCH'];
// Suites that need no forwarded field. An error is not stored while the request had one that Vary does not name.
const WITHOUT_FIELDS = ['status'];

const tests = suites.flatMap((suite) => suite.tests).filter((test) => !test.browser_only);

/** The configuration, which is YAML because all JSON is: a site that forwards fields of clients, and one that does not. */
const configuration = (origin, directory) => {
  const site = (host, cache) => ({ hosts: [host], methods: METHODS, origin: { http: [origin] }, cache });
  return JSON.stringify({
    listeners: [{ address: '127.0.0.1:0' }, { address: '127.0.0.2:0' }],
    cache: { slice: '1MiB', memory: { directory: join(directory, 'memory'), size: '64MiB' } },
    sites: [site('127.0.0.1', { default_ttl: '60s', vary: FIELDS }), site('127.0.0.2', { default_ttl: '60s' })],
  });
};

let directory, origin, server;

before(async () => {
  directory = await mkdtemp('/dev/shm/penstock-caching-');
  origin = await startOrigin();
  const file = join(directory, 'penstock.yaml');
  await writeFile(file, configuration(origin.url, directory));
  const listening = (address) => new RegExp(`(?<=listening on )${address}:\\d+`);
  server = await serve(['--config', file], { fields: listening('127.0.0.1'), plain: listening('127.0.0.2') });
});

after(async () => {
  const code = await server?.stop();
  origin?.stop();
  if (directory) await rm(directory, { recursive: true });
  if (server) assert.equal(code, 0, 'the program ends cleanly when told to');
});

test('the failures of http-cache-tests are the deliberate deviations', async (t) => {
  const isPlain = ({ id }) => WITHOUT_FIELDS.includes(id);
  await runTests(suites.filter(isPlain), false, `http://${server.plain}`);
  await runTests(suites.filter((suite) => !isPlain(suite)), false, `http://${server.fields}`);
  const results = getResults();
  for (const kind of ['required', 'optimal', 'check']) {
    const ids = tests.filter((one) => (one.kind ?? 'required') === kind).map(({ id }) => id);
    t.diagnostic(`${kind}: ${ids.filter((id) => results[id] === true).length} of ${ids.length}`);
  }
  // Tests of the kind `check` tell caches apart; neither outcome is a fault.
  const faults = tests.filter(({ kind }) => kind !== 'check').flatMap(({ id }) => {
    const passed = results[id] === true;
    if (passed && id in DEVIATIONS) return [`${id} passes: take it off the list of deviations`];
    if (passed || id in DEVIATIONS) return [];
    return [`${id} failed: ${results[id]?.join(': ') ?? 'it has no result'}`];
  });
  const known = new Set(tests.map(({ id }) => id));
  const unknown = Object.keys(DEVIATIONS).filter((id) => !known.has(id)).map((id) => `${id} is no test of the suite`);
  assert.deepEqual([...faults, ...unknown], []);
});

// The browser that all tests use, and what keeps it from looking for anything but the server under test.
import assert from 'node:assert/strict';

const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
/** How long a loaded machine may take for any step. */
export const PATIENCE_MS = 60_000;
export const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--mute-audio',
  '--disable-background-networking', '--disable-component-update', '--disable-sync',
];
/** Waits until this is so. */
export async function until(what, done) {
  const end = Date.now() + PATIENCE_MS;
  while (!await done()) {
    assert.ok(Date.now() < end, what);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
/** How Playwright starts it. The first start on a machine reads all of it from the disk. */
export const LAUNCH = { executablePath: CHROMIUM, args: FLAGS, headless: true, timeout: 2 * PATIENCE_MS };

// The browser that all tests use, and what keeps it from looking for anything but the server under test.
export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
export const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--mute-audio',
  '--disable-background-networking', '--disable-component-update', '--disable-sync',
];

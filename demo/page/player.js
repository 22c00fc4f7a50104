// Plays the HLS renditions or the MP4, and shows the activity of the network.
'use strict';

const MASTER = 'video/master.m3u8';
const MP4 = 'video/test-pattern.mp4';
const AHEAD_S = 16; // kept small, so that there is something to watch
const REFRESH_MS = 250;
const REMEMBERED = 20; // measurements behind a median

const video = document.querySelector('video');
const map = document.querySelector('#map');
const quality = document.querySelector('#quality');

// The browser tests read this.
const seen = {
  errors: [],
  segments: [],
  rendition: null,
  get currentTime() { return video.currentTime; },
  get state() { return document.body.dataset.state; },
};
window.__penstock = seen;

const waits = []; // ms from request to first byte
const rates = []; // bits per second, of each video segment
let received = 0;
let protocol = '';
let hls = null;

// ---- sources

function playHls() {
  if (!Hls.isSupported()) return playFile(MASTER); // Safari on iPhones plays HLS itself
  hls = new Hls({ abrEwmaDefaultEstimate: 5e6, maxBufferLength: AHEAD_S, maxMaxBufferLength: AHEAD_S });
  hls.on(Hls.Events.MANIFEST_PARSED, (_, { levels }) => offer(levels));
  hls.on(Hls.Events.LEVEL_LOADED, (_, { details }) => drawMap(details.fragments.length));
  hls.on(Hls.Events.LEVEL_SWITCHED, (_, { level }) => { seen.rendition = nameOf(hls.levels[level]); });
  hls.on(Hls.Events.FRAG_LOADED, (_, { frag }) => { if (frag.type === 'main') arrived(frag); });
  hls.on(Hls.Events.ERROR, (_, { fatal, details }) => { if (fatal) fail(`HLS: ${details}`); });
  hls.loadSource(MASTER);
  hls.attachMedia(video);
}

function playFile(url) {
  seen.rendition = url === MP4 ? 'MP4' : 'HLS';
  video.src = url;
}

function play(source) {
  hls?.destroy();
  hls = null;
  rates.length = 0;
  quality.disabled = source === 'mp4';
  document.querySelector('#fault').hidden = true;
  document.body.dataset.state = 'loading';
  for (const cell of cells()) cell.style.removeProperty('--share');
  if (source === 'mp4') playFile(MP4);
  else playHls();
  video.play().catch(() => {}); // without leave to play by itself it waits for the viewer
}

function offer(levels) {
  for (const label of quality.querySelectorAll('label:not(:first-of-type)')) label.remove();
  quality.querySelector('input').checked = true;
  for (const level of [...levels.keys()].reverse()) {
    const label = quality.querySelector('label').cloneNode(true);
    label.querySelector('input').value = level;
    label.querySelector('input').checked = false;
    label.querySelector('span').textContent = nameOf(levels[level]);
    quality.append(label);
  }
}

function nameOf(level) {
  return `${level.height}p`;
}

document.querySelector('#source').addEventListener('change', ({ target }) => play(target.value));
quality.addEventListener('change', ({ target }) => { if (hls) hls.nextLevel = Number(target.value); });

// ---- observations

function arrived(frag) {
  const { loading, total } = frag.stats;
  if (frag.sn === 'initSegment') return;
  const rate = total * 8e3 / Math.max(loading.end - loading.first, 0.1);
  const rendition = nameOf(hls.levels[frag.level]);
  remember(rates, rate);
  seen.segments.push({ url: frag.url, rendition, bytes: total });
  const cell = cells()[frag.sn];
  cell.style.setProperty('--share', (frag.level + 1) / hls.levels.length);
  cell.title = `${rendition}, ${bytes(total)} at ${bits(rate)}`;
}

function measured(entry) {
  if (entry.responseStart > entry.requestStart) remember(waits, entry.responseStart - entry.requestStart);
  received += entry.transferSize;
  protocol = entry.nextHopProtocol || protocol;
}

function remember(list, value) {
  list.push(value);
  if (list.length > REMEMBERED) list.shift();
}

function fail(what) {
  seen.errors.push(what);
  document.body.dataset.state = 'error';
  document.querySelector('#fault').textContent = `Playing stopped: ${what}`;
  document.querySelector('#fault').hidden = false;
}

for (const [event, state] of [['playing', 'playing'], ['pause', 'paused'], ['waiting', 'waiting'], ['ended', 'ended']]) {
  video.addEventListener(event, () => { document.body.dataset.state = state; });
}
video.addEventListener('error', () => { if (!hls) fail(video.error.message); });
window.addEventListener('error', ({ message }) => fail(message));
new PerformanceObserver((list) => list.getEntries().forEach(measured)).observe({ type: 'resource', buffered: true });
new PerformanceObserver((list) => list.getEntries().forEach(measured)).observe({ type: 'navigation', buffered: true });

// ---- display

function cells() {
  return map.querySelectorAll('li');
}

function drawMap(segments) {
  const list = map.querySelector('ol');
  while (list.childElementCount < segments) list.append(document.createElement('li'));
}

function bufferedUntil(time) {
  const { buffered } = video;
  for (let i = 0; i < buffered.length; i++) {
    if (buffered.start(i) <= time && time < buffered.end(i)) return buffered.end(i);
  }
  return time;
}

function median(list) {
  return [...list].sort((a, b) => a - b)[list.length >> 1];
}

function bytes(count) {
  return count < 1e6 ? `${(count / 1e3).toFixed(0)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

function bits(rate) {
  return rate < 1e9 ? `${(rate / 1e6).toFixed(0)} Mbit/s` : `${(rate / 1e9).toFixed(1)} Gbit/s`;
}

function handshake() {
  const [page] = performance.getEntriesByType('navigation');
  if (location.protocol !== 'https:') return 'none';
  // Both times of a reused connection are the start of the fetch (Resource Timing).
  const took = page.connectEnd - page.secureConnectionStart;
  return took > 0 ? `${took.toFixed(1)} ms` : 'connection reused';
}

function show(id, value, remark = '') {
  const field = document.querySelector(`#${id}`);
  const note = document.createElement('small');
  note.textContent = remark;
  field.replaceChildren(value, note);
}

function refresh() {
  const { totalVideoFrames, droppedVideoFrames } = video.getVideoPlaybackQuality();
  show('rendition', seen.rendition ?? '–', video.videoWidth ? ` ${video.videoWidth} × ${video.videoHeight}` : '');
  show('buffer', `${(bufferedUntil(video.currentTime) - video.currentTime).toFixed(1)} s`);
  show('throughput', rates.length ? bits(median(rates)) : '–');
  show('first-byte', waits.length ? `${median(waits).toFixed(1)} ms` : '–');
  show('handshake', handshake());
  show('protocol', protocol.toUpperCase() || '–');
  show('received', bytes(received));
  show('dropped', `${droppedVideoFrames}`, ` of ${totalVideoFrames}`);
  map.style.setProperty('--played', video.duration ? video.currentTime / video.duration : 0);
  if (!hls) fillFromBuffer();
}

// A single file has no segments: a cell fills when the player holds its middle.
function fillFromBuffer() {
  const all = cells();
  all.forEach((cell, i) => {
    const middle = (i + 0.5) / all.length * video.duration;
    if (bufferedUntil(middle) > middle) cell.style.setProperty('--share', 1);
  });
}

document.querySelector('#host').textContent = location.host;
setInterval(refresh, REFRESH_MS);
play('hls');

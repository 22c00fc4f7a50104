// The dialog that purges: what, then a confirmation, then what was done.
import { el } from './charts.js';

const KINDS = [['url', 'one URL', 'https://video.example.com/a.mp4, or /a.mp4 on every site'],
  ['prefix', 'URLs that begin with', 'https://video.example.com/vod/123/'], ['tag', 'a tag', 'film-123'], ['everything', 'everything', '']];

/** What is wanted, in words. */
function describe({ kind, value, soft }) {
  const what = { url: `the URL ${value}`, prefix: `all URLs that begin with ${value}`, tag: `all objects with the tag ${value}`, everything: 'the whole cache' }[kind];
  return soft ? `make ${what} stale` : `purge ${what}`;
}

function outcome(status, answer) {
  if (status !== 200) return `Not purged: ${answer.error ?? `the server answered ${status}`}`;
  const parts = [`Purged ${answer.purged} object${answer.purged === 1 ? '' : 's'} here`];
  if (answer.cluster) {
    parts.push(`confirmed by ${answer.cluster.confirmed.length} other nodes`);
    if (answer.cluster.missing.length > 0) parts.push(`not yet by ${answer.cluster.missing.join(', ')}: it is repeated once they answer`);
  }
  if (answer.fleet) parts.push(answer.fleet.published ? `applied by ${answer.fleet.applied} of ${answer.fleet.edges} edges` : 'the store does not answer: other edges get it once it does');
  return `${parts.join('; ')}.`;
}

async function send({ kind, value, soft }) {
  const query = new URLSearchParams({ [kind]: kind === 'everything' ? '1' : value });
  if (soft) query.set('soft', '1');
  // The server decodes percent-encoding and takes `+` for itself.
  const response = await fetch(`/cache/purge?${query.toString().replaceAll('+', '%20')}`, { method: 'POST' });
  const answer = await response.json().catch(() => ({}));
  return outcome(response.status, answer);
}

/** Opens the dialog. Nothing is sent before the confirmation. */
export function askToPurge() {
  if (document.querySelector('dialog')) return;
  const wanted = { kind: 'url', value: '', soft: false };
  const dialog = el('dialog', { 'aria-labelledby': 'purge-title' });
  const close = () => { dialog.close(); dialog.remove(); };
  dialog.addEventListener('cancel', close);
  const title = el('h2', { id: 'purge-title' }, 'Purge from the cache');
  const field = el('input', { type: 'text', 'aria-label': 'What to purge', spellcheck: 'false', autocomplete: 'off' });
  const next = el('button', { type: 'submit', class: 'danger' }, 'Next');
  const update = () => {
    const kind = KINDS.find(([name]) => name === wanted.kind);
    field.hidden = wanted.kind === 'everything';
    field.placeholder = kind[2];
    wanted.value = field.value.trim();
    next.disabled = wanted.kind !== 'everything' && wanted.value === '';
  };
  field.addEventListener('input', update);
  const choices = KINDS.map(([kind, label]) => el('label', {}, el('input', {
    type: 'radio', name: 'kind', value: kind, checked: kind === 'url', onchange: () => { wanted.kind = kind; update(); },
  }), label));
  const soft = el('label', {}, el('input', { type: 'checkbox', onchange: (event) => { wanted.soft = event.target.checked; } }), 'only make it stale');
  const cancel = (words) => el('button', { type: 'button', onclick: close }, words);
  const ask = el('form', { method: 'dialog', onsubmit: (event) => { event.preventDefault(); confirm(); } },
    el('fieldset', {}, ...choices), field, el('fieldset', { class: 'say' }, soft), el('div', { class: 'row' }, cancel('Cancel'), next));

  function confirm() {
    const yes = el('button', { type: 'button', class: 'danger' }, wanted.soft ? 'Make stale' : 'Purge');
    const say = el('p', { class: 'say', role: 'status' });
    const row = el('div', { class: 'row' }, cancel('Cancel'), yes);
    yes.addEventListener('click', async () => {
      yes.disabled = true;
      say.textContent = await send(wanted).catch(() => 'Not purged: the server does not answer.');
      row.replaceChildren(cancel('Close'));
      row.firstChild.focus();
    });
    dialog.replaceChildren(title, el('p', {}, `Really ${describe(wanted)}? Its next requests go to the origin, on every node of the cluster and every edge of the fleet.`), say, row);
    row.firstChild.focus();
  }

  dialog.append(title, ask);
  document.body.append(dialog);
  update();
  dialog.showModal();
  field.focus();
}

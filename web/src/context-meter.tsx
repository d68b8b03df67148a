// How full the context of a session is, what is pinned, when it is compacted, and what it cost.
import { useState } from 'preact/hooks';
import type { Provider, Session, Turn } from './api-types';
import { providers } from './provider-store';
import { plural } from './session-display';
import type { SessionStore } from './session-store';

/** ctx compacts a history that fills more than this part of the window. */
const FULL = 0.85;
/** Window that ctx assumes for a provider that reports none. */
const USUAL_WINDOW = 128_000;

/** The size of the newest request in tokens, as the provider or the newest compaction reported. */
export function contextTokens(turnsNewestFirst: Iterable<Turn>): number | null {
  for (const { compaction, usage } of turnsNewestFirst) {
    if (compaction) return compaction.tokens_after || null;
    if (usage?.input_tokens != null && usage.scope !== 'session') {
      return usage.input_tokens + (usage.output_tokens ?? 0);
    }
  }
  return null;
}

function* loadedFromHead(store: SessionStore): Generator<Turn> {
  for (let depth = store.turnCount; depth > 0; depth--) {
    const turn = store.turns.get(depth);
    if (!turn) return;
    yield turn;
  }
}

/** The sum of the costs that are known, and whether all loaded turns have one. */
function knownCost(store: SessionStore): { total: number; isComplete: boolean } | null {
  let total = 0;
  let [known, unknown] = [0, 0];
  for (const { type, provider_id, usage } of store.turns.values()) {
    const cost = Number.parseFloat(usage?.cost?.replace(/^[^\d.]*/, '') ?? '');
    if (Number.isFinite(cost)) {
      total += cost;
      known++;
    } else if (type === 'normal' && provider_id) unknown++;
  }
  const isComplete = unknown === 0 && store.turns.size === store.turnCount;
  return known === 0 ? null : { total, isComplete };
}

export function ContextMeter({ store, session }: { store: SessionStore; session: Session }) {
  const [open, setOpen] = useState(false);
  store.turnsVersion.value;
  const used = contextTokens(loadedFromHead(store));
  const id = session.run?.provider_id ?? session.provider_id ?? providers.value.defaultId;
  const provider = providers.value.all.find((one) => one.id === id);
  const pinned = store.pinnedTurns.value.size;
  const cost = knownCost(store);
  if (used === null && pinned === 0 && cost === null) return null;
  const window = provider?.context_window || USUAL_WINDOW;
  const share = used === null ? null : Math.min(1, used / window);
  const percent = share === null ? null : Math.round(share * 100);
  const price = cost && `${cost.isComplete ? '' : 'at least '}$${cost.total.toFixed(2)}`;
  return (
    <div class="context-meter">
      <button
        type="button"
        class="link"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        title="How much of the model's context window this session fills"
      >
        {share !== null && (
          <span class={`meter ${share > FULL ? 'full' : ''}`} aria-hidden="true">
            <span style={{ width: `${Math.max(2, share * 100)}%` }} />
          </span>
        )}
        Context {percent === null ? 'unknown' : `${percent} %`}
        {pinned > 0 && ` · ${pinned} pinned`}
        {price && ` · ${price}`}
      </button>
      {open && <p class="hint">{explanation(used, window, provider, pinned, price)}</p>}
    </div>
  );
}

function explanation(
  used: number | null,
  window: number,
  provider: Provider | undefined,
  pinned: number,
  price: string | null,
): string {
  const limit = Math.floor(window * FULL);
  const size =
    used === null
      ? 'The provider has not reported the size of the context.'
      : `The newest request and its answer have ${used.toLocaleString()} of ` +
        `${window.toLocaleString()} tokens.`;
  const isAgent = provider && ['acp', 'pi'].includes(provider.kind);
  const when = isAgent
    ? 'The agent compacts its context itself.'
    : `ctx compacts above ${limit.toLocaleString()} tokens (85 %): older turns are then sent as ` +
      'a summary.';
  const pins =
    pinned > 0
      ? `${plural(pinned, 'pinned turn')} ${pinned === 1 ? 'is' : 'are'} always sent in full.`
      : 'Pinned turns are always sent in full.';
  return [size, when, pins, price && `Cost so far: ${price}.`].filter(Boolean).join(' ');
}

// Compaction of the context window: the marker in the transcript and the dialog that requests one.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { post, sessionPath } from './api';
import type { Compaction, Session, Turn } from './api-types';
import { Collapsible } from './collapsible';
import { renderMarkdown } from './markdown';
import { SafeHtml } from './markdown-block';
import { fetchProviders, providers } from './provider-store';
import { hrefTo } from './route';
import type { TurnActions } from './row-view';
import { plural } from './session-display';
import type { SessionStore } from './session-store';

const TRIGGERS: Record<string, string> = {
  context_limit: 'The context window was almost full.',
  overflow_recovery: 'The context window was full.',
  manual: 'Requested by the user.',
  periodic: 'Requested by a schedule.',
};

interface MarkerProps {
  name: string;
  turn: Turn;
  summary: string;
  actions: TurnActions | null;
}

/** One line with the number of summarized turns and tokens saved; the summary is collapsed. */
export function CompactionMarker({ name, turn, summary, actions }: MarkerProps) {
  const { compaction } = turn;
  const [busy, error, run] = useAction();
  const saved = compaction ? `: ${savings(compaction)}` : '';
  const title = `Context compacted${saved}. Nothing was deleted.`;
  return (
    <div class="compaction-marker">
      <Collapsible name={name} class="compaction" title={<span>{title}</span>}>
        {() => (
          <>
            {compaction && <p class="hint">{details(compaction)}</p>}
            <SafeHtml html={renderMarkdown(summary || 'The summary is empty.')} />
            {compaction && actions && (
              <div class="buttons">
                {compaction.summarized_through_turn_id && (
                  <a
                    class="button small"
                    href={hrefTo.turn(actions.session, compaction.summarized_through_turn_id)}
                  >
                    Go to the last summarized turn
                  </a>
                )}
                {turn.parent && (
                  <button
                    type="button"
                    class="small"
                    disabled={busy}
                    onClick={() => run(() => actions.fork(turn.parent!))}
                  >
                    Fork before this
                  </button>
                )}
              </div>
            )}
            <ErrorMessage text={error} />
          </>
        )}
      </Collapsible>
    </div>
  );
}

function savings(compaction: Compaction): string {
  const turns = `${plural(compaction.turns_summarized, 'turn')} summarized`;
  const { tokens_before: before, tokens_after: after } = compaction;
  if (!before || !after) return turns;
  const percent = Math.round(100 - (100 * after) / before);
  return `${turns}, ${before.toLocaleString()} → ${after.toLocaleString()} tokens (−${percent} %)`;
}

function details(compaction: Compaction): string {
  const { focus } = compaction.metadata_json;
  const keptTurns = compaction.first_kept_turn_id
    ? 'Later turns and pinned turns are still sent in full.'
    : 'Only pinned turns are still sent in full.';
  const sentences = [
    TRIGGERS[compaction.trigger],
    focus && `Focus: ${focus}.`,
    author(compaction),
    keptTurns,
  ];
  return sentences.filter(Boolean).join(' ');
}

function author(compaction: Compaction): string {
  if (compaction.by === 'agent') return 'Compacted by the agent.';
  if (compaction.compaction_type === 'sliding_window') {
    return 'Extracted without a model, because none was available.';
  }
  return `Summarized by ${compaction.model ?? compaction.provider ?? 'ctx'}.`;
}

/** Why compaction is not available, or null. The server makes the final decision. */
function unavailableReason(session: Session): string | null {
  if (!session.head && session.state === 'idle') return 'This session has no messages yet.';
  const id = session.provider_id ?? providers.value.defaultId;
  const provider = providers.value.all.find((provider) => provider.id === id);
  const isUnsupported =
    provider?.commands &&
    !provider.can.compact &&
    !provider.commands.some((command) => command.name === 'compact');
  return isUnsupported
    ? `${provider.id} manages its own context and has no command to compact it.`
    : null;
}

/** Opens the dialog. */
export const isCompactOpen = signal(false);

export function CompactDialog({ store, session }: { store: SessionStore; session: Session }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [focus, setFocus] = useState('');
  const [busy, error, run] = useAction();
  useEffect(() => {
    if (!isCompactOpen.value) return;
    // An agent reports its commands only after it has started.
    void fetchProviders();
    dialog.current?.showModal();
  }, [isCompactOpen.value]);
  const compact = () =>
    run(async () => {
      const body = focus.trim() ? { focus: focus.trim() } : {};
      await post(sessionPath(session.id, '/compact'), body);
      setFocus('');
      dialog.current?.close();
      await store.refresh('session', 'open', 'inbox');
    });
  const reason = unavailableReason(session);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="compact-title"
      onClose={() => (isCompactOpen.value = false)}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          compact();
        }}
      >
        <h2 id="compact-title">Compact the context?</h2>
        <p>
          Earlier turns will be sent to the model as a summary. Nothing is deleted, and pinned turns
          are still sent in full.
        </p>
        <label>
          Focus of the summary
          <input
            value={focus}
            onInput={(event) => setFocus(event.currentTarget.value)}
            placeholder="optional"
            disabled={reason !== null}
          />
        </label>
        {reason && <p class="hint">{reason}</p>}
        <ErrorMessage text={error} />
        <div class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={busy || reason !== null}>
            Compact
          </button>
        </div>
      </form>
    </dialog>
  );
}

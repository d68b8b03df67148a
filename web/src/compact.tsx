// The context made shorter: the mark that stands where it was, and the way to ask for it.
import { useRef, useState } from 'preact/hooks';
import { at, post } from './api';
import { Failed, IconButton, useAct } from './bits';
import { Fold, Html } from './block';
import { render } from './markdown';
import { hrefTo } from './route';
import type { Acts } from './row';
import { fetchProviders, providers } from './sessions';
import type { Talk } from './talk';
import type { Compaction, Session, Turn } from './types';

const WHY: Record<string, string> = { proactive: 'The window was nearly full.', reactive: 'The window was full.', manual: 'It was asked for.' };

/** What it stands for and what it saved; its words are folded away. */
export function Mark({ name, turn, text, acts }: { name: string; turn: Turn; text: string; acts: Acts | null }) {
  const row = turn.compaction;
  const [busy, failed, act] = useAct();
  return (
    <div class="mark">
      <Fold
        name={name}
        tone="compaction"
        title={
          <span>
            Context shortened{row ? `: ${saved(row)}` : ''}. Nothing was deleted.
          </span>
        }
      >
        {() => (
          <>
            {row && <p class="hint">{about(row)}</p>}
            <Html html={render(text || 'The summary is empty.')} />
            {row && acts && (
              <div class="buttons">
                {row.summarized_through_turn_id && (
                  <a class="button small" href={hrefTo.turn(acts.session, row.summarized_through_turn_id)}>
                    To the last summarised turn
                  </a>
                )}
                {turn.parent && (
                  <button type="button" class="small" disabled={busy} onClick={() => act(() => acts.fork(turn.parent!))}>
                    Fork before this
                  </button>
                )}
              </div>
            )}
            <Failed text={failed} />
          </>
        )}
      </Fold>
    </div>
  );
}

function saved(row: Compaction): string {
  const turns = `${row.turns_summarized} ${row.turns_summarized === 1 ? 'turn' : 'turns'} summarised`;
  const { tokens_before: before, tokens_after: after } = row;
  if (!before || !after) return turns;
  return `${turns}, ${before.toLocaleString()} → ${after.toLocaleString()} tokens (−${Math.round(100 - (100 * after) / before)} %)`;
}

function about(row: Compaction): string {
  const by = row.by === 'agent' ? 'By the agent itself.' : row.compaction_type === 'extractive' ? 'No model could be asked: this is an extract.' : `By ${row.model ?? row.provider ?? 'ctx'}.`;
  const kept = row.first_kept_turn_id ? 'Later turns are still sent as they are, and so are pinned ones.' : 'Only pinned turns are still sent as they are.';
  return [WHY[row.trigger], row.metadata_json.focus && `Above all: ${row.metadata_json.focus}.`, by, kept].filter(Boolean).join(' ');
}

/** Why it cannot be asked for, where that is known; else the server is asked, and says so if it cannot. */
function whyNot(session: Session): string | null {
  if (!session.head && session.state === 'idle') return 'Nothing was said yet.';
  const answers = providers.value.all.find((provider) => provider.id === (session.provider_id ?? providers.value.fallback));
  const cannot = answers?.commands && !answers.can.compact && !answers.commands.some((command) => command.name === 'compact');
  return cannot ? `${answers.id} keeps its own context and offers no way to shorten it.` : null;
}

export function Compact({ talk, session }: { talk: Talk; session: Session }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [focus, setFocus] = useState('');
  const [busy, failed, act] = useAct();
  const open = () => {
    // What an agent offers is known once it has started.
    void fetchProviders();
    dialog.current?.showModal();
  };
  const compact = () =>
    act(async () => {
      await post(at(session.id, '/compact'), focus.trim() ? { focus: focus.trim() } : {});
      setFocus('');
      dialog.current?.close();
      await talk.refresh('session', 'open', 'inbox');
    });
  const reason = whyNot(session);
  return (
    <>
      <IconButton icon="compact" label="Compact…" onClick={open} />
      <dialog ref={dialog} aria-labelledby="compact-title">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            compact();
          }}
        >
          <h2 id="compact-title">Compact the context?</h2>
          <p>Earlier turns are sent as a summary from then on. Nothing is deleted, and pinned turns stay as they are.</p>
          <label>
            What to keep above all
            <input value={focus} onInput={(event) => setFocus(event.currentTarget.value)} placeholder="optional" disabled={reason !== null} />
          </label>
          {reason && <p class="hint">{reason}</p>}
          <Failed text={failed} />
          <div class="buttons">
            <button type="button" onClick={() => dialog.current?.close()}>
              Leave it
            </button>
            <button type="submit" class="primary" disabled={busy || reason !== null}>
              Compact
            </button>
          </div>
        </form>
      </dialog>
    </>
  );
}

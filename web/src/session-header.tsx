// The header of a session: title, labels, state, panel buttons, compact, archive, delete.
import { useRef, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { patch, post, remove, sessionPath } from './api';
import type { Session } from './api-types';
import { Chip } from './chip';
import { CompactButton } from './compaction';
import { ExportButton } from './dialog-buttons';
import { Icon, IconButton, LinkToList } from './icon';
import { panel, togglePanel } from './preferences';
import { hrefTo, navigate } from './route';
import { customLabel, humanize, plural, sessionName, sessionState } from './session-display';
import { updateSession } from './session-list-store';
import type { SessionStore } from './session-store';

interface Props {
  store: SessionStore;
  /** Null while the session is loading. */
  session: Session | null;
}

export function SessionHeader({ store, session }: Props) {
  const [, error, run] = useAction();
  if (!session) return <header class="header-bar" />;
  const state = sessionState(session);
  return (
    <header class="header-bar">
      <LinkToList />
      <div class="header-name">
        <Title key={session.id} session={session} />
        <p class="hint header-details">
          {session.routing.merged_into && (
            <span>
              <a
                href={hrefTo.session(session.routing.merged_into)}
                title={`Messages go to ${session.routing.merged_into}`}
              >
                merged
              </a>
            </span>
          )}
          {customLabel(session) && <span>{customLabel(session)}</span>}
          <span>{session.project}</span>
          {session.working_dir && (
            <span title={session.working_dir}>{session.working_dir.split('/').at(-1)}</span>
          )}
          {session.persona && <span>{session.persona}</span>}
        </p>
      </div>
      {state && <Chip tone={state.tone}>{state.text}</Chip>}
      {session.delivery !== 'open' && (
        <Chip tone="ask">
          {session.delivery === 'hold' ? 'delivery on hold' : 'messages rejected'}
        </Chip>
      )}
      <ErrorMessage text={error} />
      <button
        type="button"
        class="panel-button"
        aria-pressed={panel.value === 'task'}
        onClick={() => togglePanel('task')}
        title="Task (t)"
      >
        <Icon name="check" />
        <span class="wide-only">{session.task ? humanize(session.task.state.name) : 'Task'}</span>
      </button>
      <button
        type="button"
        class="panel-button"
        aria-pressed={panel.value === 'branches'}
        onClick={() => togglePanel('branches')}
        title="Branches (b)"
      >
        <Icon name="tree" />
        <span class="wide-only">Branches</span>
      </button>
      <IconButton
        icon="info"
        label="Details (i)"
        aria-pressed={panel.value === 'details'}
        onClick={() => togglePanel('details')}
      />
      <CompactButton key={session.id} store={store} session={session} />
      <ExportButton session={session} />
      <IconButton
        icon="archive"
        label={session.status === 'archived' ? 'Unarchive (e)' : 'Archive (e)'}
        onClick={() => run(() => toggleArchived(store))}
      />
      <span class="not-narrow">
        <DeleteButton session={session} />
      </span>
    </header>
  );
}

export async function toggleArchived(store: SessionStore): Promise<void> {
  const session = store.session.value;
  if (!session) return;
  const action = session.status === 'archived' ? '/unarchive' : '/archive';
  updateSession(await post<Session>(sessionPath(session.id, action)));
  await store.refresh('session');
}

/** A click on the title makes it editable. */
function Title({ session }: { session: Session }) {
  /** Null while the title is not being edited. */
  const [text, setText] = useState<string | null>(null);
  const isCancelled = useRef(false);
  const save = async () => {
    const title = isCancelled.current ? null : text?.trim();
    isCancelled.current = false;
    setText(null);
    if (title && title !== session.title) {
      await patch(sessionPath(session.id), { title }).catch(() => undefined);
    }
  };
  return (
    <h1>
      {text === null ? (
        <button
          type="button"
          class="title"
          title="Edit title"
          onClick={() => setText(sessionName(session))}
        >
          {sessionName(session)}
        </button>
      ) : (
        <input
          aria-label="Title"
          value={text}
          ref={(field) => field?.focus()}
          onInput={(event) => setText(event.currentTarget.value)}
          onBlur={() => void save()}
          onKeyDown={(event) => {
            if (event.key === 'Enter') event.currentTarget.blur();
            else if (event.key === 'Escape') {
              isCancelled.current = true;
              event.currentTarget.blur();
            }
          }}
        />
      )}
    </h1>
  );
}

function DeleteButton({ session }: { session: Session }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [busy, error, run] = useAction();
  const deleteSession = () =>
    run(async () => {
      await remove(sessionPath(session.id));
      navigate(hrefTo.list);
    });
  return (
    <>
      <IconButton icon="trash" label="Delete…" onClick={() => dialog.current?.showModal()} />
      <dialog ref={dialog} aria-labelledby="delete-title">
        <h2 id="delete-title">Delete “{sessionName(session)}” permanently?</h2>
        <p>
          This deletes {plural(session.turn_count, 'turn')}, except turns that other branches share.
          To keep everything, archive the session instead.
        </p>
        <ErrorMessage text={error} />
        <div class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="button" class="danger" disabled={busy} onClick={deleteSession}>
            Delete
          </button>
        </div>
      </dialog>
    </>
  );
}

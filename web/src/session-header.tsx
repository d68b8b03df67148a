// The header of a session: title, labels, state, panel buttons, the menu of further actions.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { patch, sessionPath } from './api';
import type { Session } from './api-types';
import { compareWithBranch } from './branch-navigation';
import { Chip } from './chip';
import { CompactDialog, isCompactOpen } from './compaction';
import { ExportButton } from './dialog-buttons';
import { ForkOrigin } from './fork-origin';
import { Icon, IconButton, LinkToList } from './icon';
import { Menu, type MenuItem } from './menu';
import { isNarrow, panel, togglePanel } from './preferences';
import { hrefTo } from './route';
import { deleteSession, fork, toggleArchived } from './session-actions';
import { customLabel, humanize, sessionState } from './session-display';
import { updateSession } from './session-list-store';
import { SessionName } from './session-name';
import { ownName, sessionName } from './session-names';
import type { SessionStore } from './session-store';
import { showError } from './toast';

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
          {session.origin === 'fork' && session.parent && (
            <span>
              <a href={hrefTo.session(session.parent.session)}>
                <ForkOrigin session={session} />
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
      {state && (
        <span class={session.state === 'running' ? 'not-narrow' : ''}>
          <Chip tone={state.tone}>{state.text}</Chip>
        </span>
      )}
      {session.delivery !== 'open' && (
        <Chip tone="ask">
          {session.delivery === 'hold' ? 'delivery on hold' : 'messages rejected'}
        </Chip>
      )}
      <ErrorMessage text={error} />
      <button
        type="button"
        class="panel-button not-narrow"
        aria-pressed={panel.value === 'task'}
        onClick={() => togglePanel('task')}
        title="Task (t)"
        aria-label={session.task ? `Task: ${humanize(session.task.state.name)}` : 'Task'}
      >
        <Icon name="check" />
        <span class="wide-only">{session.task ? humanize(session.task.state.name) : 'Task'}</span>
      </button>
      <button
        type="button"
        class="panel-button not-narrow"
        aria-pressed={panel.value === 'branches'}
        onClick={() => togglePanel('branches')}
        title="Branches (b)"
        aria-label="Branches"
      >
        <Icon name="tree" />
        <span class="wide-only">Branches</span>
      </button>
      <IconButton
        icon="info"
        label="Details (i)"
        class="icon-button not-narrow"
        aria-pressed={panel.value === 'details'}
        onClick={() => togglePanel('details')}
      />
      <ExportButton session={session} />
      <Menu
        label="More actions"
        items={[
          ...(isNarrow.value ? panelItems(session) : []),
          { icon: 'edit', label: 'Rename', run: () => (isTitleEdited.value = true) },
          { icon: 'fork', label: 'Fork', run: () => run(() => fork(session.id)) },
          {
            icon: 'compare',
            label: 'Compare with a branch',
            run: () => run(() => compareWithBranch(session)),
          },
          { icon: 'compact', label: 'Compact…', run: () => (isCompactOpen.value = true) },
          {
            icon: 'archive',
            label: session.status === 'archived' ? 'Unarchive' : 'Archive',
            keys: 'e',
            run: () => run(() => toggleArchived(session)),
          },
          {
            icon: 'trash',
            label: 'Delete…',
            isDangerous: true,
            run: () => deleteSession(session),
          },
        ]}
      />
      <CompactDialog key={session.id} store={store} session={session} />
    </header>
  );
}

/** The panels, where there is no room for their buttons. */
const panelItems = (session: Session): MenuItem[] => [
  {
    icon: 'check',
    label: session.task ? `Task: ${humanize(session.task.state.name)}` : 'Task',
    run: () => togglePanel('task'),
  },
  { icon: 'tree', label: 'Branches', run: () => togglePanel('branches') },
  { icon: 'info', label: 'Details', run: () => togglePanel('details') },
];

/** Whether the title of the open session is being edited. */
export const isTitleEdited = signal(false);

/** A click on the title makes it editable. Enter and leaving the field save it, Escape does not. */
function Title({ session }: { session: Session }) {
  useEffect(() => () => void (isTitleEdited.value = false), []);
  const end = (text: string | null) => {
    if (!isTitleEdited.value) return;
    isTitleEdited.value = false;
    const title = text?.trim();
    if (!title || title === ownName(session)) return;
    patch<Session>(sessionPath(session.id), { title }).then(updateSession, showError);
  };
  return (
    <h1>
      {isTitleEdited.value ? (
        <input
          aria-label="Title"
          dir="auto"
          defaultValue={ownName(session)}
          ref={(field) => field?.focus()}
          onFocus={(event) => event.currentTarget.select()}
          onBlur={(event) => end(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter') end(event.currentTarget.value);
            else if (event.key === 'Escape') end(null);
            else return;
            event.preventDefault();
            event.stopPropagation();
          }}
        />
      ) : (
        <button
          type="button"
          class="title"
          title={`${sessionName(session)}\nRename`}
          dir="auto"
          onClick={() => (isTitleEdited.value = true)}
        >
          <SessionName session={session} />
        </button>
      )}
    </h1>
  );
}

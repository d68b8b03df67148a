// The palette (Ctrl+K): actions and sessions, found by a few letters of their names.
import { useEffect, useRef, useState } from 'preact/hooks';
import { get } from './api';
import type { Session } from './api-types';
import { compareWithBranch } from './branch-navigation';
import { requestComposerFocus } from './composer';
import { isCompactOpen } from './compaction';
import { isExportOpen } from './dialog-buttons';
import { isHelpOpen } from './help-dialog';
import { Icon, type IconName } from './icon';
import { openNewSession } from './keyboard-shortcuts';
import { isPaletteOpen, typedForPalette } from './on-demand';
import { nextTheme, togglePanel } from './preferences';
import { hrefTo, navigate } from './route';
import { deleteSession, fork, rewindOneTurn, toggleArchived } from './session-actions';
import { isTitleEdited } from './session-header';
import { listedSessions, setSearchText } from './session-list-store';
import { sessionName } from './session-names';
import { currentStore } from './session-view';
import { focusSearch } from './sidebar';
import { showError, undoNewest } from './toast';

const SESSIONS_MAX = 12;
const SEARCH_DELAY_MS = 120;

interface Entry {
  icon: IconName;
  text: string;
  hint: string;
  /** Further words that find it. */
  words?: string;
  run(): void;
}

/** Actions that need no open session. */
function generalEntries(): Entry[] {
  const open = (icon: IconName, text: string, href: string, words = '', hint = ''): Entry => ({
    icon,
    text,
    hint,
    words,
    run: () => navigate(href),
  });
  return [
    { icon: 'plus', text: 'New session', hint: 'n', run: openNewSession },
    { icon: 'search', text: 'Search messages', hint: '/', words: 'find', run: focusSearch },
    { icon: 'rewind', text: 'Undo the last action', hint: 'z', run: undoNewest },
    open('info', 'Usage', hrefTo.usage(), 'cost tokens statistics'),
    open('edit', 'Setup: models and agents', hrefTo.setup, 'provider api key'),
    open('edit', 'Settings', hrefTo.settings, 'preferences options configuration'),
    { icon: 'contrast', text: 'Change the theme', hint: '', words: 'dark light', run: nextTheme },
    open('check', 'Commits', hrefTo.commits),
    open('info', 'People', hrefTo.people, '', 'p'),
    open('send', 'Deliveries', hrefTo.deliveries, '', 'd'),
    { icon: 'help', text: 'Keyboard shortcuts', hint: '?', run: () => (isHelpOpen.value = true) },
  ];
}

/** Actions on the open session. */
function sessionEntries(session: Session): Entry[] {
  const isArchived = session.status === 'archived';
  const entry = (icon: IconName, text: string, hint: string, run: () => unknown): Entry => ({
    icon,
    text,
    hint,
    run: () => void Promise.resolve(run()).catch(showError),
  });
  const canRewind = session.state === 'idle' && session.turn_count > 1;
  return [
    entry('edit', 'Write a message', 'r', requestComposerFocus),
    entry('fork', 'Fork this session', '', () => fork(session.id)),
    entry('compare', 'Compare with another branch', '', () => compareWithBranch(session)),
    ...(canRewind ? [entry('rewind', 'Rewind by one turn', '', () => rewindOneTurn(session))] : []),
    entry('edit', 'Rename this session', '', () => (isTitleEdited.value = true)),
    entry('share', 'Export and share this session', '', () => (isExportOpen.value = true)),
    entry('archive', isArchived ? 'Unarchive this session' : 'Archive this session', 'e', () =>
      toggleArchived(session),
    ),
    entry('check', 'Show the task', 't', () => togglePanel('task')),
    entry('tree', 'Show the branches', 'b', () => togglePanel('branches')),
    entry('info', 'Show the details', 'i', () => togglePanel('details')),
    entry('compact', 'Compact the context', '', () => (isCompactOpen.value = true)),
    entry('trash', 'Delete this session', '', () => deleteSession(session)),
  ];
}

function actionEntries(): Entry[] {
  const session = currentStore.value?.session.value;
  return [...(session ? sessionEntries(session) : []), ...generalEntries()];
}

/** Whether each of the words occurs in the text. */
export function matchesWords(text: string, words: string): boolean {
  const lower = text.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}

/** The actions whose text has the words, then those that have another word that starts with them. */
function matchingActions(words: string): Entry[] {
  const all = actionEntries();
  const byText = all.filter(({ text }) => matchesWords(text, words));
  const typed = words.trim().toLowerCase();
  const byWord = all.filter(
    (entry) =>
      !byText.includes(entry) && entry.words?.split(' ').some((word) => word.startsWith(typed)),
  );
  return [...byText, ...byWord];
}

/** Sessions by name: the listed ones at once, others from the server. */
function useSessions(words: string): Session[] {
  const [found, setFound] = useState<Session[]>([]);
  useEffect(() => {
    setFound([]);
    if (!words.trim()) return;
    const abort = new AbortController();
    const query = new URLSearchParams({ q: words.trim(), limit: String(SESSIONS_MAX) });
    const timer = setTimeout(() => {
      get<{ sessions: Session[] }>(`/sessions?${query}`, abort.signal).then(
        ({ sessions }) => setFound(sessions),
        () => undefined,
      );
    }, SEARCH_DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [words]);
  const listed = listedSessions.value.filter((one) => matchesWords(sessionName(one), words));
  const byId = new Map([...listed.slice(0, SESSIONS_MAX), ...found].map((one) => [one.id, one]));
  return [...byId.values()].slice(0, SESSIONS_MAX);
}

export function CommandPalette() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  /** The close event arrives later; until then another Ctrl+K would count as the second one. */
  const close = () => {
    dialog.current?.close();
    isPaletteOpen.value = false;
  };
  return (
    <dialog
      class="palette"
      ref={dialog}
      aria-label="Open a session or run an action"
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClose={(event) => {
        if (event.currentTarget.isConnected) isPaletteOpen.value = false;
      }}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <PaletteContent close={close} />
    </dialog>
  );
}

function PaletteContent({ close }: { close(): void }) {
  const [words, setWords] = useState(typedForPalette.value);
  const [chosen, setChosen] = useState(0);
  const sessions = useSessions(words);
  const entries = [
    ...matchingActions(words),
    ...sessions.map((session): Entry => ({
      icon: session.origin === 'fork' ? 'fork' : 'chevron',
      text: sessionName(session),
      hint: session.project,
      run: () => navigate(hrefTo.session(session.id)),
    })),
    ...(words.trim() ? [searchEntry(words)] : []),
  ];
  const index = Math.min(chosen, entries.length - 1);
  const choose = (entry: Entry | undefined) => {
    close();
    // After the dialog has returned the focus.
    if (entry) requestAnimationFrame(entry.run);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const offset = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (offset) setChosen((index + offset + entries.length) % entries.length);
    else if (event.key === 'Enter') choose(entries[index]);
    else if (event.key === 'Escape') close();
    else return;
    event.preventDefault();
  };
  return (
    <>
      <input
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-entries"
        aria-activedescendant={`palette-${index}`}
        aria-label="Session or action"
        placeholder="Open a session or run an action"
        value={words}
        autofocus
        onInput={(event) => {
          setWords(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="palette-entries" role="listbox" aria-label="Sessions and actions">
        {entries.map((entry, n) => (
          <li
            key={`${n} ${entry.text}`}
            id={`palette-${n}`}
            role="option"
            aria-selected={n === index}
            ref={(element) => {
              if (n === index) element?.scrollIntoView({ block: 'nearest' });
            }}
            onClick={() => choose(entry)}
          >
            <Icon name={entry.icon} />
            <span class="palette-text" dir="auto">
              {entry.text}
            </span>
            <span class="hint">{entry.hint}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

const searchEntry = (words: string): Entry => ({
  icon: 'search',
  text: `Search messages for “${words.trim()}”`,
  hint: '',
  run: () => {
    setSearchText(words.trim());
    focusSearch();
  },
});

// The palette (Ctrl+K): actions and sessions, found by a few letters of their names.
import { useEffect, useRef, useState } from 'preact/hooks';
import { get } from './api';
import type { Session } from './api-types';
import { requestComposerFocus } from './composer';
import { isCompactOpen } from './compaction';
import { isHelpOpen } from './help-dialog';
import { Icon, type IconName } from './icon';
import { isPaletteOpen, typedForPalette } from './on-demand';
import { nextTheme, togglePanel } from './preferences';
import { hrefTo, navigate } from './route';
import { deleteSession, toggleArchived } from './session-actions';
import { sessionName } from './session-display';
import { listedSessions, setSearchText } from './session-list-store';
import { currentStore } from './session-view';
import { focusSearch } from './sidebar';
import { showError } from './toast';

const SESSIONS_MAX = 12;
const SEARCH_DELAY_MS = 120;

interface Entry {
  icon: IconName;
  text: string;
  hint: string;
  run(): void;
}

function actionEntries(): Entry[] {
  const session = currentStore.value?.session.value;
  const entries: Entry[] = [
    { icon: 'plus', text: 'New session', hint: 'n', run: () => navigate(hrefTo.newSession) },
    { icon: 'search', text: 'Search messages', hint: '/', run: focusSearch },
    { icon: 'check', text: 'Commits', hint: '', run: () => navigate(hrefTo.commits) },
    { icon: 'info', text: 'People', hint: 'p', run: () => navigate(hrefTo.people) },
    { icon: 'send', text: 'Deliveries', hint: 'd', run: () => navigate(hrefTo.deliveries) },
    { icon: 'contrast', text: 'Change the theme', hint: '', run: nextTheme },
    { icon: 'help', text: 'Keyboard shortcuts', hint: '?', run: () => (isHelpOpen.value = true) },
  ];
  if (!session) return entries;
  const archived = session.status === 'archived';
  return [
    { icon: 'edit', text: 'Write a message', hint: 'r', run: requestComposerFocus },
    {
      icon: 'archive',
      text: archived ? 'Unarchive this session' : 'Archive this session',
      hint: 'e',
      run: () => void toggleArchived(session).catch(showError),
    },
    { icon: 'check', text: 'Show the task', hint: 't', run: () => togglePanel('task') },
    { icon: 'tree', text: 'Show the branches', hint: 'b', run: () => togglePanel('branches') },
    { icon: 'info', text: 'Show the details', hint: 'i', run: () => togglePanel('details') },
    {
      icon: 'compact',
      text: 'Compact the context',
      hint: '',
      run: () => (isCompactOpen.value = true),
    },
    {
      icon: 'trash',
      text: 'Delete this session',
      hint: '',
      run: () => deleteSession(session),
    },
    ...entries,
  ];
}

/** Whether the letters of the words occur in this order. */
export function matchesWords(text: string, words: string): boolean {
  const lower = text.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
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
  return (
    <dialog
      class="palette"
      ref={dialog}
      aria-label="Open a session or run an action"
      onClose={() => (isPaletteOpen.value = false)}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <PaletteContent close={() => dialog.current?.close()} />
    </dialog>
  );
}

function PaletteContent({ close }: { close(): void }) {
  const [words, setWords] = useState(typedForPalette.value);
  const [chosen, setChosen] = useState(0);
  const sessions = useSessions(words);
  const entries = [
    ...actionEntries().filter(({ text }) => matchesWords(text, words)),
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

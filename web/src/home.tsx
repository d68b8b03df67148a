// The home: the composer for a new session, and what needs a reply.
import { signal } from '@preact/signals';
import { LinkToList } from './icon';
import { NewSession } from './new-session';
import { isNarrow } from './preferences';
import { hrefTo, route } from './route';
import { needsUser } from './session-display';
import { sessionName } from './session-names';
import { isLoaded, listedSessions } from './session-list-store';
import type { Session } from './api-types';
import { RelativeTime } from './time';

const WAITING_MAX = 5;

export function Home() {
  // On a narrow screen the list of sessions is below and shows what needs a reply.
  if (isNarrow.value && route.value.view === 'list') {
    return (
      <main class="home">
        <NewSession />
      </main>
    );
  }
  const waiting = listedSessions.value.filter(needsUser);
  return (
    <main class="home">
      <LinkToList />
      <NewSession />
      <div class="column">
        {waiting.length > 0 && (
          <section class="waiting" aria-labelledby="waiting-title">
            <h2 id="waiting-title">Needs a reply</h2>
            <ul>
              {waiting.slice(0, WAITING_MAX).map((session) => (
                <WaitingSession key={session.id} session={session} />
              ))}
            </ul>
          </section>
        )}
        {isLoaded.value && <KeyboardHint />}
      </div>
    </main>
  );
}

function WaitingSession({ session }: { session: Session }) {
  const question =
    session.suspensions[0]?.question ??
    session.pending_prompt?.text ??
    session.task?.state.question ??
    'Waits for a result';
  return (
    <li>
      <a class="card plain ask" href={hrefTo.session(session.id)}>
        <strong dir="auto">{sessionName(session)}</strong>
        <span class="hint">
          <RelativeTime at={session.last_activity_at} ago />
        </span>
        <span class="excerpt" dir="auto">
          {question}
        </span>
      </a>
    </li>
  );
}

/** Whether the focus is in a field, where letters are text and not shortcuts. */
const isTyping = signal(false);
const updateTyping = () =>
  (isTyping.value = document.activeElement?.matches('input, textarea, select') ?? false);
addEventListener('focusin', updateTyping);
addEventListener('focusout', () => setTimeout(updateTyping));

function KeyboardHint() {
  return (
    <p class="hint keyboard-hint">
      {isTyping.value ? (
        <>
          <kbd>Enter</kbd> sends, <kbd>Shift</kbd>
          <kbd>Enter</kbd> starts a line. <kbd>Ctrl</kbd>
          <kbd>K</kbd> opens a session or an action. <kbd>Esc</kbd> leaves the field.
        </>
      ) : (
        <>
          <kbd>j</kbd>
          <kbd>k</kbd> move through the sessions, <kbd>n</kbd> writes a message, <kbd>/</kbd>{' '}
          searches, <kbd>?</kbd> lists all keys.
        </>
      )}
    </p>
  );
}

// The work of a session: what is open, where it stands, what was sealed. A word of the user moves it, so the buttons
// send one, and it stands in the transcript like any other.
import { useEffect, useState } from 'preact/hooks';
import { at, get, once, post, told } from './api';
import { Ago, Chip, Failed, plain } from './bits';
import { writeHere } from './conversation';
import type { Talk } from './talk';
import type { Commit, Session, Task } from './types';

/** Taken for a confirmation, and for giving up, in every state where a button offers it. */
export const CONFIRM = 'Perfect, thanks!';
export const ABANDON = 'Abandon this task.';

const TONES: Record<string, string> = { running: 'live', awaiting_user: 'ask', interrupted: 'ask', pending_complete: 'good', complete: 'good', aborted: 'bad' };

export function TaskPanel({ talk, session }: { talk: Talk; session: Session }) {
  const [tasks, setTasks] = useState<Task[] | null>(null);
  const [commits, setCommits] = useState<Map<string, Commit>>(new Map());
  useEffect(() => {
    let gone = false;
    void (async () => {
      const found = await get<{ tasks: Task[] }>(at(session.id, '/tasks?limit=30')).catch(() => null);
      if (gone || !found) return;
      setTasks(found.tasks);
      for (const task of found.tasks) {
        if (!task.commit || commits.has(task.commit)) continue;
        const commit = await get<Commit>(`/commits/${task.commit}`).catch(() => null);
        if (gone) return;
        if (commit) setCommits((before) => new Map(before).set(commit.id, commit));
      }
    })();
    return () => {
      gone = true;
    };
  }, [session.id, session.task?.id, session.task?.state.name, session.turn_count]);

  const sealed = tasks?.filter((task) => task.id !== session.task?.id) ?? [];
  return (
    <>
      <h2>Task</h2>
      {session.task ? <OpenTask talk={talk} task={session.task} busy={session.state === 'running'} /> : <NoTask talk={talk} session={session} reopen={sealed[0]?.commit != null} />}
      <h2>Sealed work</h2>
      {tasks !== null && sealed.length === 0 && <p class="empty">Nothing was sealed in this session.</p>}
      <ul class="commits">
        {sealed.map((task) => (
          <li key={task.id}>
            <CommitCard commit={task.commit ? (commits.get(task.commit) ?? null) : null} task={task} />
          </li>
        ))}
      </ul>
    </>
  );
}

function useWord(talk: Talk): [(text: string) => void, string | null, (failed: string | null) => void] {
  const [failed, setFailed] = useState<string | null>(null);
  const say = (text: string) => {
    setFailed(null);
    post(at(talk.id, '/messages'), { text, queue_mode: 'queue' }, { 'idempotency-key': once() })
      .then(() => talk.refresh('session', 'open', 'inbox'))
      .catch((error) => setFailed(told(error)));
  };
  return [say, failed, setFailed];
}

function OpenTask({ talk, task, busy }: { talk: Talk; task: Task; busy: boolean }) {
  const [say, failed] = useWord(talk);
  const { state } = task;
  const detail = state.question ?? state.summary ?? state.user_message ?? state.reason;
  return (
    <section class="task" aria-label="The open task">
      <p class="task-name">{task.description}</p>
      <p class="task-line">
        <Chip tone={TONES[state.name]}>{plain(state.name)}</Chip>
        <span class="hint">
          {task.steps} {task.steps === 1 ? 'step' : 'steps'} · began <Ago at={task.started_at} /> · active <Ago at={task.last_activity_at} />
        </span>
      </p>
      {detail && (
        <blockquote>
          <span class="hear">{plain(state.name)}: </span>
          {detail}
        </blockquote>
      )}
      {task.progress && <pre class="progress">{task.progress}</pre>}
      <div class="buttons">
        {state.name === 'pending_complete' && (
          <button type="button" class="primary" disabled={busy} onClick={() => say(CONFIRM)}>
            Confirm
          </button>
        )}
        <button type="button" onClick={() => writeHere.value++}>
          {state.name === 'awaiting_user' ? 'Answer' : 'Ask for more'}
        </button>
        <button type="button" class="danger" disabled={busy} onClick={() => say(ABANDON)}>
          Abandon
        </button>
      </div>
      <Failed text={failed} />
    </section>
  );
}

function NoTask({ talk, session, reopen }: { talk: Talk; session: Session; reopen: boolean }) {
  const [failed, setFailed] = useState<string | null>(null);
  const again = () => post(at(session.id, '/task/reopen')).then(() => talk.refresh('session')).catch((error) => setFailed(told(error)));
  return (
    <>
      <p class="empty">{session.track_tasks ? 'No task is open. The next message that asks for work opens one.' : 'This session is a chat: it keeps no tasks.'}</p>
      {reopen && (
        <button type="button" onClick={() => void again()}>
          Reopen the last one
        </button>
      )}
      <Failed text={failed} />
    </>
  );
}

const TYPES: Record<string, [string, string]> = {
  normal: ['done', 'good'],
  abandoned: ['abandoned', 'bad'],
  stale_auto_compact: ['saved when it went stale', 'ask'],
  interrupted_by_new_task: ['left for a new task', 'ask'],
};

export function CommitCard({ commit, task }: { commit: Commit | null; task?: Task }) {
  const type = commit && (typeof commit.commit_type === 'string' ? commit.commit_type : commit.commit_type.name);
  const [word, tone] = TYPES[type ?? ''] ?? [type ? plain(type) : plain(task?.state.name ?? 'sealed'), ''];
  const files = Array.isArray(commit?.files) ? commit.files.length : 0;
  const steps = commit?.steps?.count ?? task?.steps;
  return (
    <article class="commit">
      <p class="task-name">{commit?.description ?? task?.description}</p>
      {commit && commit.message !== commit.description && <p class="message">{commit.message}</p>}
      <p class="task-line">
        <Chip tone={tone}>{word}</Chip>
        <span class="hint">
          {typeof steps === 'number' && `${steps} ${steps === 1 ? 'step' : 'steps'} · `}
          {files > 0 && `${files} ${files === 1 ? 'file' : 'files'} · `}
          {commit ? <Ago at={commit.created_at} /> : task?.ended_at && <Ago at={task.ended_at} />}
        </span>
        {commit && <code class="hash">{commit.id.slice(0, 10)}</code>}
      </p>
    </article>
  );
}

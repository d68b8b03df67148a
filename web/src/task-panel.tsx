// The task panel: the open task with its actions, and the sealed tasks of the session.
import { useEffect, useState } from 'preact/hooks';
import { get, sessionPath } from './api';
import type { Commit, Session, Task } from './api-types';
import { Chip, type Tone } from './chip';
import { CommitCard } from './commit-card';
import { requestComposerFocus } from './composer';
import { hrefTo } from './route';
import { humanize, plural } from './session-display';
import { ABANDON, CONFIRM, TaskActions } from './task-actions';
import { RelativeTime } from './time';

const TASKS_MAX = 30;

const STATE_TONES: Record<string, Tone> = {
  running: 'live',
  awaiting_user: 'ask',
  interrupted: 'ask',
  pending_complete: 'good',
  complete: 'good',
  aborted: 'bad',
};

export function TaskPanel({ session }: { session: Session }) {
  const [tasks, commits] = useTasks(session);
  const sealed = tasks?.filter((task) => task.id !== session.task?.id) ?? [];
  return (
    <>
      <h2>Task</h2>
      {session.task ? (
        <OpenTask task={session.task} />
      ) : (
        <NoOpenTask session={session} canReopen={sealed[0]?.commit != null} />
      )}
      <h2>Sealed tasks</h2>
      {tasks !== null && sealed.length === 0 && (
        <p class="empty">No sealed tasks in this session.</p>
      )}
      <ul class="commits">
        {sealed.map((task) => (
          <li key={task.id}>
            <a class="plain" href={hrefTo.task(task.id)}>
              <CommitCard commit={commits.get(task.commit ?? '') ?? null} task={task} />
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

/** The newest tasks of a session (null until loaded) and the commits of the sealed ones by id. */
function useTasks(session: Session): [Task[] | null, Map<string, Commit>] {
  const [tasks, setTasks] = useState<Task[] | null>(null);
  const [commits, setCommits] = useState<Map<string, Commit>>(new Map());
  useEffect(() => {
    let cancelled = false;
    void (async () => {
      const path = sessionPath(session.id, `/tasks?limit=${TASKS_MAX}`);
      const page = await get<{ tasks: Task[] }>(path).catch(() => null);
      if (cancelled || !page) return;
      setTasks(page.tasks);
      for (const task of page.tasks) {
        if (!task.commit || commits.has(task.commit)) continue;
        const commit = await get<Commit>(`/commits/${task.commit}`).catch(() => null);
        if (cancelled) return;
        if (commit) setCommits((before) => new Map(before).set(commit.id, commit));
      }
    })();
    return () => {
      cancelled = true;
    };
  }, [session.id, session.task?.id, session.task?.state.name, session.turn_count]);
  return [tasks, commits];
}

function OpenTask({ task }: { task: Task }) {
  const { state } = task;
  const isPending = state.name === 'pending_complete';
  const detail = state.question ?? state.summary ?? state.user_message ?? state.reason;
  return (
    <section class="task" aria-label="Open task">
      <p class="task-name">{task.description}</p>
      <p class="task-line">
        <Chip tone={STATE_TONES[state.name]}>{humanize(state.name)}</Chip>
        <span class="hint">
          {plural(task.steps, 'step')} · started <RelativeTime at={task.started_at} ago /> · active{' '}
          <RelativeTime at={task.last_activity_at} ago />
        </span>
      </p>
      {detail && (
        <blockquote>
          <span class="visually-hidden">{humanize(state.name)}: </span>
          {detail}
        </blockquote>
      )}
      {task.progress && <pre class="progress">{task.progress}</pre>}
      <p>
        <a href={hrefTo.task(task.id)}>Files, commands and timeline</a>
      </p>
      <TaskActions
        session={task.session}
        actions={[isPending ? CONFIRM : ['confirm', 'Confirm'], ABANDON]}
      >
        <button type="button" onClick={requestComposerFocus}>
          {state.name === 'awaiting_user' ? 'Answer' : 'Request changes'}
        </button>
      </TaskActions>
    </section>
  );
}

function NoOpenTask({ session, canReopen }: { session: Session; canReopen: boolean }) {
  return (
    <>
      <p class="empty">
        {session.track_tasks
          ? 'No open task. The next message that requests work opens one.'
          : 'Task tracking is off for this session.'}
      </p>
      {canReopen && (
        <TaskActions session={session.id} actions={[['reopen', 'Reopen the last task']]} />
      )}
    </>
  );
}

// One task: its state, files and timeline.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { get, sessionPath } from './api';
import type { Session, Task } from './api-types';
import { Chip } from './chip';
import { LinkToList } from './icon';
import { hrefTo } from './route';
import { humanize, plural } from './session-display';
import { sessionName } from './session-names';
import { RelativeTime } from './time';
import { fetchTask } from './work-data';
import { WorkFiles } from './work-files';
import { WorkTimeline } from './work-timeline';

/** How often an open task is fetched again. */
const REFRESH_MS = 3000;

export default function TaskView({ id }: { id: string }) {
  const [task, setTask] = useState<Task | null>(null);
  const [session, setSession] = useState<Session | null>(null);
  const [, error, run] = useAction();
  useEffect(() => {
    run(async () => {
      const found = await fetchTask(id);
      setTask(found);
      setSession(await get<Session>(sessionPath(found.session)).catch(() => null));
    });
  }, [id]);
  const isOpen = task !== null && task.ended_at === null;
  useEffect(() => {
    if (!isOpen) return;
    const timer = setInterval(() => void fetchTask(id).then(setTask, () => undefined), REFRESH_MS);
    return () => clearInterval(timer);
  }, [id, isOpen]);
  return (
    <main class="page work" aria-label="Task">
      <header class="header-bar">
        <LinkToList />
        <div class="header-name">
          <h1>Task</h1>
        </div>
      </header>
      <div class="page-body" tabIndex={0} role="region" aria-label="Record of the task">
        <div class="column">
          <ErrorMessage text={error} />
          {task && (
            <>
              <p class="work-name">{task.description}</p>
              <p class="task-line">
                <Chip>{humanize(task.state.name)}</Chip>
                <span class="hint">
                  {plural(task.steps, 'step')} · started <RelativeTime at={task.started_at} ago />
                </span>
                <WorkLinks task={task} session={session} />
              </p>
              <WorkFiles task={task} />
              <WorkTimeline task={task} />
            </>
          )}
        </div>
      </div>
    </main>
  );
}

function WorkLinks({ task, session }: { task: Task; session: Session | null }) {
  return (
    <>
      {session && <a href={hrefTo.session(session.id)}>{sessionName(session)}</a>}
      {task.commit && (
        <a href={hrefTo.commit(task.commit)}>
          Commit <code class="hash">{task.commit.slice(0, 10)}</code>
        </a>
      )}
    </>
  );
}

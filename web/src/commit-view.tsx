// One commit: what was done, its files and the timeline of its task.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { get, sessionPath } from './api';
import type { Commit, Session, Task } from './api-types';
import { CommitCard } from './commit-card';
import { CopyButton } from './copy-button';
import { LinkToList } from './icon';
import { hrefTo } from './route';
import { plural } from './session-display';
import { sessionName } from './session-names';
import { fetchTask } from './work-data';
import { WorkFiles } from './work-files';
import { WorkTimeline } from './work-timeline';

export default function CommitView({ id }: { id: string }) {
  const [commit, setCommit] = useState<Commit | null>(null);
  const [task, setTask] = useState<Task | null>(null);
  const [session, setSession] = useState<Session | null>(null);
  const [, error, run] = useAction();
  useEffect(() => {
    run(async () => {
      const found = await get<Commit>(`/commits/${id}`);
      setCommit(found);
      const ofSession = found.session
        ? get<Session>(sessionPath(found.session)).catch(() => null)
        : null;
      setTask(await fetchTask(found.task));
      setSession(await ofSession);
    });
  }, [id]);
  return (
    <main class="page work" aria-label="Commit">
      <header class="header-bar">
        <LinkToList />
        <div class="header-name">
          <h1>Commit</h1>
        </div>
      </header>
      <div class="page-body" tabIndex={0} role="region" aria-label="Record of the commit">
        <div class="column">
          <ErrorMessage text={error} />
          <CommitCard commit={commit} />
          {commit && (
            <p class="task-line">
              <CopyButton text={commit.id} label="Copy the id of the commit" />
              {session && <a href={hrefTo.session(session.id)}>{sessionName(session)}</a>}
              {commit.turns?.count ? (
                <span class="hint">{plural(commit.turns.count, 'turn')}</span>
              ) : null}
              <a href={hrefTo.commits}>All commits</a>
            </p>
          )}
          {task && (
            <>
              <WorkFiles task={task} />
              <WorkTimeline task={task} />
            </>
          )}
        </div>
      </div>
    </main>
  );
}

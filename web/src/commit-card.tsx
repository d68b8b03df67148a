// One commit (a sealed task), as shown in the task panel and in the list of commits.
import type { Commit, Task } from './api-types';
import { Chip } from './chip';
import { COMMIT_TYPES, humanize, plural } from './session-display';
import { RelativeTime } from './time';

/** `commit` is null while it is loading; the card then shows what the task says. */
export function CommitCard({ commit, task }: { commit: Commit | null; task?: Task }) {
  const type =
    commit &&
    (typeof commit.commit_type === 'string' ? commit.commit_type : commit.commit_type.name);
  const fallback = humanize(type ?? task?.state.name ?? 'sealed');
  const [text, tone] = COMMIT_TYPES[type ?? ''] ?? [fallback, '' as const];
  const files = Array.isArray(commit?.files) ? commit.files.length : 0;
  const steps = commit?.steps?.count ?? task?.steps;
  return (
    <article class="commit">
      <p class="task-name">{commit?.description ?? task?.description}</p>
      {commit && commit.message !== commit.description && <p class="message">{commit.message}</p>}
      <p class="task-line">
        <Chip tone={tone}>{text}</Chip>
        <span class="hint">
          {typeof steps === 'number' && `${plural(steps, 'step')} · `}
          {files > 0 && `${plural(files, 'file')} · `}
          {commit ? (
            <RelativeTime at={commit.created_at} />
          ) : (
            task?.ended_at && <RelativeTime at={task.ended_at} />
          )}
        </span>
        {commit && <code class="hash">{commit.id.slice(0, 10)}</code>}
      </p>
    </article>
  );
}

// The commits of all sessions, newest first.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { get } from './api';
import type { Commit } from './api-types';
import { CommitCard } from './commit-card';
import { LinkToList } from './icon';
import { hrefTo } from './route';

const PAGE_SIZE = 50;

interface Page {
  commits: Commit[];
  next_cursor: string | null;
}

export function CommitsView() {
  const [commits, setCommits] = useState<Commit[] | null>(null);
  const [nextCursor, setNextCursor] = useState<string | null>(null);
  const [, error, run] = useAction();
  const load = (cursor: string | null) =>
    run(async () => {
      const page = await get<Page>(
        `/commits?limit=${PAGE_SIZE}${cursor ? `&cursor=${cursor}` : ''}`,
      );
      setCommits((before) => [...(cursor ? (before ?? []) : []), ...page.commits]);
      setNextCursor(page.next_cursor);
    });
  useEffect(() => load(null), []);
  return (
    <main class="page" aria-label="Commits">
      <header class="header-bar">
        <LinkToList />
        <div class="header-name">
          <h1>Commits</h1>
        </div>
      </header>
      <div class="page-body" tabIndex={0} role="region" aria-label="List of commits">
        <div class="column">
          <ErrorMessage text={error} />
          {commits?.length === 0 && (
            <p class="empty">
              No commits yet. A task becomes a commit when you confirm or abandon it.
            </p>
          )}
          <ul class="commits">
            {commits?.map((commit) => (
              <li key={commit.id}>
                <a class="plain" href={hrefTo.commit(commit.id)}>
                  <CommitCard commit={commit} />
                </a>
              </li>
            ))}
          </ul>
          {nextCursor && (
            <button type="button" class="link" onClick={() => load(nextCursor)}>
              Show more
            </button>
          )}
        </div>
      </div>
    </main>
  );
}

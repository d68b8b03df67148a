// The commits of all sessions, newest first.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage } from './action';
import { errorText, get } from './api';
import type { Commit } from './api-types';
import { CommitCard } from './commit-card';
import { Icon } from './icon';
import { hrefTo } from './route';

const PAGE_SIZE = 50;

interface Page {
  commits: Commit[];
  next_cursor: string | null;
}

export function CommitsView() {
  const [commits, setCommits] = useState<Commit[] | null>(null);
  const [nextCursor, setNextCursor] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  const load = async (cursor: string | null) => {
    try {
      const page = await get<Page>(
        `/commits?limit=${PAGE_SIZE}${cursor ? `&cursor=${cursor}` : ''}`,
      );
      setCommits((before) => [...(cursor ? (before ?? []) : []), ...page.commits]);
      setNextCursor(page.next_cursor);
    } catch (reason) {
      setError(errorText(reason));
    }
  };
  useEffect(() => void load(null), []);
  return (
    <main class="page" aria-label="Commits">
      <header class="header-bar">
        <a class="icon-button only-narrow" href={hrefTo.list} aria-label="All sessions">
          <Icon name="back" />
        </a>
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
                {commit.session ? (
                  <a class="plain" href={hrefTo.session(commit.session)}>
                    <CommitCard commit={commit} />
                  </a>
                ) : (
                  <CommitCard commit={commit} />
                )}
              </li>
            ))}
          </ul>
          {nextCursor && (
            <button type="button" class="link" onClick={() => void load(nextCursor)}>
              Show more
            </button>
          )}
        </div>
      </div>
    </main>
  );
}

// All sealed work, newest first.
import { useEffect, useState } from 'preact/hooks';
import { get, told } from './api';
import { Failed, Icon } from './bits';
import { hrefTo } from './route';
import { CommitCard } from './task';
import type { Commit } from './types';

export function Commits() {
  const [commits, setCommits] = useState<Commit[] | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  const load = async (cursor: string | null) => {
    try {
      const page = await get<{ commits: Commit[]; next_cursor: string | null }>(`/commits?limit=50${cursor ? `&cursor=${cursor}` : ''}`);
      setCommits((before) => [...(cursor ? (before ?? []) : []), ...page.commits]);
      setNext(page.next_cursor);
    } catch (error) {
      setFailed(told(error));
    }
  };
  useEffect(() => void load(null), []);
  return (
    <main class="page" aria-label="Sealed work">
      <header class="bar">
        <a class="icon-button only-narrow" href={hrefTo.none} aria-label="All sessions">
          <Icon name="back" />
        </a>
        <div class="bar-name">
          <h1>Sealed work</h1>
        </div>
      </header>
      <div class="page-body" tabIndex={0} role="region" aria-label="Commits">
        <div class="column">
          <Failed text={failed} />
          {commits?.length === 0 && <p class="empty">Nothing was sealed yet. A task that you confirm, or give up, becomes one commit.</p>}
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
          {next && (
            <button type="button" class="link" onClick={() => void load(next)}>
              Show more
            </button>
          )}
        </div>
      </div>
    </main>
  );
}

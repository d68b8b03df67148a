// A new session: nothing to fill in but the first message.
import { useState } from 'preact/hooks';
import { post } from './api';
import { Icon } from './bits';
import { Composer, type Sending } from './composer';
import { writeHere } from './conversation';
import { go, hrefTo } from './route';
import { noteSession, projects, providers } from './sessions';
import type { Session } from './types';

const IDEAS = ['help', 'think about it', 'use a tool', 'ask me something', 'slow 60'];

export function Fresh() {
  const [title, setTitle] = useState('');
  const [project, setProject] = useState('');
  const [directory, setDirectory] = useState('');
  const [tracked, setTracked] = useState(false);
  const [draft, setDraft] = useState(0);
  const send = async (message: Sending, key: string) => {
    const { provider_id, model, ...rest } = message;
    const session = await post<Session>(
      '/sessions',
      {
        ...(title.trim() && { title: title.trim() }),
        ...(project.trim() && { project: project.trim() }),
        ...(directory.trim() && { working_dir: directory.trim() }),
        ...(tracked && { track_tasks: true }),
        ...(provider_id && { provider_id }),
        ...(model && { model }),
        message: rest,
      },
      { 'idempotency-key': key },
    );
    noteSession(session);
    go(hrefTo.session(session.id));
  };
  const demo = providers.value.fallback === 'demo';
  return (
    <main class="fresh">
      <a class="icon-button only-narrow" href={hrefTo.none} aria-label="All sessions">
        <Icon name="back" />
      </a>
      <div class="column">
        <h1>New session</h1>
        <p class="hint">
          {demo ? 'No model is set up: the demo agent answers. It has no model behind it and says so.' : 'What you write is on disk before anybody answers.'}
        </p>
        <Composer key={draft} name="new" session={null} send={send} placeholder="What is to be done?" focus={writeHere.value} eager />
        {demo && (
          <div class="ideas" role="group" aria-label="Things to try">
            {IDEAS.map((idea) => (
              <button
                key={idea}
                type="button"
                class="toggle"
                onClick={() => {
                  localStorage.setItem('ctx.draft.new', idea);
                  setDraft(draft + 1);
                }}
              >
                {idea}
              </button>
            ))}
          </div>
        )}
        <details class="settings">
          <summary>Title, project, directory</summary>
          <label>
            Title
            <input value={title} onInput={(event) => setTitle(event.currentTarget.value)} placeholder="from the first message" />
          </label>
          <label>
            Project
            <input list="projects" value={project} onInput={(event) => setProject(event.currentTarget.value)} placeholder="the server's" />
          </label>
          <datalist id="projects">
            {projects.value.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
          <label>
            Working directory
            <input value={directory} onInput={(event) => setDirectory(event.currentTarget.value)} placeholder="none: a chat" spellcheck={false} />
          </label>
          <label class="check">
            <input type="checkbox" checked={tracked} onChange={(event) => setTracked(event.currentTarget.checked)} /> keep track of tasks without a directory, too
          </label>
        </details>
      </div>
    </main>
  );
}

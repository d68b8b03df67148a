// The form for a new session, which is the home of the page. Only the first message is required.
import { useEffect, useState } from 'preact/hooks';
import { post } from './api';
import type { Session } from './api-types';
import {
  Composer,
  focusWhenShown,
  openToWrite,
  type OutgoingMessage,
  requestComposerFocus,
} from './composer';
import { DirectoryButton } from './dialog-buttons';
import { saveDraft } from './preferences';
import { providers } from './provider-store';
import { hrefTo, route } from './route';
import { isLoaded, projectNames, sessionsById, updateSession } from './session-list-store';

const DRAFT_NAME = 'new';
/** Messages that the demo agent answers in a special way. */
const DEMO_MESSAGES = ['help', 'think about it', 'use a tool', 'ask me something', 'slow 60'];

export function NewSession() {
  const [title, setTitle] = useState('');
  const [project, setProject] = useState('');
  const [directory, setDirectory] = useState('');
  const [trackTasks, setTrackTasks] = useState(false);
  /** Changes the key of the composer, so that it loads the draft again. */
  const [draftVersion, setDraftVersion] = useState(0);
  const isFirstVisit = isLoaded.value && sessionsById.value.size === 0;
  // Where there are sessions, letters are shortcuts until the user chooses the field.
  useEffect(() => {
    if (isFirstVisit) requestComposerFocus();
  }, [isFirstVisit]);
  const create = async (outgoing: OutgoingMessage, idempotencyKey: string) => {
    const { provider_id, model, ...message } = outgoing;
    const body = {
      ...(title.trim() && { title: title.trim() }),
      ...(project.trim() && { project: project.trim() }),
      ...(directory.trim() && { working_dir: directory.trim() }),
      ...(trackTasks && { track_tasks: true }),
      ...(provider_id && { provider_id }),
      ...(model && { model }),
      message,
    };
    const headers = { 'idempotency-key': idempotencyKey };
    const session = await post<Session>('/sessions', body, headers);
    updateSession(session);
    openToWrite(session.id);
  };
  const fillIn = (text: string) => {
    saveDraft(DRAFT_NAME, text);
    setDraftVersion(draftVersion + 1);
    focusWhenShown(DRAFT_NAME);
  };
  const isDemo = providers.value.defaultId === 'demo';
  return (
    <section class="new-session" aria-labelledby="new-session-title">
      <div class="column">
        <h1 id="new-session-title">New session</h1>
        {isDemo && (
          <p class="hint">
            No model is set up. The built-in demo agent answers with scripted text.{' '}
            <a href={hrefTo.setup}>Set up a model or an agent</a>
          </p>
        )}
        <Composer
          key={draftVersion}
          draftName={DRAFT_NAME}
          session={null}
          send={create}
          placeholder="Ask a question or describe a task"
          workingDir={directory.trim() || null}
          autofocus={route.value.view === 'new'}
        />
        {isDemo && (
          <div class="suggestions" role="group" aria-label="Suggestions">
            {DEMO_MESSAGES.map((text) => (
              <button key={text} type="button" class="toggle" onClick={() => fillIn(text)}>
                {text}
              </button>
            ))}
          </div>
        )}
        <details class="settings">
          <summary>Title, project, directory</summary>
          <label>
            Title
            <input
              value={title}
              onInput={(event) => setTitle(event.currentTarget.value)}
              placeholder="taken from the first message"
            />
          </label>
          <label>
            Project
            <input
              list="projects"
              value={project}
              onInput={(event) => setProject(event.currentTarget.value)}
              placeholder="default project of the server"
            />
          </label>
          <datalist id="projects">
            {projectNames.value.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
          <label>
            Working directory
            <input
              value={directory}
              onInput={(event) => setDirectory(event.currentTarget.value)}
              placeholder="none"
              spellcheck={false}
            />
          </label>
          <DirectoryButton value={directory} onChoose={setDirectory} />
          <label class="check">
            <input
              type="checkbox"
              checked={trackTasks}
              onChange={(event) => setTrackTasks(event.currentTarget.checked)}
            />{' '}
            Track tasks even without a working directory
          </label>
        </details>
      </div>
    </section>
  );
}

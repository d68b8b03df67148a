// Actions on the task: confirm, abandon, reopen. The server carries them out at once, without a
// message or a run, and puts a notice into the transcript.
import type { ComponentChildren } from 'preact';
import { ErrorMessage, useAction } from './action';
import { post, sessionPath } from './api';
import type { Session } from './api-types';
import { sealTask } from './session-actions';

type Action = [name: 'confirm' | 'abandon' | 'reopen', label: string, style?: string];

export const CONFIRM: Action = ['confirm', 'Confirm', 'primary'];
export const ABANDON: Action = ['abandon', 'Abandon', 'danger'];

interface Props {
  /** Id of the session. */
  session: string;
  actions: Action[];
  /** Further buttons. */
  children?: ComponentChildren;
}

const change = (session: string, name: Action[0]) =>
  name === 'reopen' ? post(sessionPath(session, '/task/reopen')) : sealTask(session, name);

/** The feed brings the new state of the session. */
export function TaskActions({ session, actions, children }: Props) {
  const [busy, error, run] = useAction();
  return (
    <>
      <div class="buttons">
        {actions.map(([name, label, style = '']) => (
          <button
            key={name}
            type="button"
            class={style}
            disabled={busy}
            onClick={() => run(() => change(session, name))}
          >
            {label}
          </button>
        ))}
        {children}
      </div>
      <ErrorMessage text={error} />
    </>
  );
}

/** Shown above the composer when the agent has stated that the task is complete. */
export function FinishedTask({ session }: { session: Session }) {
  const { task } = session;
  if (task?.state.name !== 'pending_complete' || session.state !== 'idle') return null;
  return (
    <section class="card finished" aria-label="Finished task">
      <p>
        <span class="hint">Is this task complete?</span> {task.description}
      </p>
      <TaskActions session={session.id} actions={[CONFIRM, ABANDON]} />
    </section>
  );
}

// Requests that wait for the user: permissions, questions, results of client tools (suspensions),
// and the question whether to continue a task (the pending prompt).
import { useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { post, sessionPath } from './api';
import type { Prompt, Session, Suspension } from './api-types';
import { Chip } from './chip';
import { humanize } from './session-display';
import type { SessionStore } from './session-store';
import { summarizeParams } from './tool-call';

export function Suspensions({ store, session }: { store: SessionStore; session: Session }) {
  return (
    <>
      {session.pending_prompt && <PromptCard store={store} prompt={session.pending_prompt} />}
      {session.suspensions.map((suspension) => (
        <SuspensionCard key={suspension.id} store={store} suspension={suspension} />
      ))}
    </>
  );
}

const CHOICES: Record<string, string> = {
  continue: 'Continue',
  start_fresh: 'Save and start fresh',
};

function PromptCard({ store, prompt }: { store: SessionStore; prompt: Prompt }) {
  const [busy, error, run] = useAction();
  const answer = (choice: string) =>
    run(async () => {
      await post(sessionPath(store.id, '/answer'), { choice });
      await store.refresh('session');
    });
  return (
    <section class="card ask" aria-label="Question about the task">
      <p class="question">{prompt.text}</p>
      <div class="buttons">
        {prompt.choices.map((choice, n) => (
          <button
            key={choice}
            type="button"
            class={n === 0 ? 'primary' : ''}
            disabled={busy}
            onClick={() => answer(choice)}
          >
            {String.fromCharCode(65 + n)}) {CHOICES[choice] ?? humanize(choice)}
          </button>
        ))}
      </div>
      <ErrorMessage text={error} />
    </section>
  );
}

const KINDS = {
  permission: 'Permission',
  question: 'Question',
  tool_result: 'Tool result',
  event: 'Event',
};

function SuspensionCard({ store, suspension }: { store: SessionStore; suspension: Suspension }) {
  const [busy, error, run] = useAction();
  const resume = (answer: object) =>
    run(async () => {
      const body = { suspension_id: suspension.id, ...answer };
      await post(sessionPath(store.id, '/resume'), body);
      await store.refresh('session');
    });
  const needsResults = suspension.kind === 'tool_result' && suspension.tool_calls.length > 0;
  return (
    <section class="card ask" aria-label={`Waiting: ${KINDS[suspension.kind]}`}>
      <h3>
        {KINDS[suspension.kind]} <Chip tone="ask">waiting for you</Chip>
      </h3>
      {suspension.question && <p class="question">{suspension.question}</p>}
      {!needsResults &&
        suspension.tool_calls.map((call) => (
          <p key={call.id} class="call">
            <code>{call.name}</code> <span class="hint">{summarizeParams(call.params)}</span>
          </p>
        ))}
      {needsResults && (
        <ResultForm suspension={suspension} busy={busy} send={(results) => resume({ results })} />
      )}
      {suspension.options.length > 0 && (
        <div class="buttons">
          {suspension.options.map((option, n) => (
            <button
              key={option.id}
              type="button"
              class={n === 0 ? 'primary' : ''}
              disabled={busy}
              onClick={() => resume({ choice: option.id })}
            >
              {option.label}
            </button>
          ))}
        </div>
      )}
      {suspension.options.length === 0 && !needsResults && (
        <p class="hint">Send a message to answer.</p>
      )}
      <button
        type="button"
        class="link"
        title="Ends this answer. What the agent wrote so far is kept."
        disabled={busy}
        onClick={() => run(() => post(sessionPath(store.id, '/cancel')))}
      >
        Stop the agent without an answer
      </button>
      <ErrorMessage text={error} />
    </section>
  );
}

interface ToolResult {
  tool_call_id: string;
  content: string;
  is_error: boolean;
}

interface ResultFormProps {
  suspension: Suspension;
  busy: boolean;
  send(results: ToolResult[]): void;
}

function ResultForm({ suspension, busy, send }: ResultFormProps) {
  const [results, setResults] = useState<ToolResult[]>(
    suspension.tool_calls.map((call) => ({ tool_call_id: call.id, content: '', is_error: false })),
  );
  const update = (n: number, change: Partial<ToolResult>) =>
    setResults(results.with(n, { ...results[n]!, ...change }));
  return (
    <form
      class="results"
      aria-label="Tool results"
      onSubmit={(event) => {
        event.preventDefault();
        send(results);
      }}
    >
      {suspension.tool_calls.map((call, n) => (
        <fieldset key={call.id}>
          <legend>
            <code>{call.name}</code>
          </legend>
          <pre tabIndex={0} aria-label="Input">
            {JSON.stringify(call.params, null, 2)}
          </pre>
          <label>
            Result
            <textarea
              rows={2}
              required
              value={results[n]!.content}
              onInput={(event) => update(n, { content: event.currentTarget.value })}
            />
          </label>
          <label class="check">
            <input
              type="checkbox"
              checked={results[n]!.is_error}
              onChange={(event) => update(n, { is_error: event.currentTarget.checked })}
            />{' '}
            The tool failed
          </label>
        </fieldset>
      ))}
      <button type="submit" class="primary" disabled={busy}>
        {results.length > 1 ? 'Send results' : 'Send result'}
      </button>
    </form>
  );
}

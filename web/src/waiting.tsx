// What a session waits for, just above where one writes: permissions, questions, results of tools, prompts, and the
// messages in its inbox.
import { useState } from 'preact/hooks';
import { at, patch, post, remove } from './api';
import { Chip, Failed, IconButton, plain, useAct } from './bits';
import { brief } from './tool';
import type { Talk } from './talk';
import type { InboxItem, Prompt, Suspension } from './types';

export function Waiting({ talk }: { talk: Talk }) {
  const session = talk.info.value;
  if (!session) return null;
  const waiting = talk.inbox.value.filter((item) => item.state === 'waiting' || item.position !== null);
  const dropped = talk.inbox.value.filter((item) => item.state === 'dropped');
  return (
    <>
      {session.pending_prompt && <PromptCard talk={talk} prompt={session.pending_prompt} />}
      {session.suspensions.map((suspension) => (
        <SuspensionCard key={suspension.id} talk={talk} suspension={suspension} />
      ))}
      {waiting.length > 0 && <Inbox talk={talk} items={waiting} />}
      {dropped.length > 0 && <p class="hint">{dropped.length} messages were dropped: the inbox was full.</p>}
    </>
  );
}

const CHOICES: Record<string, string> = { continue: 'Continue', start_fresh: 'Save and start fresh' };

function PromptCard({ talk, prompt }: { talk: Talk; prompt: Prompt }) {
  const [busy, failed, act] = useAct();
  const answer = (choice: string) => act(() => post(at(talk.id, '/answer'), { choice }).then(() => talk.refresh('session')));
  return (
    <section class="card ask" aria-label="A question about the task">
      <p class="question">{prompt.text}</p>
      <div class="buttons">
        {prompt.choices.map((choice, n) => (
          <button key={choice} type="button" class={n === 0 ? 'primary' : ''} disabled={busy} onClick={() => answer(choice)}>
            {String.fromCharCode(65 + n)}) {CHOICES[choice] ?? plain(choice)}
          </button>
        ))}
      </div>
      <Failed text={failed} />
    </section>
  );
}

const KINDS = { permission: 'Permission', question: 'Question', tool_result: 'A tool of yours', event: 'An event' };

function SuspensionCard({ talk, suspension }: { talk: Talk; suspension: Suspension }) {
  const [busy, failed, act] = useAct();
  const resume = (answer: object) => act(() => post(at(talk.id, '/resume'), { suspension_id: suspension.id, ...answer }).then(() => talk.refresh('session')));
  const isForm = suspension.kind === 'tool_result' && suspension.tool_calls.length > 0;
  return (
    <section class="card ask" aria-label={`Waiting: ${KINDS[suspension.kind]}`}>
      <h3>
        {KINDS[suspension.kind]} <Chip tone="ask">waits for you</Chip>
      </h3>
      {suspension.question && <p class="question">{suspension.question}</p>}
      {!isForm &&
        suspension.tool_calls.map((call) => (
          <p key={call.id} class="call">
            <code>{call.name}</code> <span class="hint">{brief(call.params)}</span>
          </p>
        ))}
      {isForm && <Results suspension={suspension} busy={busy} send={(results) => resume({ results })} />}
      {suspension.options.length > 0 && (
        <div class="buttons">
          {suspension.options.map((option, n) => (
            <button key={option.id} type="button" class={n === 0 ? 'primary' : ''} disabled={busy} onClick={() => resume({ choice: option.id })}>
              {option.label}
            </button>
          ))}
        </div>
      )}
      {suspension.options.length === 0 && !isForm && <p class="hint">Answer with a message below.</p>}
      <button type="button" class="link" disabled={busy} onClick={() => act(() => post(at(talk.id, '/cancel')))}>
        Stop waiting
      </button>
      <Failed text={failed} />
    </section>
  );
}

interface Result {
  tool_call_id: string;
  content: string;
  is_error: boolean;
}

function Results({ suspension, busy, send }: { suspension: Suspension; busy: boolean; send(results: Result[]): void }) {
  const [results, setResults] = useState<Result[]>(suspension.tool_calls.map((call) => ({ tool_call_id: call.id, content: '', is_error: false })));
  const set = (n: number, change: Partial<Result>) => setResults(results.with(n, { ...results[n]!, ...change }));
  return (
    <form
      class="results"
      aria-label="Results of tools"
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
            <textarea rows={2} required value={results[n]!.content} onInput={(event) => set(n, { content: event.currentTarget.value })} />
          </label>
          <label class="check">
            <input type="checkbox" checked={results[n]!.is_error} onChange={(event) => set(n, { is_error: event.currentTarget.checked })} /> it failed
          </label>
        </fieldset>
      ))}
      <button type="submit" class="primary" disabled={busy}>
        Send {results.length > 1 ? 'results' : 'the result'}
      </button>
    </form>
  );
}

function Inbox({ talk, items }: { talk: Talk; items: InboxItem[] }) {
  return (
    <section class="card inbox" aria-label="Inbox">
      <h3>
        Waiting in line <Chip>{items.length}</Chip>
      </h3>
      <ol>
        {items.map((item, n) => (
          <Item key={item.id} talk={talk} item={item} place={n + 1} last={n === items.length - 1} />
        ))}
      </ol>
    </section>
  );
}

function Item({ talk, item, place, last }: { talk: Talk; item: InboxItem; place: number; last: boolean }) {
  const [editing, setEditing] = useState<string | null>(null);
  const [busy, failed, act] = useAct();
  const path = at(talk.id, `/inbox/${item.id}`);
  const done = () => talk.refresh('inbox', 'session');
  const move = (position: number) => act(() => patch(path, { position }).then(done));
  const save = () =>
    act(async () => {
      await patch(path, { text: editing });
      setEditing(null);
      await done();
    });
  return (
    <li>
      {editing === null ? (
        <span class="waiting-text">{item.text}</span>
      ) : (
        <textarea aria-label="Edit the message" rows={2} value={editing} onInput={(event) => setEditing(event.currentTarget.value)} />
      )}
      <span class="hint">{plain(item.mode)}</span>
      {editing === null ? (
        <span class="acts">
          <IconButton icon="up" label="Move up" disabled={busy || place === 1} onClick={() => move(place - 1)} />
          <IconButton icon="down" label="Move down" disabled={busy || last} onClick={() => move(place + 1)} />
          <IconButton icon="edit" label="Edit" disabled={busy} onClick={() => setEditing(item.text)} />
          <IconButton icon="close" label="Withdraw" disabled={busy} onClick={() => act(() => remove(path).then(done))} />
        </span>
      ) : (
        <span class="acts">
          <button type="button" class="small primary" disabled={busy || !editing.trim()} onClick={save}>
            Save
          </button>
          <button type="button" class="small" onClick={() => setEditing(null)}>
            Leave
          </button>
        </span>
      )}
      <Failed text={failed} />
    </li>
  );
}

// The record of a task: its steps, files, and the decisions and messages of its session as one
// timeline.
import { get, request, sessionPath } from './api';
import type { Message, Task, TaskState, Turn } from './api-types';

/** A text, a stored blob, content that was too large to store, or a deleted file. */
export type Content = string | { blob: string; bytes: number } | { omitted: string; bytes: number };

type Entry =
  | { type: 'task'; description: string }
  | { type: 'file_read'; path: string; content: Content }
  | { type: 'file_write'; path: string; content: Content | null }
  | { type: 'command'; argv: string[]; exit: number | null; output?: Content }
  | { type: 'note'; text: string }
  | { type: 'plan'; text: string }
  | { type: 'relation'; from: string; label: string; to: string }
  | { type: 'moved'; from: string | null; to: string };

interface Step {
  id: string;
  seq: number;
  at: string;
  state: TaskState;
  entries: Entry[];
}

export interface WorkFile {
  path: string;
  written: boolean;
  deleted: boolean;
  before: Content | null;
  after: Content | null;
}

export type EventKind = 'task' | 'files' | 'commands' | 'questions' | 'notes' | 'messages';

/** One line of the timeline. */
export type WorkEvent = { key: string; at: string; kind: EventKind } & (
  | { what: 'started'; text: string }
  | { what: 'state'; text: string }
  | { what: 'read'; path: string; content: Content }
  | { what: 'write'; path: string; before: Content | null; after: Content | null }
  | { what: 'command'; line: string; exit: number | null; output: Content | null }
  | { what: 'note' | 'plan' | 'relation'; text: string }
  | { what: 'question'; text: string }
  | { what: 'answer'; text: string; by: string; turn: string | null }
  | { what: 'permission'; text: string; decision: string; option: string; by: string; turn: string }
  | { what: 'message'; text: string; by: string; turn: string }
);

const STEPS_PAGE = 500;
/** Steps of a longer task are loaded when the user asks for them. */
export const STEPS_MAX = 2000;
const TURNS_PAGE = 50;
const TURN_PAGES_MAX = 6;
const QUESTION = 'Question for user: ';
const ANSWER = 'User response: ';
const PERMISSION = /^Permission asked: (.*)\nDecision: (.*?)(?: \(([^()]*)\))?, by (.*)\.$/s;

export const fetchTask = (id: string) => get<Task>(`/tasks/${id}`);

export const fetchFiles = (id: string) =>
  get<{ files: WorkFile[]; more: number }>(`/tasks/${id}/files`);

/** The text of content; null if it is not stored or is not text. */
export async function textOf(content: Content | null): Promise<string | null> {
  if (content === null) return '';
  if (typeof content === 'string') return content;
  if ('omitted' in content) return null;
  const response = await request('GET', `/blobs/${content.blob}`);
  if (!response.headers.get('content-type')?.startsWith('text/')) return null;
  return response.text();
}

async function fetchSteps(task: string, max: number): Promise<{ steps: Step[]; more: boolean }> {
  const steps: Step[] = [];
  let cursor: string | null = '';
  while (cursor !== null && steps.length < max) {
    const path: string = `/tasks/${task}/steps?limit=${STEPS_PAGE}${cursor && `&cursor=${cursor}`}`;
    const page: { steps: Step[]; next_cursor: string | null } = await get(path);
    steps.push(...page.steps);
    cursor = page.next_cursor;
  }
  return { steps, more: cursor !== null };
}

/** The turns of the session in a period, oldest first. Empty if the session was deleted. */
async function fetchTurns(session: string, from: string, to: string): Promise<Turn[]> {
  const turns: Turn[] = [];
  let cursor: string | null = '';
  for (let n = 0; n < TURN_PAGES_MAX && cursor !== null; n++) {
    const query: string = `/turns?limit=${TURNS_PAGE}${cursor && `&cursor=${cursor}`}`;
    const page: { turns: Turn[]; next_cursor: string | null } | null = await get<{
      turns: Turn[];
      next_cursor: string | null;
    }>(sessionPath(session, query)).catch(() => null);
    if (!page) return turns;
    turns.unshift(...page.turns.filter((turn) => turn.started_at <= to).reverse());
    const oldest = page.turns.at(-1);
    cursor = oldest && oldest.ended_at >= from ? page.next_cursor : null;
  }
  return turns.filter((turn) => turn.ended_at >= from);
}

/** The timeline of a task, oldest first; `more` if steps are left out. */
export async function fetchTimeline(
  task: Task,
  max: number,
): Promise<{ events: WorkEvent[]; more: boolean }> {
  const to = task.ended_at ?? '9999';
  const [{ steps, more }, turns] = await Promise.all([
    fetchSteps(task.id, max),
    fetchTurns(task.session, task.started_at, to),
  ]);
  const ofSession = turns.flatMap(turnEvents);
  const messages = ofSession.filter((event) => event.what === 'message');
  const events = [...stepEvents(steps, messages), ...ofSession];
  return { events: events.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0)), more };
}

function stepEvents(steps: Step[], messages: WorkEvent[]): WorkEvent[] {
  /** The last version of each file, to which the next one is compared. */
  const versions = new Map<string, Content | null>();
  return steps.flatMap((step) =>
    step.entries.flatMap((entry, n): WorkEvent[] => {
      const base = { key: `${step.id}/${n}`, at: step.at };
      switch (entry.type) {
        case 'task':
          return [{ ...base, kind: 'task', what: 'started', text: entry.description }];
        case 'file_read':
          versions.set(entry.path, entry.content);
          return [
            { ...base, kind: 'files', what: 'read', path: entry.path, content: entry.content },
          ];
        case 'file_write': {
          const before = versions.get(entry.path) ?? null;
          versions.set(entry.path, entry.content);
          const { path, content: after } = entry;
          return [{ ...base, kind: 'files', what: 'write', path, before, after }];
        }
        case 'command': {
          const { argv, exit, output = null } = entry;
          return [
            { ...base, kind: 'commands', what: 'command', line: argv.join(' '), exit, output },
          ];
        }
        case 'note':
          return [noteEvent(base, entry.text, messages)];
        case 'plan':
          return [{ ...base, kind: 'notes', what: 'plan', text: entry.text }];
        case 'relation': {
          const text = `${entry.from} ${entry.label} ${entry.to}`;
          return [{ ...base, kind: 'notes', what: 'relation', text }];
        }
        case 'moved':
          return [{ ...base, kind: 'task', what: 'state', text: entry.to }];
        default:
          return [];
      }
    }),
  );
}

function noteEvent(
  base: { key: string; at: string },
  text: string,
  messages: WorkEvent[],
): WorkEvent {
  if (text.startsWith(QUESTION))
    return { ...base, kind: 'questions', what: 'question', text: text.slice(QUESTION.length) };
  if (!text.startsWith(ANSWER)) return { ...base, kind: 'notes', what: 'note', text };
  const answer = text.slice(ANSWER.length);
  // The note has the text; the message of the session has the sender.
  const message = messages.find((event) => 'text' in event && event.text.startsWith(answer));
  const { by, turn } =
    message?.what === 'message' ? message : { by: 'the user', turn: null as string | null };
  return { ...base, kind: 'questions', what: 'answer', text: answer, by, turn };
}

/** Messages to the agent, and decisions on permissions. */
function turnEvents(turn: Turn): WorkEvent[] {
  return turn.messages.flatMap((message): WorkEvent[] => {
    const text = message.content
      .map((part) => (part.type === 'text' ? part.text : ''))
      .join('\n')
      .trim();
    const base = { key: message.id, at: message.created_at, turn: turn.id };
    if (message.role === 'user')
      return [{ ...base, kind: 'messages', what: 'message', text, by: senderOf(message) }];
    const decided = message.role === 'system' ? PERMISSION.exec(text) : null;
    if (!decided) return [];
    const [, asked = '', decision = '', option = '', by = ''] = decided;
    return [{ ...base, kind: 'questions', what: 'permission', text: asked, decision, option, by }];
  });
}

const senderOf = ({ source }: Message) => (!source || source === 'human' ? 'you' : source);

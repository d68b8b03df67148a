// The rows of the transcript. Each row is small and is drawn independently. Row keys stay the same
// when the open turn becomes a stored turn, so that its rows are not drawn again.
import type { Message, Part, Turn } from './api-types';
import { IncrementalSplitter, splitBlocks } from './markdown';

type PartOf<T extends Part['type']> = Extract<Part, { type: T }>;

export type Row = {
  key: string;
  /** In pixels; used until the row is measured. */
  estimatedHeight: number;
  /** Depth of the turn that the row belongs to. */
  depth: number;
} & (
  | { kind: 'gap'; from: number; to: number }
  | { kind: 'user'; message: Message }
  | { kind: 'author'; message: Message; turn: Turn | null }
  | { kind: 'text'; source: string }
  | { kind: 'thought'; text: string; live: boolean }
  | {
      kind: 'tool';
      call: PartOf<'tool_call'> | null;
      result: PartOf<'tool_result'> | null;
      live: boolean;
    }
  | { kind: 'tools'; calls: ToolRow[] }
  | { kind: 'unread'; count: number }
  | { kind: 'error'; part: PartOf<'error'> }
  | { kind: 'plan'; entries: unknown }
  | { kind: 'image'; part: PartOf<'image'> }
  | { kind: 'compaction'; turn: Turn; summary: string }
  | { kind: 'notice'; text: string; at: string }
  | { kind: 'footer'; turn: Turn }
  | { kind: 'busy' }
);

export type ToolRow = Extract<Row, { kind: 'tool' }>;
export type ToolsRow = Extract<Row, { kind: 'tools' }>;

/** Estimated height of a turn that is not loaded. */
export const GAP_TURN_PX = 420;
const LINE_PX = 25;
const LINE_CHARS = 84;

function lineCount(text: string): number {
  let count = 0;
  for (const line of text.split('\n')) count += 1 + Math.floor(line.length / LINE_CHARS);
  return count;
}

const cachedRows = new WeakMap<Turn, Row[]>();

/** The rows of a stored turn. Stored turns never change, so the rows are built once. */
export function turnRows(turn: Turn): Row[] {
  let rows = cachedRows.get(turn);
  if (!rows) {
    rows = turn.type === 'compaction' ? [compactionRow(turn)] : exchangeRows(turn);
    cachedRows.set(turn, rows);
  }
  return rows;
}

function exchangeRows(turn: Turn): Row[] {
  const rows = messageRows(turn.messages, turn.depth, turn, splitBlocks);
  const { depth } = turn;
  if (!isWithCtxOnly(turn)) {
    rows.push({ key: `footer:${turn.id}`, kind: 'footer', turn, depth, estimatedHeight: 48 });
  }
  return rows;
}

/** True for notices and for commands that ctx itself answered. They cannot be retried. */
export function isWithCtxOnly({ provider_id, type, messages }: Turn): boolean {
  const has = (role: Message['role']) => messages.some((message) => message.role === role);
  return !provider_id && type === 'normal' && has('system') && !has('assistant');
}

/** True for the notice of a sealed task; false for that of a dropped or a reopened one. */
export const isSealing = (text: string) => text.startsWith('The task was sealed');

/** Key of the newest notice about a task if that task was sealed: reopening undoes it. */
export function newestSealing(rows: Row[]): string | null {
  const newest = rows.findLast(
    (row) => row.kind === 'notice' && row.text.startsWith('The task was '),
  );
  return newest?.kind === 'notice' && isSealing(newest.text) ? newest.key : null;
}

function compactionRow(turn: Turn): Row {
  const parts = turn.messages.flatMap((message) => message.content);
  const text = parts.map((part) => (part.type === 'summary' ? part.text : '')).join('\n');
  return {
    key: `compaction:${turn.id}`,
    kind: 'compaction',
    turn,
    summary: (turn.compaction?.summary ?? text).trim(),
    depth: turn.depth,
    estimatedHeight: 64,
  };
}

/** One per text part of the open turn. */
const splitters = new Map<string, IncrementalSplitter>();

function openTurnRows(messages: Message[], depth: number): Row[] {
  if (messages.length === 0) splitters.clear();
  return messageRows(messages, depth, null, (text, key) => {
    const splitter = splitters.get(key) ?? new IncrementalSplitter();
    splitters.set(key, splitter);
    return splitter.split(text);
  });
}

/** `turn` is null for the open turn. */
function messageRows(
  messages: Message[],
  depth: number,
  turn: Turn | null,
  split: (text: string, key: string) => string[],
): Row[] {
  const rows: Row[] = [];
  const toolRows = new Map<string, ToolRow>();
  const live = turn === null;
  let hasAuthor = false;
  for (const message of messages) {
    if (message.role === 'user') {
      const estimatedHeight = 44 + lineCount(messageText(message)) * LINE_PX;
      rows.push({ key: `u:${message.id}`, kind: 'user', message, depth, estimatedHeight });
      hasAuthor = false;
      continue;
    }
    if (!hasAuthor && message.role === 'assistant') {
      const key = `a:${message.id}`;
      rows.push({ key, kind: 'author', message, turn, depth, estimatedHeight: 32 });
      hasAuthor = true;
    }
    message.content.forEach((part, n) => {
      const key = `p:${message.id}:${n}`;
      const base = { key, depth };
      const at = message.created_at;
      switch (part.type) {
        case 'text':
          if (message.role === 'system') {
            rows.push({ ...base, kind: 'notice', text: part.text, at, estimatedHeight: 48 });
            break;
          }
          split(part.text, key).forEach((source, block) => {
            const estimatedHeight = 12 + lineCount(source) * LINE_PX;
            rows.push({ key: `${key}:${block}`, depth, kind: 'text', source, estimatedHeight });
          });
          break;
        case 'thought':
          rows.push({ ...base, kind: 'thought', text: part.text, live, estimatedHeight: 40 });
          break;
        case 'tool_call': {
          const row: ToolRow = {
            ...base,
            kind: 'tool',
            call: part,
            result: null,
            live,
            estimatedHeight: 46,
          };
          toolRows.set(part.id, row);
          rows.push(row);
          break;
        }
        case 'tool_result': {
          const row = toolRows.get(part.tool_call_id);
          if (row && !row.result) row.result = part;
          else {
            rows.push({
              ...base,
              kind: 'tool',
              call: null,
              result: part,
              live,
              estimatedHeight: 46,
            });
          }
          break;
        }
        case 'error':
          rows.push({ ...base, kind: 'error', part, estimatedHeight: 84 });
          break;
        case 'plan':
          rows.push({ ...base, kind: 'plan', entries: part.entries, estimatedHeight: 120 });
          break;
        case 'image':
          rows.push({ ...base, kind: 'image', part, estimatedHeight: 240 });
          break;
        case 'summary':
          rows.push({ ...base, kind: 'notice', text: part.text, at, estimatedHeight: 60 });
      }
    });
  }
  return foldToolCalls(rows);
}

/** Joins consecutive tool calls into one row. It has the key of the first call, so that a block that
 * grows stays the same row. */
function foldToolCalls(rows: Row[]): Row[] {
  const folded: Row[] = [];
  for (const row of rows) {
    const last = folded.at(-1);
    if (row.kind !== 'tool') folded.push(row);
    else if (last?.kind === 'tools') {
      last.calls.push(row);
      last.estimatedHeight += 34;
    } else if (last?.kind === 'tool') {
      const { key, depth } = last;
      folded.pop();
      folded.push({ key, depth, kind: 'tools', calls: [last, row], estimatedHeight: 100 });
    } else folded.push(row);
  }
  return folded;
}

export function messageText(message: Message): string {
  return message.content
    .map((part) => (part.type === 'text' || part.type === 'summary' ? part.text : ''))
    .filter(Boolean)
    .join('\n\n');
}

/** Marks where the user stopped reading. */
const unreadRow = (depth: number, turnCount: number): Row => ({
  key: 'unread',
  kind: 'unread',
  count: turnCount - depth + 1,
  depth,
  estimatedHeight: 36,
});

/** All rows of a session. `readDepth` is the last turn that the user has read before. Each run of turns that are not loaded is one gap row. */
export function transcriptRows(
  turns: Map<number, Turn>,
  turnCount: number,
  openMessages: Message[],
  busy: boolean,
  readDepth: number | null = null,
): Row[] {
  const rows: Row[] = [];
  const depths = [...turns.keys()].filter((depth) => depth <= turnCount).sort((a, b) => a - b);
  let next = 1;
  const addGap = (to: number) => {
    if (next > to) return;
    const estimatedHeight = (to - next + 1) * GAP_TURN_PX;
    rows.push({ key: `gap:${next}`, kind: 'gap', from: next, to, depth: next, estimatedHeight });
  };
  for (const depth of depths) {
    addGap(depth - 1);
    if (readDepth !== null && depth === readDepth + 1) rows.push(unreadRow(depth, turnCount));
    for (const row of turnRows(turns.get(depth)!)) rows.push(row);
    next = depth + 1;
  }
  addGap(turnCount);
  for (const row of openTurnRows(openMessages, turnCount + 1)) rows.push(row);
  if (busy) rows.push({ key: 'busy', kind: 'busy', depth: turnCount + 1, estimatedHeight: 36 });
  return rows;
}

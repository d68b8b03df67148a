// A conversation as rows: each small enough to be drawn by itself, each with a key that stays the same when the open
// turn is committed, so that nothing flickers then.
import { blocks, Splitter } from './markdown';
import type { Message, Part, Turn } from './types';

type Of<T extends Part['type']> = Extract<Part, { type: T }>;

export type Row = { key: string; guess: number; depth: number } & (
  | { kind: 'gap'; from: number; to: number }
  | { kind: 'user'; message: Message }
  | { kind: 'head'; message: Message; turn: Turn | null }
  | { kind: 'text'; raw: string; live: boolean }
  | { kind: 'thought'; text: string; live: boolean }
  | { kind: 'tool'; call: Of<'tool_call'> | null; result: Of<'tool_result'> | null; live: boolean }
  | { kind: 'error'; part: Of<'error'> }
  | { kind: 'plan'; entries: unknown }
  | { kind: 'image'; part: Of<'image'> }
  | { kind: 'mark'; turn: Turn; text: string }
  | { kind: 'notice'; text: string }
  | { kind: 'foot'; turn: Turn }
  | { kind: 'busy' }
);

/** The height of a turn that was not fetched yet. */
export const GAP_TURN_PX = 420;
const LINE_PX = 25;
const LINE_CHARS = 84;

const lines = (text: string) => {
  let count = 0;
  for (const line of text.split('\n')) count += 1 + Math.floor(line.length / LINE_CHARS);
  return count;
};

const made = new WeakMap<Turn, Row[]>();

/** The rows of a committed turn; it never changes, so they are made once. */
export function rowsOf(turn: Turn): Row[] {
  let rows = made.get(turn);
  if (!rows) {
    rows = turn.type === 'compaction' ? [mark(turn)] : messageRows(turn.messages, turn.depth, turn, blocks);
    if (turn.type !== 'compaction') rows.push({ key: `foot:${turn.id}`, kind: 'foot', turn, depth: turn.depth, guess: 48 });
    made.set(turn, rows);
  }
  return rows;
}

function mark(turn: Turn): Row {
  const parts = turn.messages.flatMap((message) => message.content);
  const text = turn.compaction?.summary ?? parts.map((part) => (part.type === 'summary' ? part.text : '')).join('\n');
  return { key: `mark:${turn.id}`, kind: 'mark', turn, text: text.trim(), depth: turn.depth, guess: 64 };
}

const splitters = new Map<string, Splitter>();

/** The rows of the turn that is being made. */
export function openRows(open: Message[], depth: number): Row[] {
  if (open.length === 0) splitters.clear();
  const rows = messageRows(open, depth, null, (text, key) => {
    const splitter = splitters.get(key) ?? new Splitter();
    splitters.set(key, splitter);
    return splitter.split(text);
  });
  return rows;
}

function messageRows(messages: Message[], depth: number, turn: Turn | null, split: (text: string, key: string) => string[]): Row[] {
  const rows: Row[] = [];
  const calls = new Map<string, Row & { kind: 'tool' }>();
  const live = turn === null;
  let headed = false;
  for (const message of messages) {
    if (message.role === 'user') {
      const words = textOf(message);
      rows.push({ key: `u:${message.id}`, kind: 'user', message, depth, guess: 44 + lines(words) * LINE_PX });
      headed = false;
      continue;
    }
    if (message.role === 'system') {
      rows.push({ key: `n:${message.id}`, kind: 'notice', text: textOf(message), depth, guess: 48 });
      continue;
    }
    if (!headed && message.role === 'assistant') {
      rows.push({ key: `h:${message.id}`, kind: 'head', message, turn, depth, guess: 32 });
      headed = true;
    }
    message.content.forEach((part, n) => {
      const key = `p:${message.id}:${n}`;
      const at = { key, depth };
      switch (part.type) {
        case 'text':
          split(part.text, key).forEach((raw, block) =>
            rows.push({ key: `${key}:${block}`, depth, kind: 'text', raw, live, guess: 12 + lines(raw) * LINE_PX }),
          );
          break;
        case 'thought':
          rows.push({ ...at, kind: 'thought', text: part.text, live, guess: 40 });
          break;
        case 'tool_call': {
          const row = { ...at, kind: 'tool' as const, call: part, result: null, live, guess: 46 };
          calls.set(part.id, row);
          rows.push(row);
          break;
        }
        case 'tool_result': {
          const row = calls.get(part.tool_call_id);
          if (row && !row.result) row.result = part;
          else rows.push({ ...at, kind: 'tool', call: null, result: part, live, guess: 46 });
          break;
        }
        case 'error':
          rows.push({ ...at, kind: 'error', part, guess: 84 });
          break;
        case 'plan':
          rows.push({ ...at, kind: 'plan', entries: part.entries, guess: 120 });
          break;
        case 'image':
          rows.push({ ...at, kind: 'image', part, guess: 240 });
          break;
        case 'summary':
          rows.push({ ...at, kind: 'notice', text: part.text, guess: 60 });
      }
    });
  }
  return rows;
}

export function textOf(message: Message): string {
  return message.content.map((part) => (part.type === 'text' || part.type === 'summary' ? part.text : '')).filter(Boolean).join('\n\n');
}

/** All rows: turns that are known, and a gap for each stretch that is not. */
export function allRows(turns: Map<number, Turn>, count: number, open: Message[], busy: boolean): Row[] {
  const rows: Row[] = [];
  const known = [...turns.keys()].filter((depth) => depth <= count).sort((a, b) => a - b);
  let next = 1;
  const gap = (to: number) => {
    if (next <= to) rows.push({ key: `gap:${next}`, kind: 'gap', from: next, to, depth: next, guess: (to - next + 1) * GAP_TURN_PX });
  };
  for (const depth of known) {
    gap(depth - 1);
    for (const row of rowsOf(turns.get(depth)!)) rows.push(row);
    next = depth + 1;
  }
  gap(count);
  for (const row of openRows(open, count + 1)) rows.push(row);
  if (busy) rows.push({ key: 'busy', kind: 'busy', depth: count + 1, guess: 36 });
  return rows;
}

// The open turn while it grows: what was fetched of it, and the words that came since.
//
// Offsets count the characters of all words of a message, over every stretch of them. What was fetched decides the
// order of the parts; words past it go to the end.
import type { Message, Part, Sent } from './types';

/** How many characters (not UTF-16 units) a text has. */
export function chars(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0xdc00 || unit > 0xdfff) count++;
  }
  return count;
}

/** A text without its first characters. */
export function skip(text: string, count: number): string {
  let at = 0;
  for (let n = 0; n < count && at < text.length; n++) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return text.slice(at);
}

const kindOf = (thought: boolean) => (thought ? 'thought' : 'text');

/** How many characters of words a message holds. */
export function spoken(message: Message, thought: boolean): number {
  let count = 0;
  for (const part of message.content) if (part.type === kindOf(thought)) count += chars((part as { text: string }).text);
  return count;
}

/** A message with more words at its end; `null` where words between are missing. */
export function withWords(message: Message, thought: boolean, offset: number, text: string): Message | null {
  const known = spoken(message, thought);
  if (offset > known) return null;
  const more = skip(text, known - offset);
  if (more === '') return message;
  const content = [...message.content];
  const last = content.at(-1);
  const type = kindOf(thought);
  if (last?.type === type) content[content.length - 1] = { ...last, text: (last as { text: string }).text + more } as Part;
  else content.push({ type, text: more } as Part);
  return { ...message, content };
}

/** What a client has to do after an event. */
export type Next = 'shown' | 'fetch' | 'nothing';

/** Folds a live event into the open messages. */
export function fold(open: Message[], event: Sent): { open: Message[]; next: Next } {
  const { name, data } = event;
  if (name === 'message.delta' || name === 'thought.delta') return foldWords(open, data, name === 'thought.delta');
  if (name === 'tool_call.started') return foldCall(open, data);
  if (name === 'tool_call.updated' || name === 'tool_call.completed' || name === 'plan.updated') return { open, next: 'fetch' };
  return { open, next: 'nothing' };
}

function foldWords(open: Message[], data: Record<string, any>, thought: boolean): { open: Message[]; next: Next } {
  const at = open.findIndex((message) => message.id === data.message_id);
  if (at < 0) {
    if (data.offset > 0) return { open, next: 'fetch' };
    const message: Message = {
      id: data.message_id,
      turn: null,
      role: 'assistant',
      source: null,
      content: [{ type: kindOf(thought), text: data.text } as Part],
      provider_id: data.provider_id ?? null,
      model: data.model ?? null,
      created_at: new Date().toISOString(),
    };
    // What came between, such as a message that was said into the answer, is only stored.
    return { open: [...open, message], next: open.length ? 'fetch' : 'shown' };
  }
  const before = open[at]!;
  const after = withWords(before, thought, data.offset, data.text);
  if (after === null) return { open, next: 'fetch' };
  return after === before ? { open, next: 'nothing' } : { open: open.with(at, after), next: 'shown' };
}

/** A call is shown at once under its name; what it was called with is fetched. */
function foldCall(open: Message[], data: Record<string, any>): { open: Message[]; next: Next } {
  const at = open.findLastIndex((message) => message.role === 'assistant');
  const known = open.some((message) => message.content.some((part) => part.type === 'tool_call' && part.id === data.tool_call_id));
  if (at < 0 || known) return { open, next: 'fetch' };
  const part: Part = { type: 'tool_call', id: data.tool_call_id, name: data.name, params: null, status: 'running' };
  const message = open[at]!;
  return { open: open.with(at, { ...message, content: [...message.content, part] }), next: 'fetch' };
}

/** What was fetched, and the words that had come past it. */
export function merge(open: Message[], fetched: Message[]): Message[] {
  const merged = fetched.map((message) => {
    const live = open.find((other) => other.id === message.id);
    if (!live) return message;
    let whole = message;
    for (const thought of [true, false]) {
      const said = live.content.filter((part) => part.type === kindOf(thought)).map((part) => (part as { text: string }).text).join('');
      whole = withWords(whole, thought, 0, said) ?? whole;
    }
    return whole;
  });
  // A message that began after the fetch is known only by its words.
  const newer = open.filter((live) => live.role === 'assistant' && live.turn === null && !fetched.some((message) => message.id === live.id));
  return [...merged, ...newer.filter((live) => !fetched.length || live.id > fetched.at(-1)!.id)];
}

// The messages of the open turn: messages fetched from the server, extended by live events.
//
// The offset of a delta counts the characters of all text parts (or of all thought parts) of its
// message. The fetched messages determine the order of the parts; newer text is appended at the end.
import type { FeedEvent, Message, Part } from './api-types';

/** Number of characters (code points, not UTF-16 units). */
function charCount(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0xdc00 || unit > 0xdfff) count++;
  }
  return count;
}

/** The text without its first `count` characters. */
function dropChars(text: string, count: number): string {
  let at = 0;
  for (let n = 0; n < count && at < text.length; n++)
    at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return text.slice(at);
}

type TextType = 'text' | 'thought';

/** The concatenated text of all parts of one type. */
const joinText = (message: Message, type: TextType) =>
  message.content.map((part) => (part.type === type ? part.text : '')).join('');

/** Appends the part of `text` that the message does not have yet. Returns null if the text between
 * the end of the message and `offset` is missing. */
function appendText(
  message: Message,
  type: TextType,
  offset: number,
  text: string,
): Message | null {
  const known = charCount(joinText(message, type));
  if (offset > known) return null;
  const added = dropChars(text, known - offset);
  if (added === '') return message;
  const content = [...message.content];
  const last = content.at(-1);
  if (last?.type === type) content[content.length - 1] = { ...last, text: last.text + added };
  else content.push({ type, text: added });
  return { ...message, content };
}

interface Applied {
  messages: Message[];
  /** True if the event does not contain everything, so that the open turn must be fetched. */
  needsFetch: boolean;
}

const FETCH_EVENTS = ['tool_call.updated', 'tool_call.completed', 'plan.updated'];

/** Applies a live event to the open messages. The array is replaced only if something changed. */
export function applyEvent(messages: Message[], event: FeedEvent): Applied {
  const { name, data } = event;
  if (name === 'message.delta') return applyDelta(messages, data, 'text');
  if (name === 'thought.delta') return applyDelta(messages, data, 'thought');
  if (name === 'tool_call.started')
    return { messages: addToolCall(messages, data), needsFetch: true };
  return { messages, needsFetch: FETCH_EVENTS.includes(name) };
}

function applyDelta(messages: Message[], data: Record<string, any>, type: TextType): Applied {
  const index = messages.findIndex((message) => message.id === data.message_id);
  if (index < 0) {
    if (data.offset > 0) return { messages, needsFetch: true };
    const message: Message = {
      id: data.message_id,
      turn: null,
      role: 'assistant',
      source: null,
      content: [{ type, text: data.text }],
      provider_id: data.provider_id ?? null,
      model: data.model ?? null,
      created_at: new Date().toISOString(),
    };
    // Messages between the last known one and this one, such as a steering message, have no event.
    return { messages: [...messages, message], needsFetch: messages.length > 0 };
  }
  const before = messages[index]!;
  const after = appendText(before, type, data.offset, data.text);
  if (after === null) return { messages, needsFetch: true };
  return { messages: after === before ? messages : messages.with(index, after), needsFetch: false };
}

/** Shows the call by name at once. The event has no parameters; they are fetched. */
function addToolCall(messages: Message[], data: Record<string, any>): Message[] {
  const index = messages.findLastIndex((message) => message.role === 'assistant');
  const isCall = (part: Part) => part.type === 'tool_call' && part.id === data.tool_call_id;
  if (index < 0 || messages.some((message) => message.content.some(isCall))) return messages;
  const call: Part = {
    type: 'tool_call',
    id: data.tool_call_id,
    name: data.name,
    params: null,
    status: 'running',
  };
  const message = messages[index]!;
  return messages.with(index, { ...message, content: [...message.content, call] });
}

/** The fetched messages, extended by live text that the server had not stored at that time. */
export function mergeFetched(live: Message[], fetched: Message[]): Message[] {
  const merged = fetched.map((message) => {
    const liveMessage = live.find((other) => other.id === message.id);
    if (!liveMessage) return message;
    let result = message;
    for (const type of ['thought', 'text'] as const) {
      result = appendText(result, type, 0, joinText(liveMessage, type)) ?? result;
    }
    return result;
  });
  // A message that started after the fetch is known only from its deltas. Message ids are ordered.
  const lastFetched = fetched.at(-1)?.id ?? '';
  const fetchedIds = new Set(fetched.map((message) => message.id));
  const started = live.filter(
    (message) =>
      message.role === 'assistant' &&
      message.turn === null &&
      !fetchedIds.has(message.id) &&
      message.id > lastFetched,
  );
  return [...merged, ...started];
}

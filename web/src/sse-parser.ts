// Incremental parser for server-sent events.
import type { FeedEvent } from './api-types';

/** Chunks may end anywhere in the stream. */
export class SseParser {
  #buffer = '';
  #id: number | null = null;
  #name = '';
  #data: string[] = [];

  /** Returns the events that this chunk completes. Events with invalid JSON are dropped. */
  push(text: string): FeedEvent[] {
    const events: FeedEvent[] = [];
    this.#buffer += text;
    let start = 0;
    for (;;) {
      const end = this.#buffer.indexOf('\n', start);
      if (end < 0) break;
      const line = this.#buffer.slice(start, this.#buffer[end - 1] === '\r' ? end - 1 : end);
      start = end + 1;
      if (line === '') {
        const event = this.#takeEvent();
        if (event) events.push(event);
      } else {
        this.#parseField(line);
      }
    }
    this.#buffer = this.#buffer.slice(start);
    return events;
  }

  #parseField(line: string): void {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'event') this.#name = value;
    else if (name === 'data') this.#data.push(value);
    else if (name === 'id') this.#id = Number(value);
  }

  #takeEvent(): FeedEvent | null {
    const [name, id, data] = [this.#name, this.#id, this.#data];
    this.#name = '';
    this.#id = null;
    this.#data = [];
    if (data.length === 0) return null;
    try {
      return { id: Number.isFinite(id) ? id : null, name, data: JSON.parse(data.join('\n')) };
    } catch {
      return null;
    }
  }
}

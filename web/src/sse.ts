// Server-sent events out of a byte stream, whatever the pieces it comes in.
import type { Sent } from './types';

/** Reads the text of a stream; each call gives the events that are complete by then. */
export class Reader {
  private rest = '';
  private id: number | null = null;
  private name = '';
  private data: string[] = [];

  push(text: string): Sent[] {
    const events: Sent[] = [];
    this.rest += text;
    let start = 0;
    for (;;) {
      const end = this.rest.indexOf('\n', start);
      if (end < 0) break;
      const line = this.rest.slice(start, this.rest[end - 1] === '\r' ? end - 1 : end);
      start = end + 1;
      if (line === '') {
        const event = this.finish();
        if (event) events.push(event);
      } else {
        this.field(line);
      }
    }
    this.rest = this.rest.slice(start);
    return events;
  }

  private field(line: string): void {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'event') this.name = value;
    else if (name === 'data') this.data.push(value);
    else if (name === 'id') this.id = Number(value);
  }

  private finish(): Sent | null {
    const { name, id, data } = this;
    this.name = '';
    this.id = null;
    this.data = [];
    if (data.length === 0) return null;
    try {
      return { id: Number.isFinite(id) ? id : null, name, data: JSON.parse(data.join('\n')) };
    } catch {
      return null;
    }
  }
}

// One conversation that is open on the page: fetched, then followed. Events say that something changed; what it is
// now is fetched, so that a missed or repeated event does no harm.
import { batch, signal } from '@preact/signals';
import { at, get, isProblem, post, Problem, remove } from './api';
import { follow } from './follow';
import { fold, merge } from './fold';
import { rowsOf } from './rows';
import { noteSession } from './sessions';
import type { InboxItem, Message, Sent, Session, TreeTurn, Turn } from './types';

/** How many turns are fetched at once. */
const PAGE = 24;
/** So many turns are kept in memory; half of them once there are more. */
const KEPT_MAX = 600;
/** How long the page may be held up by what is not in sight yet. */
const SLICE_MS = 6;
/** The most messages of an open turn that are shown, and how many are fetched at once. */
const OPEN_MAX = 200;
const OPEN_PAGE = 20;

/** What can be fetched again by itself. */
type Thing = 'session' | 'open' | 'inbox' | 'pins';
type Pins = { pins: { turn: string }[] };

export class Talk {
  readonly info = signal<Session | null>(null);
  readonly inbox = signal<InboxItem[]>([]);
  readonly open = signal<Message[]>([]);
  /** The turns that every request has. */
  readonly pins = signal<ReadonlySet<string>>(new Set());
  /** Counts up when turns were added or taken away. */
  readonly changed = signal(0);
  readonly problem = signal<Problem | null>(null);
  readonly loaded = signal(false);
  /** What a screen reader should hear. */
  readonly spoken = signal('');

  /** Turns by their depth, from 1; what is not there was not fetched yet. */
  readonly turns = new Map<number, Turn>();
  /** The depth of the head. */
  count = 0;

  private seq = 0;
  private stop: (() => void) | null = null;
  private closed = false;
  private asked = new Map<string, Promise<void>>();
  private again = new Set<string>();
  private pages = new Set<number>();
  private line: Promise<Map<number, string>> | null = null;
  private frame = 0;
  private queued: Sent[] = [];
  private committing: Promise<void> = Promise.resolve();
  private settling = false;

  constructor(readonly id: string) {}

  async start(): Promise<void> {
    try {
      const info = await get<Session>(at(this.id));
      this.seq = info.seq;
      const [page, messages] = await Promise.all([this.fetchTurns(null), info.state === 'idle' ? [] : this.fetchOpen(), this.fetchInbox(info.waiting), this.fetchPins()]);
      if (this.closed) return;
      batch(() => {
        this.replaceTail(page);
        this.setInfo(info);
        this.open.value = messages;
        this.loaded.value = true;
      });
    } catch (error) {
      if (!(error instanceof Problem) || this.closed) return;
      this.problem.value = error;
      // A server that is being restarted is waited for.
      if (error.code === 'unreachable') setTimeout(() => this.closed || this.start(), 500);
      return;
    }
    this.problem.value = null;
    this.listen();
  }

  close(): void {
    this.closed = true;
    this.stop?.();
    cancelAnimationFrame(this.frame);
  }

  private listen(): void {
    let first = true;
    this.stop = follow(at(this.id, '/events'), {
      after: () => this.seq,
      event: (event) => this.heard(event),
      opened: () => {
        if (!first) void this.refresh('session', 'open', 'inbox', 'pins');
        first = false;
      },
      gone: (problem) => (this.problem.value = problem),
    });
  }

  /** Words come many times a second; they are shown once a frame. */
  private heard(event: Sent): void {
    if (event.id !== null) this.seq = Math.max(this.seq, event.id);
    this.queued.push(event);
    if (!this.frame) this.frame = requestAnimationFrame(() => this.digest());
  }

  private digest(): void {
    this.frame = 0;
    const events = this.queued;
    this.queued = [];
    batch(() => {
      let open = this.open.value;
      const run = this.info.value?.run;
      for (const event of events) {
        // Words do not say who speaks; the run does.
        if (event.name.endsWith('.delta')) Object.assign(event.data, { provider_id: run?.provider_id, model: run?.model });
        const folded = fold(open, event);
        open = folded.open;
        if (folded.next === 'fetch') void this.refresh('open');
        this.consequences(event);
      }
      this.open.value = open;
    });
  }

  private consequences({ name, data }: Sent): void {
    if (name === 'turn.committed') this.committing = this.committed(data.turn);
    else if (name === 'session.deleted') this.problem.value = new Problem('no_session', 404, 'This session was deleted.');
    else if (name === 'message.queued' || name === 'inbox.updated') void this.refresh('session', 'inbox');
    else if (name === 'run.started' || name === 'run.resumed') void this.refresh('session', 'open', 'inbox');
    else if (name === 'session.updated') void this.refresh('session', 'pins');
    else if (name === 'run.suspended') void this.refresh('session', 'open');
    else if (!name.endsWith('.delta') && !name.startsWith('tool_call') && name !== 'usage.updated' && name !== 'message.completed') void this.refresh('session');
  }

  /** Fetches again; asked for twice while it is under way, it is done once more after it. */
  async refresh(...what: Thing[]): Promise<void> {
    await Promise.all(
      what.map((thing) => {
        const running = this.asked.get(thing);
        if (running) {
          this.again.add(thing);
          return running;
        }
        const asked = this.fetch(thing).finally(() => {
          this.asked.delete(thing);
          if (this.again.delete(thing)) void this.refresh(thing);
        });
        this.asked.set(thing, asked);
        return asked;
      }),
    );
  }

  private async fetch(thing: Thing): Promise<void> {
    try {
      if (thing === 'inbox') await this.fetchInbox(1);
      else if (thing === 'pins') await this.fetchPins();
      else if (thing === 'session') this.setInfo(await get<Session>(at(this.id)));
      else {
        const fetched = await this.fetchOpen();
        // Where nothing is open any more, what is shown goes when the turn that it became is there: nothing flickers.
        if (!this.closed && fetched.length) this.open.value = merge(this.open.value, fetched).filter((message) => !this.has(message.id));
      }
    } catch (error) {
      if (isProblem(error, 'no_session')) this.problem.value = error as Problem;
    }
  }

  private setInfo(info: Session): void {
    if (this.closed) return;
    const asked = info.suspensions[0]?.id ?? info.pending_prompt?.id;
    const before = this.info.value?.suspensions[0]?.id ?? this.info.value?.pending_prompt?.id;
    if (asked && asked !== before) this.spoken.value = `Waiting for you: ${info.suspensions[0]?.question ?? info.pending_prompt?.text ?? 'the result of a tool'}`;
    this.info.value = info;
    noteSession(info);
    const head = this.turns.get(this.count)?.id ?? null;
    if (info.head !== head && this.loaded.value) void this.committing.then(() => this.catchUp());
    if (info.state !== 'running' && info.state !== 'suspended' && this.open.value.length) void this.settle();
  }

  /** The session is idle: what was open is a turn by now, or was taken back. */
  private async settle(): Promise<void> {
    if (this.settling) return;
    this.settling = true;
    await this.committing;
    if (this.open.value.length) await this.reload();
    const left = await this.fetchOpen().catch(() => null);
    if (left?.length === 0 && this.info.value?.state === 'idle' && !this.closed) this.open.value = [];
    this.settling = false;
  }

  /** The messages of the open turn, oldest first. */
  private async fetchOpen(): Promise<Message[]> {
    const found: Message[] = [];
    for (let cursor = ''; found.length < OPEN_MAX; ) {
      const page = await get<{ messages: Message[]; next_cursor: string | null }>(at(this.id, `/messages?order=desc&limit=${OPEN_PAGE}${cursor}`));
      const end = page.messages.findIndex((message) => message.turn !== null);
      found.push(...(end < 0 ? page.messages : page.messages.slice(0, end)));
      if (end >= 0 || !page.next_cursor) break;
      cursor = `&cursor=${page.next_cursor}`;
    }
    return found.reverse();
  }

  private async fetchInbox(waiting: number): Promise<void> {
    if (waiting === 0) return;
    const { inbox } = await get<{ inbox: InboxItem[] }>(at(this.id, '/inbox'));
    this.inbox.value = inbox;
  }

  private async fetchPins(): Promise<void> {
    this.setPins(await get<Pins>(at(this.id, '/pins')));
  }

  private setPins({ pins }: Pins): void {
    const turns = pins.map((pin) => pin.turn);
    if (turns.length !== this.pins.value.size || turns.some((turn) => !this.pins.value.has(turn))) this.pins.value = new Set(turns);
  }

  /** Pins a turn, or lets it go. */
  async pin(turn: string, wanted: boolean): Promise<void> {
    const path = at(this.id, `/pins/${turn}`);
    if (wanted) return this.setPins(await post<Pins>(path));
    await remove(path);
    await this.fetchPins();
  }

  private fetchTurns(cursor: string | null, limit = PAGE): Promise<Turn[]> {
    const from = cursor ? `&cursor=${cursor}` : '';
    return get<{ turns: Turn[] }>(at(this.id, `/turns?limit=${limit}${from}`)).then((page) => page.turns);
  }

  private async committed(id: string): Promise<void> {
    if (this.turns.get(this.count)?.id === id) return;
    try {
      const turn = await get<Turn>(`/turns/${id}`);
      if (this.closed || this.turns.get(turn.depth)?.id === id) return;
      if (turn.parent !== (this.turns.get(this.count)?.id ?? null)) return await this.reload();
      batch(() => {
        this.count = turn.depth;
        this.insert([turn]);
        const ids = new Set(turn.messages.map((message) => message.id));
        this.open.value = this.open.value.filter((message) => !ids.has(message.id));
      });
      this.spoken.value = outcome(turn);
    } catch {
      // The follower comes back and the session's head tells.
    }
  }

  private has(message: string): boolean {
    return this.turns.get(this.count)?.messages.some((known) => known.id === message) ?? false;
  }

  /** Fetches the newest turns, unless the head is known by now. */
  private async catchUp(): Promise<void> {
    if ((this.turns.get(this.count)?.id ?? null) !== (this.info.value?.head ?? null)) await this.reload();
  }

  /** The head moved otherwise than by a turn: rewound, imported, written elsewhere. */
  private async reload(): Promise<void> {
    try {
      const page = await this.fetchTurns(null);
      if (this.closed) return;
      batch(() => {
        this.replaceTail(page);
        this.open.value = this.open.value.filter((message) => !this.has(message.id));
      });
    } catch {
      // Tried again with the next event.
    }
  }

  /** A page from the head down. A turn that does not lead to the head is forgotten. */
  private replaceTail(page: Turn[]): void {
    const count = page[0]?.depth ?? 0;
    const oldest = page.at(-1);
    const joins = oldest !== undefined && this.turns.get(oldest.depth - 1)?.id === oldest.parent;
    for (const depth of [...this.turns.keys()]) if (depth > count || !joins) this.turns.delete(depth);
    if (this.count !== count || !joins) this.line = null;
    this.count = count;
    this.insert(page);
  }

  /** Turns that are known to lead to the head. */
  private insert(page: Turn[]): void {
    for (const turn of page) this.turns.set(turn.depth, turn);
    this.changed.value++;
  }

  /** Forgets the turns that are farthest from what is looked at; they are fetched again when they are. */
  private evict(depth: number): void {
    if (this.turns.size <= KEPT_MAX) return;
    const far = [...this.turns.keys()].filter((known) => known <= this.count - PAGE).sort((a, b) => Math.abs(b - depth) - Math.abs(a - depth));
    for (const known of far.slice(0, this.turns.size - KEPT_MAX / 2)) this.turns.delete(known);
    this.changed.value++;
  }

  /** Fetches what is missing around a depth, once. */
  async want(depth: number): Promise<void> {
    const top = Math.min(this.count, depth + PAGE / 2);
    const page = Math.ceil(top / (PAGE / 2));
    if (this.pages.has(page)) return;
    this.pages.add(page);
    try {
      let end = top;
      while (end > 0 && this.turns.has(end)) end--;
      if (end === 0) return;
      const cursor = this.turns.get(end + 1)?.parent ?? (await this.idAt(end));
      if (!cursor) return;
      const turns = await this.fetchTurns(cursor);
      await prepared(turns);
      if (this.closed || turns[0]?.depth !== end) return;
      this.insert(turns);
      this.evict(end);
    } catch {
      // Asked for again when it is next in sight.
    } finally {
      this.pages.delete(page);
    }
  }

  /** The turn at a depth of the line to the head, from the tree: for leaps. */
  private async idAt(depth: number): Promise<string | null> {
    this.line ??= get<{ turns: TreeTurn[] }>(at(this.id, '/tree')).then(({ turns }) => {
      const byId = new Map(turns.map((turn) => [turn.id, turn]));
      const line = new Map<number, string>();
      for (let turn = byId.get(this.turns.get(this.count)?.id ?? ''); turn; turn = byId.get(turn.parent ?? '')) line.set(turn.depth, turn.id);
      return line;
    });
    return (await this.line).get(depth) ?? null;
  }
}

/** Makes the rows of turns a few at a time, so that no frame waits for all of them. */
async function prepared(turns: Turn[]): Promise<void> {
  let began = performance.now();
  for (const turn of turns) {
    rowsOf(turn);
    if (performance.now() - began < SLICE_MS) continue;
    await new Promise((resolve) => setTimeout(resolve));
    began = performance.now();
  }
}

function outcome(turn: Turn): string {
  for (const message of turn.messages.toReversed()) {
    for (const part of message.content.toReversed()) {
      if (part.type === 'error') return `Error: ${part.message}`;
      if (part.type === 'text' && message.role === 'assistant') return `Answer: ${part.text.slice(0, 300)}`;
    }
  }
  return 'The turn has ended.';
}

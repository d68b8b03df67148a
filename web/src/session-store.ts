// The state of the open session: loaded once, then kept current by its feed. Most events only name
// what changed; the new state is fetched. A missed or repeated event therefore does no harm.
import { batch, signal } from '@preact/signals';
import { ApiError, get, hasErrorCode, post, remove, sessionPath } from './api';
import type { FeedEvent, InboxItem, Message, Session, TreeTurn, Turn } from './api-types';
import { followEvents } from './event-stream';
import { applyEvent, mergeFetched } from './open-turn';
import { turnRows } from './row-model';
import { updateSession } from './session-list-store';

/** Number of turns per request. */
const PAGE_SIZE = 24;
/** Above this number of loaded turns, turns far from the viewport are dropped until half remain. */
const LOADED_TURNS_MAX = 600;
/** Longest time for building rows before other work gets its turn. */
const SLICE_MS = 6;
/** Limit for the messages of the open turn, and number of messages per request. */
const OPEN_MESSAGES_MAX = 200;
const OPEN_PAGE_SIZE = 20;
const RETRY_MS = 500;

/** Parts of the state that can be fetched separately. */
type Resource = 'session' | 'open' | 'inbox' | 'pins';
type Pins = { pins: { turn: string }[] };

export class SessionStore {
  readonly session = signal<Session | null>(null);
  readonly inbox = signal<InboxItem[]>([]);
  /** The messages of the open turn. */
  readonly openMessages = signal<Message[]>([]);
  readonly pinnedTurns = signal<ReadonlySet<string>>(new Set());
  /** Incremented when `turns` or `turnCount` changes. */
  readonly turnsVersion = signal(0);
  readonly error = signal<ApiError | null>(null);
  readonly isLoaded = signal(false);
  /** Read aloud by screen readers. */
  readonly announcement = signal('');

  /** The loaded turns by depth (1 is the first turn). */
  readonly turns = new Map<number, Turn>();
  /** Number of turns, which is also the depth of the head. */
  turnCount = 0;

  /** Id of the last durable event. */
  #lastEventId = 0;
  #stopFollowing: (() => void) | null = null;
  #isClosed = false;
  #activeFetches = new Map<Resource, Promise<void>>();
  #fetchAgain = new Set<Resource>();
  #activePages = new Set<number>();
  /** Turn ids by depth on the path to the head, for turns that are far from any loaded turn. */
  #pathToHead: Promise<Map<number, string>> | null = null;
  #frame = 0;
  #pendingEvents: FeedEvent[] = [];
  /** The fetch of the most recently stored turn. */
  #turnFetch: Promise<void> = Promise.resolve();
  #isSettling = false;

  constructor(readonly id: string) {}

  async start(): Promise<void> {
    try {
      const session = await get<Session>(sessionPath(this.id));
      this.#lastEventId = session.seq;
      const [page, messages] = await Promise.all([
        this.#fetchTurns(null),
        session.state === 'idle' ? [] : this.#fetchOpenMessages(),
        session.waiting > 0 ? this.#fetchInbox() : null,
        this.#fetchPins(),
      ]);
      if (this.#isClosed) return;
      batch(() => {
        this.#replaceNewestTurns(page);
        this.#setSession(session);
        this.openMessages.value = messages;
        this.isLoaded.value = true;
      });
    } catch (error) {
      if (!(error instanceof ApiError) || this.#isClosed) return;
      this.error.value = error;
      // The server may be restarting.
      if (error.code === 'unreachable') setTimeout(() => this.#isClosed || this.start(), RETRY_MS);
      return;
    }
    this.error.value = null;
    this.#follow();
  }

  close(): void {
    this.#isClosed = true;
    this.#stopFollowing?.();
    cancelAnimationFrame(this.#frame);
  }

  #follow(): void {
    let isFirst = true;
    this.#stopFollowing = followEvents(sessionPath(this.id, '/events'), {
      lastEventId: () => this.#lastEventId,
      onEvent: (event) => this.#queueEvent(event),
      onOpen: () => {
        if (!isFirst) void this.refresh('session', 'open', 'inbox', 'pins');
        isFirst = false;
      },
      onEnd: (error) => (this.error.value = error),
    });
  }

  /** Deltas arrive many times per second. All events of one frame are applied together. */
  #queueEvent(event: FeedEvent): void {
    if (event.id !== null) this.#lastEventId = Math.max(this.#lastEventId, event.id);
    this.#pendingEvents.push(event);
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#applyEvents());
  }

  #applyEvents(): void {
    this.#frame = 0;
    const events = this.#pendingEvents;
    this.#pendingEvents = [];
    batch(() => {
      let messages = this.openMessages.value;
      const run = this.session.value?.run;
      for (const event of events) {
        // A delta does not name its provider; the run does.
        if (event.name.endsWith('.delta')) {
          Object.assign(event.data, { provider_id: run?.provider_id, model: run?.model });
        }
        const applied = applyEvent(messages, event);
        messages = applied.messages;
        if (applied.needsFetch) void this.refresh('open');
        this.#fetchChanges(event);
      }
      this.openMessages.value = messages;
    });
  }

  /** Fetches what the event changed beyond the open messages. */
  #fetchChanges({ name, data }: FeedEvent): void {
    switch (name) {
      case 'turn.committed':
        this.#turnFetch = this.#addStoredTurn(data.turn);
        return;
      case 'session.deleted':
        this.error.value = new ApiError('no_session', 404, 'This session was deleted.');
        return;
      case 'message.queued':
      case 'inbox.updated':
        void this.refresh('session', 'inbox');
        return;
      case 'run.started':
      case 'run.resumed':
        void this.refresh('session', 'open', 'inbox');
        return;
      case 'run.suspended':
        void this.refresh('session', 'open');
        return;
      case 'session.updated':
        void this.refresh('session', 'pins');
        return;
      case 'usage.updated':
      case 'message.completed':
        return;
    }
    if (!name.endsWith('.delta') && !name.startsWith('tool_call')) void this.refresh('session');
  }

  /** Fetches resources again. A request during a running fetch causes one more fetch after it. */
  async refresh(...resources: Resource[]): Promise<void> {
    await Promise.all(
      resources.map((resource) => {
        const active = this.#activeFetches.get(resource);
        if (active) {
          this.#fetchAgain.add(resource);
          return active;
        }
        const fetch = this.#fetchResource(resource).finally(() => {
          this.#activeFetches.delete(resource);
          if (this.#fetchAgain.delete(resource)) void this.refresh(resource);
        });
        this.#activeFetches.set(resource, fetch);
        return fetch;
      }),
    );
  }

  async #fetchResource(resource: Resource): Promise<void> {
    try {
      if (resource === 'inbox') await this.#fetchInbox();
      else if (resource === 'pins') await this.#fetchPins();
      else if (resource === 'session') this.#setSession(await get<Session>(sessionPath(this.id)));
      else await this.#refreshOpenMessages();
    } catch (error) {
      if (hasErrorCode(error, 'no_session')) this.error.value = error as ApiError;
    }
  }

  async #refreshOpenMessages(): Promise<void> {
    const fetched = await this.#fetchOpenMessages();
    // An empty result means that the turn was stored. Its messages stay visible until the stored
    // turn is loaded, so that nothing flickers.
    if (this.#isClosed || fetched.length === 0) return;
    const merged = mergeFetched(this.openMessages.value, fetched);
    this.openMessages.value = merged.filter((message) => !this.#headContains(message.id));
  }

  #setSession(session: Session): void {
    if (this.#isClosed) return;
    this.#announceRequest(session);
    this.session.value = session;
    updateSession(session);
    if (session.head !== this.#loadedHead() && this.isLoaded.value) {
      void this.#turnFetch.then(() => this.#loadMissingHead());
    }
    if (session.state === 'idle' && this.openMessages.value.length) void this.#settleOpenTurn();
  }

  #announceRequest(session: Session): void {
    const requestId = (of: Session | null) => of?.suspensions[0]?.id ?? of?.pending_prompt?.id;
    const id = requestId(session);
    if (!id || id === requestId(this.session.value)) return;
    const text = session.suspensions[0]?.question ?? session.pending_prompt?.text;
    this.announcement.value = `Waiting for you: ${text ?? 'a tool result'}`;
  }

  /** Clears the open messages of an idle session: their turn was stored, or they were discarded. */
  async #settleOpenTurn(): Promise<void> {
    if (this.#isSettling) return;
    this.#isSettling = true;
    await this.#turnFetch;
    if (this.openMessages.value.length) await this.#reloadNewestTurns();
    const remaining = await this.#fetchOpenMessages().catch(() => null);
    if (remaining?.length === 0 && this.session.value?.state === 'idle' && !this.#isClosed) {
      this.openMessages.value = [];
    }
    this.#isSettling = false;
  }

  /** The messages of the open turn, oldest first. */
  async #fetchOpenMessages(): Promise<Message[]> {
    const found: Message[] = [];
    for (let cursor = ''; found.length < OPEN_MESSAGES_MAX;) {
      const path = `/messages?order=desc&limit=${OPEN_PAGE_SIZE}${cursor}`;
      const page = await get<{ messages: Message[]; next_cursor: string | null }>(
        sessionPath(this.id, path),
      );
      const end = page.messages.findIndex((message) => message.turn !== null);
      found.push(...(end < 0 ? page.messages : page.messages.slice(0, end)));
      if (end >= 0 || !page.next_cursor) break;
      cursor = `&cursor=${page.next_cursor}`;
    }
    return found.reverse();
  }

  async #fetchInbox(): Promise<void> {
    const { inbox } = await get<{ inbox: InboxItem[] }>(sessionPath(this.id, '/inbox'));
    this.inbox.value = inbox;
  }

  async #fetchPins(): Promise<void> {
    this.#setPins(await get<Pins>(sessionPath(this.id, '/pins')));
  }

  /** Replaces the set only if it differs, because every row depends on it. */
  #setPins({ pins }: Pins): void {
    const turns = pins.map((pin) => pin.turn);
    const before = this.pinnedTurns.value;
    if (turns.length !== before.size || turns.some((turn) => !before.has(turn))) {
      this.pinnedTurns.value = new Set(turns);
    }
  }

  async setPinned(turn: string, pinned: boolean): Promise<void> {
    const path = sessionPath(this.id, `/pins/${turn}`);
    if (pinned) return this.#setPins(await post<Pins>(path));
    await remove(path);
    await this.#fetchPins();
  }

  /** One page, newest first, starting at `cursor` or at the head. */
  async #fetchTurns(cursor: string | null): Promise<Turn[]> {
    const from = cursor ? `&cursor=${cursor}` : '';
    const path = sessionPath(this.id, `/turns?limit=${PAGE_SIZE}${from}`);
    return (await get<{ turns: Turn[] }>(path)).turns;
  }

  async #addStoredTurn(id: string): Promise<void> {
    if (this.#loadedHead() === id) return;
    try {
      const turn = await get<Turn>(`/turns/${id}`);
      if (this.#isClosed || this.turns.get(turn.depth)?.id === id) return;
      if (turn.parent !== this.#loadedHead()) return await this.#reloadNewestTurns();
      batch(() => {
        this.turnCount = turn.depth;
        this.#addTurns([turn]);
        const ids = new Set(turn.messages.map((message) => message.id));
        this.openMessages.value = this.openMessages.value.filter((message) => !ids.has(message.id));
      });
      this.announcement.value = describeOutcome(turn);
    } catch {
      // The session is fetched after the reconnect, and its head shows that a turn is missing.
    }
  }

  #loadedHead(): string | null {
    return this.turns.get(this.turnCount)?.id ?? null;
  }

  #headContains(messageId: string): boolean {
    const head = this.turns.get(this.turnCount);
    return head?.messages.some((message) => message.id === messageId) ?? false;
  }

  async #loadMissingHead(): Promise<void> {
    if (this.#loadedHead() !== (this.session.value?.head ?? null)) await this.#reloadNewestTurns();
  }

  /** Needed when the head did not move by one new turn: after a rewind or an import. */
  async #reloadNewestTurns(): Promise<void> {
    try {
      const page = await this.#fetchTurns(null);
      if (this.#isClosed) return;
      batch(() => {
        this.#replaceNewestTurns(page);
        this.openMessages.value = this.openMessages.value.filter(
          (message) => !this.#headContains(message.id),
        );
      });
    } catch {
      // The next event causes another attempt.
    }
  }

  /** Takes a page that starts at the head, and drops loaded turns that are not its ancestors. */
  #replaceNewestTurns(page: Turn[]): void {
    const turnCount = page[0]?.depth ?? 0;
    const oldest = page.at(-1);
    const isConnected =
      oldest !== undefined && this.turns.get(oldest.depth - 1)?.id === oldest.parent;
    for (const depth of [...this.turns.keys()]) {
      if (depth > turnCount || !isConnected) this.turns.delete(depth);
    }
    if (this.turnCount !== turnCount || !isConnected) this.#pathToHead = null;
    this.turnCount = turnCount;
    this.#addTurns(page);
  }

  /** The turns must be ancestors of the head, or the head. */
  #addTurns(turns: Turn[]): void {
    for (const turn of turns) this.turns.set(turn.depth, turn);
    this.turnsVersion.value++;
  }

  /** Drops the loaded turns that are farthest from `depth`, but not the newest page. */
  #evictTurns(depth: number): void {
    if (this.turns.size <= LOADED_TURNS_MAX) return;
    const farthestFirst = [...this.turns.keys()]
      .filter((other) => other <= this.turnCount - PAGE_SIZE)
      .sort((a, b) => Math.abs(b - depth) - Math.abs(a - depth));
    const excess = this.turns.size - LOADED_TURNS_MAX / 2;
    for (const other of farthestFirst.slice(0, excess)) this.turns.delete(other);
    this.turnsVersion.value++;
  }

  /** Loads the missing turns around a depth. Repeated calls share one request. */
  async loadAround(depth: number): Promise<void> {
    const top = Math.min(this.turnCount, depth + PAGE_SIZE / 2);
    const page = Math.ceil(top / (PAGE_SIZE / 2));
    if (this.#activePages.has(page)) return;
    this.#activePages.add(page);
    try {
      let missing = top;
      while (missing > 0 && this.turns.has(missing)) missing--;
      if (missing === 0) return;
      const cursor = this.turns.get(missing + 1)?.parent ?? (await this.#turnIdAt(missing));
      if (!cursor) return;
      const turns = await this.#fetchTurns(cursor);
      await buildRows(turns);
      if (this.#isClosed || turns[0]?.depth !== missing) return;
      this.#addTurns(turns);
      this.#evictTurns(missing);
    } catch {
      // The list asks again when the gap is next near the viewport.
    } finally {
      this.#activePages.delete(page);
    }
  }

  /** Whether a turn is on the path to the head. If that cannot be found out, it is taken to be. */
  async isOnPath({ id, depth }: Turn): Promise<boolean> {
    if (depth > this.turnCount) return false;
    const known = this.turns.get(depth)?.id ?? (await this.#turnIdAt(depth));
    return known === null || known === id;
  }

  async #turnIdAt(depth: number): Promise<string | null> {
    this.#pathToHead ??= this.#fetchPathToHead();
    return (await this.#pathToHead).get(depth) ?? null;
  }

  async #fetchPathToHead(): Promise<Map<number, string>> {
    const { turns } = await get<{ turns: TreeTurn[] }>(sessionPath(this.id, '/tree'));
    const byId = new Map(turns.map((turn) => [turn.id, turn]));
    const path = new Map<number, string>();
    let turn = byId.get(this.#loadedHead() ?? '');
    for (; turn; turn = byId.get(turn.parent ?? '')) path.set(turn.depth, turn.id);
    return path;
  }
}

/** Builds the rows of turns in slices, so that no frame is blocked for long. */
async function buildRows(turns: Turn[]): Promise<void> {
  let sliceStart = performance.now();
  for (const turn of turns) {
    turnRows(turn);
    if (performance.now() - sliceStart < SLICE_MS) continue;
    await new Promise((resolve) => setTimeout(resolve));
    sliceStart = performance.now();
  }
}

function describeOutcome(turn: Turn): string {
  for (const message of turn.messages.toReversed()) {
    for (const part of message.content.toReversed()) {
      if (part.type === 'error') return `Error: ${part.message}`;
      if (part.type === 'text' && message.role !== 'user') {
        return `${message.role === 'system' ? '' : 'Answer: '}${part.text.slice(0, 300)}`;
      }
    }
  }
  return 'The turn has ended.';
}

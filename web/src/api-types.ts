// Types of the API objects, limited to the fields that the page reads.

export type Part =
  | { type: 'text'; text: string }
  | { type: 'thought'; text: string }
  | { type: 'tool_call'; id: string; name: string; params: unknown; status: string }
  | {
      type: 'tool_result';
      tool_call_id: string;
      content: string;
      is_error: boolean;
      blob: string | null;
      bytes: number | null;
    }
  | { type: 'error'; code: string; message: string; provider_id: string | null }
  | { type: 'plan'; entries: unknown }
  | { type: 'image'; media_type: string; blob: string }
  | { type: 'summary'; text: string };

export interface Message {
  id: string;
  /** Null while the turn is open. */
  turn: string | null;
  role: 'user' | 'assistant' | 'system' | 'tool';
  source: string | null;
  content: Part[];
  provider_id: string | null;
  model: string | null;
  created_at: string;
  /** When a message that waited in the inbox was given to the agent; absent or null for others. */
  delivered_at?: string | null;
}

export interface Usage {
  input_tokens: number | null;
  output_tokens: number | null;
  cached_tokens: number | null;
  cost: string | null;
  scope: string;
}

export interface Turn {
  id: string;
  parent: string | null;
  type: 'normal' | 'compaction';
  status: 'completed' | 'failed' | 'interrupted' | 'cancelled';
  /** 1 for the first turn of a session. */
  depth: number;
  provider_id: string | null;
  model: string | null;
  usage: Usage | null;
  started_at: string;
  ended_at: string;
  messages: Message[];
  compaction: Compaction | null;
  pinned: boolean;
}

/** Present on turns of type `compaction`. */
export interface Compaction {
  summary: string;
  summarized_through_turn_id: string | null;
  first_kept_turn_id: string | null;
  turns_summarized: number;
  compaction_type: string;
  model: string | null;
  provider: string | null;
  tokens_before: number;
  tokens_after: number;
  trigger: string;
  by: string;
  metadata_json: { focus?: string };
}

export interface TaskState {
  name: string;
  question?: string;
  user_message?: string;
  summary?: string;
  reason?: string;
}

export interface Task {
  id: string;
  session: string;
  description: string;
  state: TaskState;
  steps: number;
  progress: string;
  started_at: string;
  last_activity_at: string;
  ended_at: string | null;
  commit: string | null;
}

export interface Run {
  id: string;
  phase: string;
  provider_id: string;
  model: string | null;
  started_at: string;
}

export interface Suspension {
  id: string;
  kind: 'tool_result' | 'permission' | 'question' | 'event';
  tool_calls: { id: string; name: string; params: unknown }[];
  options: { id: string; label: string; kind: string | null }[];
  question: string | null;
  created_at: string;
}

export interface Prompt {
  id: string;
  kind: string;
  text: string;
  choices: string[];
  opened_at: string;
}

/** How a session came to receive messages from channels; all null for other sessions. */
export interface Routing {
  /** Id of the entity whose direct messages the session receives. */
  entity: string | null;
  /** The policy that created the session. */
  policy: string | null;
  /** Label of the session that receives the messages instead of this one. */
  merged_into: string | null;
}

export interface Session {
  id: string;
  label: string;
  title: string | null;
  project: string;
  working_dir: string | null;
  status: 'active' | 'suspended' | 'archived' | 'error';
  state: 'idle' | 'running' | 'suspended';
  head: string | null;
  turn_count: number;
  persona: string | null;
  provider_id: string | null;
  model: string | null;
  origin: string;
  /** The session that started this one; of a fork, its origin and the turn where it starts. */
  parent: { session: string; turn: string | null } | null;
  task: Task | null;
  run: Run | null;
  suspensions: Suspension[];
  pending_prompt: Prompt | null;
  delivery: string;
  routing: Routing;
  track_tasks: boolean;
  /** Number of messages in the inbox. */
  waiting: number;
  /** Number of the latest event. */
  seq: number;
  created_at: string;
  last_activity_at: string;
}

/** A person, agent or service that sends messages. */
export interface Entity {
  id: string;
  name: string;
  kind: string;
  relationship: string | null;
  owner: boolean;
  merged_into: string | null;
  identities: Identity[];
}

/** An address of an entity on a channel. */
export interface Identity {
  channel: string;
  account_id: string | null;
  sender_id: string;
  verified: boolean;
}

export interface Alias {
  alias: string;
  reason: string;
}

/** A delivery to a channel. */
export interface Delivery {
  id: string;
  session: string;
  label: string;
  kind: string;
  status: 'pending' | 'delivered' | 'dead';
  to: {
    channel: string;
    account_id: string | null;
    peer_kind: string;
    peer_id: string;
    thread_id: string | null;
  };
  text: string;
  attempts: number;
  /** Null unless it is pending. */
  next_attempt_at: string | null;
  last_error: string | null;
  created_at: string;
  delivered_at: string | null;
}

export interface InboxItem {
  id: string;
  position: number | null;
  mode: string;
  source: string;
  text: string;
  state: string;
  enqueued_at: string;
}

/** A slash command, named without the slash. */
export interface Command {
  name?: string;
  description?: string;
}

export interface Provider {
  id: string;
  kind: string;
  available: boolean;
  reason: string | null;
  models: string[] | null;
  model: string | null;
  /** In tokens; 0 if it is not known. */
  context_window: number;
  commands: Command[] | null;
  can: { steer: boolean; images: boolean; tools: boolean; compact: boolean };
}

export interface TreeTurn {
  id: string;
  parent: string | null;
  depth: number;
  heads: string[];
}

export interface Commit {
  id: string;
  session: string | null;
  task: string;
  description: string;
  message: string;
  commit_type: { name: string; idle_duration_secs?: number; new_task_summary?: string } | string;
  steps: { count?: number } | null;
  turns: { count?: number } | null;
  files: unknown;
  created_at: string;
}

export interface SearchHit {
  kind: 'turn' | 'task';
  id: string;
  session: string | null;
  session_label: string | null;
  session_title: string | null;
  turn: string | null;
  commit: string | null;
  role: string | null;
  outcome: string | null;
  at: string;
  snippet: string;
  /** The snippet in pieces; those that match are marked. */
  segments: { text: string; match: boolean }[];
}

export interface SearchPage {
  hits: SearchHit[];
  next_cursor: string | null;
  /** Queries with corrected words, if nothing was found. */
  suggestions: string[];
}

/** A server-sent event. Durable events have an id; live deltas have none. */
export interface FeedEvent {
  id: number | null;
  name: string;
  data: Record<string, any>;
}

export type QueueMode = 'interrupt' | 'steer' | 'steer-backlog' | 'followup' | 'queue' | 'collect';

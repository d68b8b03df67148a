-- The first schema. Keys are integers; rows of immutable objects are only appended. A hash is a
-- plain column here; search.db indexes it after the transaction. The columns `seg`, `off` and `len`
-- locate a body: segment, offset and stored length in bytes. `packing` is 0 for uncompressed and 1
-- for zstd; `size` is the uncompressed length in bytes. Times are milliseconds since the Unix
-- epoch. A CHECK compares with OR: for an IN of three values or more, SQLite builds a temporary table with each
-- row that is written.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- Chunks of 4056 bytes. Those of segment 0 are numbered from 0. All other segments are files; in a
-- backup they are chunks, numbered from `seg << 40`.
CREATE TABLE bodies (id INTEGER PRIMARY KEY, data BLOB NOT NULL);

-- Ranges of segment files that are zeroed when no reader can use them any more.
CREATE TABLE erasures (id INTEGER PRIMARY KEY, seg INTEGER NOT NULL, off INTEGER NOT NULL, len INTEGER NOT NULL, erased_at INTEGER NOT NULL);

-- Rows can be deleted, but their numbers are never reused: the watermark of an index must not cover
-- a row that was not indexed.
CREATE TABLE blobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL, version INTEGER NOT NULL,
    seg INTEGER, off INTEGER, len INTEGER, packing INTEGER, size INTEGER NOT NULL, created_at INTEGER NOT NULL);

-- Conversations -----------------------------------------------------------------------------------

-- The number of a row is never used again: a deleted one is in `deleted_sessions`.
CREATE TABLE sessions (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL UNIQUE,
    title TEXT, project TEXT NOT NULL, working_dir TEXT,
    status TEXT NOT NULL CHECK (status = 'active' OR status = 'suspended' OR status = 'archived' OR status = 'error'),
    state TEXT NOT NULL CHECK (state = 'idle' OR state = 'running' OR state = 'suspended'),
    head INTEGER REFERENCES turns(id), turn_count INTEGER NOT NULL DEFAULT 0, last_move INTEGER, last_run TEXT,
    -- The turn that a fork or an import started from. All later turns of its history were made in the session.
    base INTEGER REFERENCES turns(id),
    persona TEXT, provider_id TEXT, model TEXT, origin TEXT NOT NULL, options TEXT,
    routing_key TEXT, entity TEXT REFERENCES entities(id), policy TEXT, merged_into TEXT, tool_rights TEXT, envelope TEXT,
    delivery TEXT NOT NULL DEFAULT 'open' CHECK (delivery = 'open' OR delivery = 'hold' OR delivery = 'refuse'), track_tasks INTEGER NOT NULL DEFAULT 0,
    parent_session_label TEXT, parent_turn_id TEXT, spawn_tool_call_id TEXT,
    unreported INTEGER NOT NULL DEFAULT 0, task INTEGER REFERENCES tasks(row), pending_prompt TEXT,
    owner TEXT, fence INTEGER NOT NULL DEFAULT 0,
    seq INTEGER NOT NULL DEFAULT 0, last_event INTEGER,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, last_activity_at INTEGER NOT NULL);
-- Short ids begin with the random half of an id.
CREATE INDEX sessions_by_short_id ON sessions(substr(id, 11));
CREATE INDEX sessions_by_base ON sessions(base) WHERE base IS NOT NULL;
CREATE INDEX sessions_by_activity ON sessions(last_activity_at);
CREATE INDEX sessions_by_dir ON sessions(working_dir) WHERE working_dir IS NOT NULL;
CREATE INDEX sessions_by_parent ON sessions(parent_session_label) WHERE parent_session_label IS NOT NULL;
CREATE INDEX sessions_unreported ON sessions(unreported) WHERE unreported <> 0;
CREATE INDEX sessions_hidden ON sessions(status) WHERE status IN ('archived', 'error');
CREATE INDEX sessions_by_entity ON sessions(entity) WHERE entity IS NOT NULL;
CREATE INDEX sessions_by_routing_key ON sessions(routing_key) WHERE routing_key IS NOT NULL;
CREATE INDEX sessions_owned ON sessions(owner) WHERE owner IS NOT NULL;

-- Deleted sessions, for the tasks and commits that outlive them; and turns that may be purged after
-- them.
CREATE TABLE deleted_sessions (row INTEGER PRIMARY KEY, id TEXT NOT NULL, label TEXT NOT NULL, deleted_at INTEGER NOT NULL);
CREATE TABLE purging (turn INTEGER PRIMARY KEY);

CREATE TABLE session_aliases (
    alias TEXT PRIMARY KEY, session_label TEXT NOT NULL REFERENCES sessions(label),
    created_at INTEGER NOT NULL,
    reason TEXT CHECK (reason = 'identity_promotion' OR reason = 'identity_merge' OR reason = 'manual')) WITHOUT ROWID;
CREATE INDEX idx_session_aliases_target ON session_aliases(session_label);

-- `skip` is an ancestor further back than `parent`: with both, an ancestor at any depth is found in few steps.
CREATE TABLE turns (
    id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL, version INTEGER NOT NULL,
    parent INTEGER REFERENCES turns(id), skip INTEGER, depth INTEGER NOT NULL, session INTEGER NOT NULL,
    header TEXT NOT NULL, blobs TEXT,
    body_version INTEGER NOT NULL, seg INTEGER, off INTEGER, len INTEGER, packing INTEGER, size INTEGER NOT NULL);
CREATE INDEX turns_by_parent ON turns(parent);

-- Sums of `turns` by day in UTC, session, provider and model, written with each turn. An absent provider or model is ''. A
-- column `…_turns` counts the turns that reported the value; costs are billionths of a dollar (ctx-core, usage.rs).
CREATE TABLE usage_totals (
    day INTEGER NOT NULL, session INTEGER NOT NULL, provider_id TEXT NOT NULL, model TEXT NOT NULL,
    turns INTEGER NOT NULL, answered INTEGER NOT NULL, messages INTEGER NOT NULL, tool_calls INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL, input_tokens INTEGER NOT NULL, input_turns INTEGER NOT NULL, fresh_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL, cached_turns INTEGER NOT NULL, output_tokens INTEGER NOT NULL, output_turns INTEGER NOT NULL,
    cost INTEGER NOT NULL, cost_turns INTEGER NOT NULL, unbilled_turns INTEGER NOT NULL, unbilled_fresh INTEGER NOT NULL,
    unbilled_cached INTEGER NOT NULL, unbilled_output INTEGER NOT NULL,
    PRIMARY KEY (day, session, provider_id, model)) WITHOUT ROWID;
CREATE INDEX usage_by_session ON usage_totals(session);

-- Calls of tools by day in UTC, session and tool, written with each turn. `turns` counts the turns that called the tool.
CREATE TABLE tool_totals (
    day INTEGER NOT NULL, session INTEGER NOT NULL, tool TEXT NOT NULL,
    turns INTEGER NOT NULL, calls INTEGER NOT NULL, failed INTEGER NOT NULL,
    PRIMARY KEY (day, session, tool)) WITHOUT ROWID;
CREATE INDEX tools_by_session ON tool_totals(session);

-- Deleted turns, for the search index: it is filled by other transactions.
CREATE TABLE forgotten (id INTEGER PRIMARY KEY AUTOINCREMENT, turn INTEGER NOT NULL);
CREATE TRIGGER forget_turn AFTER DELETE ON turns BEGIN INSERT INTO forgotten(turn) VALUES (OLD.id); END;

-- The moves of a session's head, linked from `sessions.last_move` by `prev`: no index is written with each turn.
CREATE TABLE session_history (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, prev INTEGER, turn INTEGER, changed_at INTEGER NOT NULL);

CREATE TABLE compactions (
    turn_id INTEGER PRIMARY KEY REFERENCES turns(id), summary TEXT NOT NULL,
    summarized_through_turn_id TEXT, first_kept_turn_id TEXT, turns_summarized INTEGER NOT NULL,
    compaction_type TEXT NOT NULL, model TEXT, provider TEXT,
    tokens_before INTEGER, tokens_after INTEGER, summary_tokens INTEGER,
    summarization_input_tokens INTEGER, summarization_output_tokens INTEGER,
    duration_ms INTEGER, "trigger" TEXT NOT NULL, metadata_json TEXT);

-- Turns that every request contains unabridged. Each is the head of its session or an ancestor of
-- it.
CREATE TABLE pins (
    session INTEGER NOT NULL, turn INTEGER NOT NULL REFERENCES turns(id), tokens INTEGER NOT NULL, pinned_at INTEGER NOT NULL,
    PRIMARY KEY (session, turn)) WITHOUT ROWID;

-- Tasks -------------------------------------------------------------------------------------------

CREATE TABLE tasks (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, session INTEGER NOT NULL,
    description TEXT NOT NULL, state TEXT NOT NULL, progress TEXT NOT NULL,
    steps INTEGER NOT NULL, head INTEGER NOT NULL, base BLOB, base_turn BLOB,
    started_at INTEGER NOT NULL, last_activity_at INTEGER NOT NULL, ended_at INTEGER, "commit" BLOB);
CREATE INDEX tasks_by_session ON tasks(session);
CREATE INDEX tasks_by_short_id ON tasks(substr(id, 11));

CREATE TABLE steps (
    id INTEGER PRIMARY KEY, hash BLOB NOT NULL, version INTEGER NOT NULL,
    task INTEGER NOT NULL, seq INTEGER NOT NULL, parent INTEGER,
    kind TEXT NOT NULL, files TEXT, notes INTEGER NOT NULL, at INTEGER NOT NULL, blobs TEXT,
    seg INTEGER NOT NULL, off INTEGER NOT NULL, len INTEGER NOT NULL, packing INTEGER NOT NULL, size INTEGER NOT NULL,
    UNIQUE (task, seq));
CREATE INDEX steps_with_notes ON steps(at) WHERE notes > 0;

CREATE TABLE commits (
    id INTEGER PRIMARY KEY, hash BLOB NOT NULL, version INTEGER NOT NULL,
    task INTEGER NOT NULL UNIQUE, project TEXT NOT NULL, commit_type TEXT NOT NULL, created_at INTEGER NOT NULL,
    seg INTEGER NOT NULL, off INTEGER NOT NULL, len INTEGER NOT NULL, packing INTEGER NOT NULL, size INTEGER NOT NULL);

-- HEAD:<project> is the newest commit, STAGE:<session> the newest step of the open task. Targets
-- are hex.
CREATE TABLE refs (name TEXT PRIMARY KEY, target TEXT NOT NULL, moved_at INTEGER NOT NULL) WITHOUT ROWID;

-- Live state --------------------------------------------------------------------------------------

CREATE TABLE nodes (id TEXT PRIMARY KEY, epoch INTEGER NOT NULL, host TEXT, expires_at INTEGER NOT NULL) WITHOUT ROWID;

-- One page is written for each message.
CREATE TABLE inbox (
    session INTEGER NOT NULL, message_id TEXT NOT NULL, position INTEGER NOT NULL,
    mode TEXT NOT NULL, source TEXT NOT NULL, content TEXT NOT NULL, intent TEXT, overrides TEXT,
    state TEXT NOT NULL CHECK (state = 'waiting' OR state = 'taken' OR state = 'steering' OR state = 'held' OR state = 'dropped'), enqueued_at INTEGER NOT NULL,
    PRIMARY KEY (session, message_id)) WITHOUT ROWID;
CREATE INDEX inbox_dropped ON inbox(enqueued_at) WHERE state = 'dropped';

-- If a run of a session is open, it is the newest one. The runs of a session are linked from `sessions.last_run`
-- by `prev`: no index is written with each run.
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, session INTEGER NOT NULL, prev TEXT, fence INTEGER NOT NULL,
    phase TEXT NOT NULL, provider_id TEXT NOT NULL, model TEXT, can_steer INTEGER NOT NULL, cancel TEXT, tools TEXT,
    task_effect TEXT NOT NULL, deferred TEXT, turn_started_at INTEGER NOT NULL, started_at INTEGER NOT NULL, ended_at INTEGER,
    outcome TEXT, recoveries INTEGER NOT NULL DEFAULT 0, tool_rights TEXT, replies TEXT) WITHOUT ROWID;

-- Entries of the open turn of a session, in order. One page is written for each addition.
CREATE TABLE drafts (
    session INTEGER NOT NULL, id INTEGER NOT NULL, entry TEXT NOT NULL, PRIMARY KEY (session, id)) WITHOUT ROWID;

-- `run` is the run that was suspended: its answers go to the run that continues it, and to no later one.
CREATE TABLE suspensions (
    id TEXT PRIMARY KEY, session INTEGER NOT NULL, run TEXT NOT NULL, awaited TEXT NOT NULL,
    created_at INTEGER NOT NULL, consumed_at INTEGER, answer TEXT) WITHOUT ROWID;
CREATE INDEX suspensions_by_session ON suspensions(session);

-- One row per transaction and session. `events` is one JSON document; a turn that was stored in the
-- same transaction is given by its row. `seq` is the number of the last event in the row, `prev`
-- the previous row of the session: a feed is read backwards from `sessions.last_event`, so it needs
-- no index.
CREATE TABLE events (
    id INTEGER PRIMARY KEY, session INTEGER NOT NULL, prev INTEGER, seq INTEGER NOT NULL, at INTEGER NOT NULL, events TEXT NOT NULL);

CREATE TABLE agent_sessions (
    session INTEGER NOT NULL, provider_id TEXT NOT NULL, host TEXT NOT NULL, working_dir TEXT,
    agent_session_id TEXT NOT NULL, synced_turn TEXT, clean INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, provider_id, host)) WITHOUT ROWID;
-- Two sessions never share a conversation of an agent.
CREATE UNIQUE INDEX agent_sessions_once ON agent_sessions(provider_id, host, agent_session_id);

CREATE TABLE idempotency (
    scope TEXT NOT NULL, key TEXT NOT NULL, request_hash BLOB NOT NULL, answer TEXT, created_at INTEGER NOT NULL,
    PRIMARY KEY (scope, key)) WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency(created_at);

-- The messages that end a history which a client sent, under a hash of that history. `scope` is the client's token or the
-- session that it named.
CREATE TABLE history_keys (
    scope TEXT NOT NULL, key TEXT NOT NULL, message_id TEXT NOT NULL, session INTEGER NOT NULL, created_at INTEGER NOT NULL,
    PRIMARY KEY (scope, key, message_id)) WITHOUT ROWID;
CREATE INDEX history_keys_by_session ON history_keys(session);

-- Identities --------------------------------------------------------------------------------------

CREATE TABLE entities (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL CHECK (kind = 'person' OR kind = 'agent' OR kind = 'service'), name TEXT NOT NULL, relationship TEXT,
    owner INTEGER NOT NULL DEFAULT 0, merged_into TEXT REFERENCES entities(id), created_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX entities_by_name ON entities(name);
CREATE INDEX entities_by_short_id ON entities(substr(id, 11));
-- `key` is the address as one text: `channel:sender_id` or `channel/account_id:sender_id`, escaped.
CREATE TABLE identities (
    key TEXT PRIMARY KEY, channel TEXT NOT NULL, account_id TEXT, sender_id TEXT NOT NULL, entity TEXT NOT NULL REFERENCES entities(id),
    verified INTEGER NOT NULL, linked_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX identities_by_entity ON identities(entity);

-- Deliveries to channels. Rows with the same `recipient` are delivered in the order of `row`. During a delivery
-- `next_attempt_at` is the time at which the process `claimed_by` gives it up.
CREATE TABLE outbox (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, session INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind = 'reply' OR kind = 'prompt' OR kind = 'permission' OR kind = 'question'),
    channel TEXT NOT NULL, recipient TEXT NOT NULL, address TEXT NOT NULL, body TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status = 'pending' OR status = 'delivered' OR status = 'dead'), attempts INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL, claimed_by TEXT, last_error TEXT, created_at INTEGER NOT NULL, delivered_at INTEGER);
CREATE INDEX outbox_by_session ON outbox(session);
CREATE INDEX outbox_by_short_id ON outbox(substr(id, 11));
CREATE INDEX outbox_due ON outbox(channel, next_attempt_at) WHERE status = 'pending';
CREATE INDEX outbox_by_recipient ON outbox(recipient) WHERE status = 'pending';
CREATE INDEX outbox_dead ON outbox(status) WHERE status = 'dead';
CREATE INDEX outbox_delivered ON outbox(delivered_at) WHERE status = 'delivered';

-- API tokens. Only the hash of a token is stored.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, hash BLOB NOT NULL UNIQUE, name TEXT,
    scope TEXT NOT NULL CHECK (scope = 'read' OR scope = 'write' OR scope = 'admin'), created_at INTEGER NOT NULL) WITHOUT ROWID;

-- Schedules of the configuration that a server has seen. `last_tick` is the newest tick that is over.
CREATE TABLE schedules (name TEXT PRIMARY KEY, seen_at INTEGER NOT NULL, last_tick INTEGER) WITHOUT ROWID;

-- Views for manual queries ------------------------------------------------------------------------

CREATE VIEW messages AS
    SELECT value ->> 0 AS id, lower(hex(turns.hash)) AS turn, value ->> 1 AS role, value ->> 2 AS source,
           key AS sequence, header ->> 'provider_id' AS provider_id, header ->> 'model' AS model
    FROM turns, json_each(turns.header, '$.messages');

CREATE VIEW tool_calls AS
    SELECT value ->> 0 AS id, lower(hex(turns.hash)) AS turn,
           header ->> ('$.messages[' || (value ->> 1) || '][0]') AS message,
           value ->> 2 AS name, COALESCE(value ->> 3, 'completed') AS status, value ->> 4 AS spawned_session_label,
           key AS sequence
    FROM turns, json_each(turns.header, '$.tool_calls');

-- Sessions started by another session, each with its newest task.
CREATE VIEW workers AS
    SELECT s.label, 1 AS is_subagent, s.origin, s.status, s.parent_session_label, s.parent_turn_id, s.spawn_tool_call_id,
           t.description AS task_description,
           CASE t.state ->> 'name' WHEN 'complete' THEN 'completed' ELSE t.state ->> 'name' END AS task_status
    FROM sessions s LEFT JOIN tasks t ON t.row = (SELECT MAX(row) FROM tasks WHERE session = s.row)
    WHERE s.origin = 'subagent';

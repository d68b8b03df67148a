-- The first schema, in the dialect of PostgreSQL. Tables and columns are those of the SQLite schema,
-- where they are explained. Integers and booleans are BIGINT; texts that are compared or ordered have
-- the collation "C", as in SQLite.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);

-- Numbers of rows, for all tables. A transaction draws blocks of 64 after it has locked its sessions:
-- the rows of a session, and a turn and its ancestors, have ascending numbers.
CREATE SEQUENCE row_numbers INCREMENT BY 64 START WITH 64;

-- The number of the last group that a lane has written. After a lost COMMIT it tells whether the
-- group was written.
CREATE TABLE lanes (id BIGINT PRIMARY KEY, written BIGINT NOT NULL, used_at TIMESTAMPTZ NOT NULL) WITH (fillfactor = 50);

-- Bodies, packed by ctx. `off` of an object is the `id` of its body; `seg` is 1.
-- Bodies of up to 8 kB stay in their row: the TOAST table would be a second insert for each.
CREATE TABLE bodies (id BIGINT PRIMARY KEY, data BYTEA NOT NULL) WITH (toast_tuple_target = 8160);
ALTER TABLE bodies ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE blobs (
    id BIGINT PRIMARY KEY, hash BYTEA NOT NULL UNIQUE, version BIGINT NOT NULL,
    seg BIGINT, off BIGINT, len BIGINT, packing BIGINT, size BIGINT NOT NULL, created_at BIGINT NOT NULL);

-- JSON is stored as text.
CREATE FUNCTION json_field(TEXT, TEXT) RETURNS TEXT LANGUAGE SQL IMMUTABLE AS $$SELECT NULLIF($1, '')::json ->> $2$$;
CREATE OPERATOR ->> (LEFTARG = TEXT, RIGHTARG = TEXT, FUNCTION = json_field);

-- Ends a transaction that has read what another one changed meanwhile; it is run again.
CREATE FUNCTION stale() RETURNS TEXT LANGUAGE plpgsql AS
    $$BEGIN RAISE EXCEPTION 'changed by another transaction' USING ERRCODE = '40001'; END$$;

-- Conversations -----------------------------------------------------------------------------------

-- A CHECK constraint of the table would be evaluated by each update of a session, these are evaluated
-- where the column is written.
CREATE DOMAIN session_status AS TEXT CHECK (VALUE = 'active' OR VALUE = 'suspended' OR VALUE = 'archived' OR VALUE = 'error');
CREATE DOMAIN session_state AS TEXT CHECK (VALUE = 'idle' OR VALUE = 'running' OR VALUE = 'suspended');
CREATE DOMAIN session_delivery AS TEXT CHECK (VALUE = 'open' OR VALUE = 'hold' OR VALUE = 'refuse');

CREATE TABLE sessions (
    row BIGINT PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    label TEXT COLLATE "C" NOT NULL UNIQUE,
    title TEXT COLLATE "C", project TEXT COLLATE "C" NOT NULL, working_dir TEXT,
    status session_status NOT NULL, state session_state NOT NULL,
    head BIGINT, turn_count BIGINT NOT NULL DEFAULT 0, last_move BIGINT, last_run TEXT COLLATE "C",
    -- The turn that a fork or an import started from. All later turns of its history were made in the session.
    base BIGINT,
    persona TEXT, provider_id TEXT, model TEXT, origin TEXT NOT NULL, options TEXT,
    routing_key TEXT, entity TEXT, policy TEXT, merged_into TEXT, tool_rights TEXT, envelope TEXT,
    delivery session_delivery NOT NULL DEFAULT 'open', track_tasks BIGINT NOT NULL DEFAULT 0,
    parent_session_label TEXT, parent_turn_id TEXT, spawn_tool_call_id TEXT,
    unreported BIGINT NOT NULL DEFAULT 0, task BIGINT, pending_prompt TEXT,
    owner TEXT, fence BIGINT NOT NULL DEFAULT 0,
    seq BIGINT NOT NULL DEFAULT 0, last_event BIGINT,
    created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, last_activity_at BIGINT NOT NULL,
    -- Most updates leave the hour as it is, and no index has the owner, so they write no index.
    active_hour BIGINT NOT NULL GENERATED ALWAYS AS (last_activity_at / 3600000) STORED) WITH (fillfactor = 50);
-- Short ids begin with the random half of an id.
CREATE INDEX sessions_by_short_id ON sessions(substr(id, 11));
CREATE INDEX sessions_by_base ON sessions(base) WHERE base IS NOT NULL;
CREATE INDEX sessions_by_task ON sessions(task) WHERE task IS NOT NULL;
CREATE INDEX sessions_by_activity ON sessions(active_hour);
CREATE INDEX sessions_by_dir ON sessions(working_dir) WHERE working_dir IS NOT NULL;
CREATE INDEX sessions_by_parent ON sessions(parent_session_label) WHERE parent_session_label IS NOT NULL;
CREATE INDEX sessions_unreported ON sessions(unreported) WHERE unreported <> 0;
CREATE INDEX sessions_hidden ON sessions(status) WHERE status IN ('archived', 'error');
CREATE INDEX sessions_by_entity ON sessions(entity) WHERE entity IS NOT NULL;
CREATE INDEX sessions_by_routing_key ON sessions(routing_key) WHERE routing_key IS NOT NULL;

-- Deleted sessions, for the tasks and commits that outlive them; and turns that may be purged after
-- them.
CREATE TABLE deleted_sessions (row BIGINT PRIMARY KEY, id TEXT COLLATE "C" NOT NULL, label TEXT COLLATE "C" NOT NULL, deleted_at BIGINT NOT NULL);
CREATE TABLE purging (turn BIGINT PRIMARY KEY);

CREATE TABLE session_aliases (
    alias TEXT COLLATE "C" PRIMARY KEY, session_label TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    reason TEXT CHECK (reason = 'identity_promotion' OR reason = 'identity_merge' OR reason = 'manual'));
CREATE INDEX idx_session_aliases_target ON session_aliases(session_label);

-- `skip` is an ancestor further back than `parent`: with both, an ancestor at any depth is found in few steps.
CREATE TABLE turns (
    id BIGINT PRIMARY KEY, hash BYTEA NOT NULL, version BIGINT NOT NULL,
    parent BIGINT, skip BIGINT, depth BIGINT NOT NULL, session BIGINT NOT NULL,
    header TEXT NOT NULL, blobs TEXT,
    body_version BIGINT NOT NULL, seg BIGINT, off BIGINT, len BIGINT, packing BIGINT, size BIGINT NOT NULL);
CREATE INDEX turns_by_parent ON turns(parent);
CREATE INDEX turns_by_hash ON turns(hash);
-- A fork or an import locks the turn that it starts from: a purge cannot delete it meanwhile.
ALTER TABLE sessions ADD FOREIGN KEY (base) REFERENCES turns(id);

-- The moves of a session's head, linked from `sessions.last_move` by `prev`.
CREATE TABLE usage_totals (
    day BIGINT NOT NULL, session BIGINT NOT NULL, provider_id TEXT COLLATE "C" NOT NULL, model TEXT COLLATE "C" NOT NULL,
    turns BIGINT NOT NULL, answered BIGINT NOT NULL, messages BIGINT NOT NULL, tool_calls BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL, input_tokens BIGINT NOT NULL, input_turns BIGINT NOT NULL, fresh_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL, cached_turns BIGINT NOT NULL, output_tokens BIGINT NOT NULL, output_turns BIGINT NOT NULL,
    cost BIGINT NOT NULL, cost_turns BIGINT NOT NULL, unbilled_turns BIGINT NOT NULL, unbilled_fresh BIGINT NOT NULL,
    unbilled_cached BIGINT NOT NULL, unbilled_output BIGINT NOT NULL,
    PRIMARY KEY (day, session, provider_id, model)) WITH (fillfactor = 70);
CREATE INDEX usage_by_session ON usage_totals(session);

-- Calls of tools by day in UTC, session and tool, written with each turn. `turns` counts the turns that called the tool.
CREATE TABLE tool_totals (
    day BIGINT NOT NULL, session BIGINT NOT NULL, tool TEXT COLLATE "C" NOT NULL,
    turns BIGINT NOT NULL, calls BIGINT NOT NULL, failed BIGINT NOT NULL,
    PRIMARY KEY (day, session, tool)) WITH (fillfactor = 70);
CREATE INDEX tools_by_session ON tool_totals(session);

CREATE TABLE session_history (id BIGINT PRIMARY KEY, session BIGINT NOT NULL, prev BIGINT, turn BIGINT, changed_at BIGINT NOT NULL);

CREATE TABLE compactions (
    turn_id BIGINT PRIMARY KEY, summary TEXT NOT NULL,
    summarized_through_turn_id TEXT, first_kept_turn_id TEXT, turns_summarized BIGINT NOT NULL,
    compaction_type TEXT NOT NULL, model TEXT, provider TEXT,
    tokens_before BIGINT, tokens_after BIGINT, summary_tokens BIGINT,
    summarization_input_tokens BIGINT, summarization_output_tokens BIGINT,
    duration_ms BIGINT, "trigger" TEXT NOT NULL, metadata_json TEXT);

-- Turns that every request contains unabridged. Each is the head of its session or an ancestor of
-- it.
CREATE TABLE pins (
    session BIGINT NOT NULL, turn BIGINT NOT NULL, tokens BIGINT NOT NULL, pinned_at BIGINT NOT NULL,
    PRIMARY KEY (session, turn));

-- Tasks -------------------------------------------------------------------------------------------

CREATE TABLE tasks (
    row BIGINT PRIMARY KEY, id TEXT COLLATE "C" NOT NULL UNIQUE, session BIGINT NOT NULL,
    description TEXT NOT NULL, state TEXT NOT NULL, progress TEXT NOT NULL,
    steps BIGINT NOT NULL, head BIGINT NOT NULL, base BYTEA, base_turn BYTEA,
    started_at BIGINT NOT NULL, last_activity_at BIGINT NOT NULL, ended_at BIGINT, "commit" BYTEA);
CREATE INDEX tasks_by_session ON tasks(session);
CREATE INDEX tasks_by_short_id ON tasks(substr(id, 11));

CREATE TABLE steps (
    id BIGINT PRIMARY KEY, hash BYTEA NOT NULL, version BIGINT NOT NULL,
    task BIGINT NOT NULL, seq BIGINT NOT NULL, parent BIGINT,
    kind TEXT NOT NULL, files TEXT, notes BIGINT NOT NULL, at BIGINT NOT NULL, blobs TEXT,
    seg BIGINT NOT NULL, off BIGINT NOT NULL, len BIGINT NOT NULL, packing BIGINT NOT NULL, size BIGINT NOT NULL,
    UNIQUE (task, seq));
CREATE INDEX steps_by_hash ON steps(hash);
CREATE INDEX steps_with_notes ON steps(at) WHERE notes > 0;

CREATE TABLE commits (
    id BIGINT PRIMARY KEY, hash BYTEA NOT NULL, version BIGINT NOT NULL,
    task BIGINT NOT NULL UNIQUE, project TEXT COLLATE "C" NOT NULL, commit_type TEXT NOT NULL, created_at BIGINT NOT NULL,
    seg BIGINT NOT NULL, off BIGINT NOT NULL, len BIGINT NOT NULL, packing BIGINT NOT NULL, size BIGINT NOT NULL);
CREATE INDEX commits_by_hash ON commits(hash);

-- HEAD:<project> is the newest commit, STAGE:<session> the newest step of the open task. Targets
-- are hex.
CREATE TABLE refs (name TEXT COLLATE "C" PRIMARY KEY, target TEXT NOT NULL, moved_at BIGINT NOT NULL);

-- Live state --------------------------------------------------------------------------------------

-- `expires_at` is in microseconds of the database's clock.
CREATE TABLE nodes (id TEXT COLLATE "C" PRIMARY KEY, epoch BIGINT NOT NULL, host TEXT, expires_at BIGINT NOT NULL);

CREATE TABLE inbox (
    session BIGINT NOT NULL, message_id TEXT COLLATE "C" NOT NULL, position BIGINT NOT NULL,
    mode TEXT NOT NULL, source TEXT NOT NULL, content TEXT NOT NULL, intent TEXT, overrides TEXT,
    state TEXT NOT NULL CHECK (state = 'waiting' OR state = 'taken' OR state = 'steering' OR state = 'held' OR state = 'dropped'), enqueued_at BIGINT NOT NULL,
    PRIMARY KEY (session, message_id));
CREATE INDEX inbox_dropped ON inbox(enqueued_at) WHERE state = 'dropped';

-- If a run of a session is open, it is the newest one. The runs of a session are linked from `sessions.last_run`
-- by `prev`.
CREATE TABLE runs (
    run_id TEXT COLLATE "C" PRIMARY KEY, session BIGINT NOT NULL, prev TEXT COLLATE "C", fence BIGINT NOT NULL,
    phase TEXT NOT NULL, provider_id TEXT NOT NULL, model TEXT, can_steer BIGINT NOT NULL, cancel TEXT, tools TEXT,
    task_effect TEXT NOT NULL, deferred TEXT, turn_started_at BIGINT NOT NULL, started_at BIGINT NOT NULL, ended_at BIGINT,
    outcome TEXT, recoveries BIGINT NOT NULL DEFAULT 0, tool_rights TEXT, replies TEXT);
-- A session has an owner while it has an open run.
CREATE INDEX runs_open ON runs(session) WHERE ended_at IS NULL;

-- Entries of the open turn of a session, in order.
CREATE TABLE drafts (
    session BIGINT NOT NULL, id BIGINT NOT NULL, entry TEXT NOT NULL, PRIMARY KEY (session, id));

-- `run` is the run that was suspended: its answers go to the run that continues it, and to no later one.
CREATE TABLE suspensions (
    id TEXT COLLATE "C" PRIMARY KEY, session BIGINT NOT NULL, run TEXT COLLATE "C" NOT NULL, awaited TEXT NOT NULL,
    created_at BIGINT NOT NULL, consumed_at BIGINT, answer TEXT);
CREATE INDEX suspensions_by_session ON suspensions(session);

-- One row per transaction and session. `events` is one JSON document; a turn that was stored in the
-- same transaction is given by its row. `seq` is the number of the last event in the row, `prev`
-- the previous row of the session: a feed is read backwards from `sessions.last_event`, so it needs
-- no index.
CREATE TABLE events (
    id BIGINT PRIMARY KEY, session BIGINT NOT NULL, prev BIGINT, seq BIGINT NOT NULL, at BIGINT NOT NULL, events TEXT NOT NULL);

CREATE TABLE agent_sessions (
    session BIGINT NOT NULL, provider_id TEXT NOT NULL, host TEXT NOT NULL, working_dir TEXT,
    agent_session_id TEXT NOT NULL, synced_turn TEXT, clean BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (session, provider_id, host));
-- Two sessions never share a conversation of an agent.
CREATE UNIQUE INDEX agent_sessions_once ON agent_sessions(provider_id, host, agent_session_id);

CREATE TABLE idempotency (
    scope TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL, request_hash BYTEA NOT NULL, answer TEXT, created_at BIGINT NOT NULL,
    PRIMARY KEY (scope, key));
CREATE INDEX idempotency_by_age ON idempotency(created_at);

-- The messages that end a history which a client sent, under a hash of that history. `scope` is the client's token or the
-- session that it named.
CREATE TABLE history_keys (
    scope TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL, message_id TEXT COLLATE "C" NOT NULL, session BIGINT NOT NULL, created_at BIGINT NOT NULL,
    PRIMARY KEY (scope, key, message_id));
CREATE INDEX history_keys_by_session ON history_keys(session);

-- Identities --------------------------------------------------------------------------------------

CREATE TABLE entities (
    id TEXT COLLATE "C" PRIMARY KEY, kind TEXT NOT NULL CHECK (kind = 'person' OR kind = 'agent' OR kind = 'service'), name TEXT COLLATE "C" NOT NULL, relationship TEXT,
    owner BIGINT NOT NULL DEFAULT 0, merged_into TEXT, created_at BIGINT NOT NULL);
CREATE INDEX entities_by_name ON entities(name);
CREATE INDEX entities_by_short_id ON entities(substr(id, 11));
-- `key` is the address as one text: `channel:sender_id` or `channel/account_id:sender_id`, escaped.
CREATE TABLE identities (
    key TEXT COLLATE "C" PRIMARY KEY, channel TEXT NOT NULL, account_id TEXT, sender_id TEXT NOT NULL, entity TEXT NOT NULL,
    verified BIGINT NOT NULL, linked_at BIGINT NOT NULL);
CREATE INDEX identities_by_entity ON identities(entity);

-- Deliveries to channels. Rows with the same `recipient` are delivered in the order of `row`. During a delivery
-- `next_attempt_at` is the time at which the process `claimed_by` gives it up.
CREATE TABLE outbox (
    row BIGINT PRIMARY KEY, id TEXT COLLATE "C" NOT NULL UNIQUE, session BIGINT NOT NULL,
    kind TEXT NOT NULL CHECK (kind = 'reply' OR kind = 'prompt' OR kind = 'permission' OR kind = 'question'),
    channel TEXT NOT NULL, recipient TEXT NOT NULL, address TEXT NOT NULL, body TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status = 'pending' OR status = 'delivered' OR status = 'dead'), attempts BIGINT NOT NULL,
    next_attempt_at BIGINT NOT NULL, claimed_by TEXT, last_error TEXT, created_at BIGINT NOT NULL, delivered_at BIGINT);
CREATE INDEX outbox_by_session ON outbox(session);
CREATE INDEX outbox_by_short_id ON outbox(substr(id, 11));
CREATE INDEX outbox_due ON outbox(channel, next_attempt_at) WHERE status = 'pending';
CREATE INDEX outbox_by_recipient ON outbox(recipient) WHERE status = 'pending';
CREATE INDEX outbox_dead ON outbox(status) WHERE status = 'dead';
CREATE INDEX outbox_delivered ON outbox(delivered_at) WHERE status = 'delivered';

-- API tokens. Only the hash of a token is stored.
CREATE TABLE tokens (
    id TEXT COLLATE "C" PRIMARY KEY, hash BYTEA NOT NULL UNIQUE, name TEXT COLLATE "C",
    scope TEXT COLLATE "C" NOT NULL CHECK (scope = 'read' OR scope = 'write' OR scope = 'admin'), created_at BIGINT NOT NULL);

-- Schedules of the configuration that a server has seen. `last_tick` is the newest tick that is over.
CREATE TABLE schedules (name TEXT COLLATE "C" PRIMARY KEY, seen_at BIGINT NOT NULL, last_tick BIGINT);

-- Search ------------------------------------------------------------------------------------------

-- The documents of the index, in the order in which they were indexed: a turn, or some steps of a task. Rows up to
-- `indexed` in `meta` are all here.
CREATE TABLE search_documents (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, unit BIGINT NOT NULL UNIQUE, words TSVECTOR NOT NULL);
CREATE INDEX search_documents_by_word ON search_documents USING gin (words) WITH (fastupdate = off);
-- The words of all documents, for suggestions; and words of deleted documents, which may be there no more.
CREATE TABLE search_words (word TEXT COLLATE "C" PRIMARY KEY);
CREATE TABLE forgotten_words (word TEXT COLLATE "C" PRIMARY KEY);
CREATE FUNCTION forget_turn() RETURNS TRIGGER LANGUAGE plpgsql AS
    $$BEGIN
        WITH gone AS (DELETE FROM search_documents WHERE unit = OLD.id * 2 RETURNING words)
        INSERT INTO forgotten_words SELECT DISTINCT unnest(tsvector_to_array(words)) FROM gone ON CONFLICT DO NOTHING;
        RETURN OLD;
    END$$;
CREATE TRIGGER forget_turn AFTER DELETE ON turns FOR EACH ROW EXECUTE FUNCTION forget_turn();

-- Views for manual queries ------------------------------------------------------------------------

CREATE VIEW messages AS
    SELECT m.value ->> 0 AS id, encode(turns.hash, 'hex') AS turn, m.value ->> 1 AS role, m.value ->> 2 AS source,
           m.number - 1 AS sequence, header ->> 'provider_id' AS provider_id, header ->> 'model' AS model
    FROM turns, json_array_elements(turns.header::json -> 'messages') WITH ORDINALITY AS m(value, number);

CREATE VIEW tool_calls AS
    SELECT c.value ->> 0 AS id, encode(turns.hash, 'hex') AS turn,
           turns.header::json -> 'messages' -> (c.value ->> 1)::int ->> 0 AS message,
           c.value ->> 2 AS name, COALESCE(c.value ->> 3, 'completed') AS status, c.value ->> 4 AS spawned_session_label,
           c.number - 1 AS sequence
    FROM turns, json_array_elements(turns.header::json -> 'tool_calls') WITH ORDINALITY AS c(value, number);

-- Sessions started by another session, each with its newest task.
CREATE VIEW workers AS
    SELECT s.label, 1 AS is_subagent, s.origin, s.status, s.parent_session_label, s.parent_turn_id, s.spawn_tool_call_id,
           t.description AS task_description,
           CASE t.state ->> 'name' WHEN 'complete' THEN 'completed' ELSE t.state ->> 'name' END AS task_status
    FROM sessions s LEFT JOIN tasks t ON t.row = (SELECT MAX(row) FROM tasks WHERE session = s.row)
    WHERE s.origin = 'subagent';

-- The rows of one appended turn, as ctx stores them, as one statement of pgbench: the upper limit of a
-- node that needs no time of its own. docs/scale/own_rows.sh runs it.
\set row 1000000 + :client_id
WITH n AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(1), nextval('row_numbers') AS n),
bodies AS (INSERT INTO bodies(id, data) SELECT n + k, decode(repeat(md5(random()::text), 71) || repeat(md5(random()::text), 71), 'hex')
  FROM n, unnest(ARRAY[0, 1, 2]) AS k),
blobs AS (INSERT INTO blobs(id, hash, version, created_at, seg, off, len, packing, size)
  SELECT n + k, decode(md5(random()::text) || md5(random()::text), 'hex'), 1, 0, 1, n + k, 2272, 1, 4096 FROM n, unnest(ARRAY[0, 1]) AS k),
usage AS (INSERT INTO usage_totals(day, session, provider_id, model, turns, answered, messages, tool_calls, duration_ms, input_tokens,
    input_turns, fresh_tokens, cached_tokens, cached_turns, output_tokens, output_turns, cost, cost_turns, unbilled_turns,
    unbilled_fresh, unbilled_cached, unbilled_output)
  SELECT 0, :row, '', '', 1, 0, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM n
  ON CONFLICT(day, session, provider_id, model) DO UPDATE SET turns = usage_totals.turns + 1,
    messages = usage_totals.messages + 4, tool_calls = usage_totals.tool_calls + 2),
tools AS (INSERT INTO tool_totals(day, session, tool, turns, calls, failed) SELECT 0, :row, 'read_file', 1, 2, 0 FROM n
  ON CONFLICT(day, session, tool) DO UPDATE SET turns = tool_totals.turns + 1, calls = tool_totals.calls + 2),
turn AS (INSERT INTO turns(id, hash, version, parent, depth, session, header, blobs, body_version, skip, seg, off, len, packing, size)
  SELECT n + 2, decode(md5(random()::text) || md5(random()::text), 'hex'), 1, n - 64, 60, :row, repeat('x', 430), '[1, 2]', 1, n - 64,
    1, n + 2, 2272, 1, 4000 FROM n),
move AS (INSERT INTO session_history(id, session, prev, turn, changed_at) SELECT n + 3, :row, 1, n + 2, 0 FROM n),
event AS (INSERT INTO events(id, session, prev, seq, at, events)
  SELECT n + 4, :row, 1, 62, 0, '[{"turn":4482,"type":"turn.committed"}]' FROM n),
lane AS (INSERT INTO lanes(id, written, used_at) SELECT :client_id, 1, now() FROM n
  ON CONFLICT(id) DO UPDATE SET written = lanes.written + 1, used_at = now())
UPDATE sessions SET head = n + 2, turn_count = turn_count + 1, seq = seq + 1, last_event = n + 4, updated_at = 0, last_move = n + 3,
  last_activity_at = 0 FROM n WHERE row = :row;

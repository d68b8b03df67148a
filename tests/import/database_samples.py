"""Hand-written sessions of the tools that keep them in a database: OpenCode and Goose."""

import json
import sqlite3

from sample_parts import DIR, MS, RESULT, new_turns, png


def insert(database, table, values):
    marks = ", ".join("?" * len(values))
    database.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))


# OpenCode

OPENCODE = """
CREATE TABLE project (id text PRIMARY KEY, worktree text NOT NULL, vcs text, name text, icon_url text,
  icon_color text, time_created integer NOT NULL, time_updated integer NOT NULL, time_initialized integer,
  sandboxes text NOT NULL, commands text);
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text,
  slug text NOT NULL, directory text NOT NULL, path text, title text NOT NULL, version text NOT NULL,
  share_url text, summary_additions integer, summary_deletions integer, summary_files integer,
  summary_diffs text, metadata text, cost real DEFAULT 0 NOT NULL, tokens_input integer DEFAULT 0 NOT NULL,
  tokens_output integer DEFAULT 0 NOT NULL, tokens_reasoning integer DEFAULT 0 NOT NULL,
  tokens_cache_read integer DEFAULT 0 NOT NULL, tokens_cache_write integer DEFAULT 0 NOT NULL, revert text,
  permission text, agent text, model text, time_created integer NOT NULL, time_updated integer NOT NULL,
  time_compacting integer, time_archived integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
"""


def opencode_message(database, session, key, at, role, *parts):
    data = {"role": role, "time": {"created": at}}
    if role == "assistant":
        tokens = {"total": 20, "input": 10, "output": 3, "reasoning": 0, "cache": {"read": 5, "write": 2}}
        data.update(modelID="model-a", providerID="p", cost=0, tokens=tokens, finish="stop")
    database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (key, session, at, at, json.dumps(data)))
    for n, part in enumerate(parts):
        row = (f"prt_{key}_{n}", key, session, at, at, json.dumps(part))
        database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)


def opencode(directory):
    directory.mkdir(parents=True)
    session = "ses_000000000001"
    image = {"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64," + png(6)}
    state = {"status": "completed", "input": {"filePath": "a.txt"}, "output": RESULT, "title": "a.txt",
             "metadata": {}, "time": {"start": MS + 3, "end": MS + 4}}
    failed = {"status": "error", "input": {"filePath": "c.txt"}, "error": "no such file",
              "time": {"start": MS + 3, "end": MS + 4}}
    with sqlite3.connect(directory / "opencode.db") as database:
        database.executescript(OPENCODE)
        values = {"id": session, "project_id": "p", "slug": "look", "directory": DIR, "title": "Look",
                  "version": "1.18.0", "time_created": MS, "time_updated": MS + 9}
        insert(database, "session", values)
        insert(database, "project", {"id": "p", "worktree": DIR, "time_created": MS, "time_updated": MS,
                                     "sandboxes": "[]"})
        opencode_message(database, session, "msg_01", MS + 1, "user", {"type": "text", "text": "Look"}, image)
        opencode_message(
            database, session, "msg_02", MS + 2, "assistant", {"type": "step-start"},
            {"type": "reasoning", "text": "I read it", "time": {"start": MS, "end": MS}},
            {"type": "tool", "callID": "t1", "tool": "read", "state": state},
            {"type": "tool", "callID": "t2", "tool": "read", "state": failed})
        opencode_message(database, session, "msg_03", MS + 3, "assistant", {"type": "text", "text": "Done"})
        opencode_message(database, session, "msg_04", MS + 4, "user", {"type": "text", "text": "Second"})
        opencode_message(database, session, "msg_05", MS + 5, "assistant", {"type": "text", "text": "Two"})


def grow_opencode(path):
    with sqlite3.connect(path) as database:
        sql = "SELECT session_id, MAX(time_created) FROM message GROUP BY 1 ORDER BY COUNT(*) DESC"
        session, at = database.execute(sql).fetchone()
        for prompt, answer in new_turns():
            at += 10
            opencode_message(database, session, f"msg_{at}", at, "user", {"type": "text", "text": prompt})
            opencode_message(database, session, f"msg_{at + 1}", at + 1, "assistant", {"type": "text", "text": answer})
        database.execute("UPDATE session SET time_updated = ? WHERE id = ?", (at + 1, session))


# Goose

GOOSE = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
  user_set_name BOOLEAN DEFAULT FALSE, session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL,
  created_at TIMESTAMP, updated_at TIMESTAMP, extension_data TEXT DEFAULT '{}', total_tokens INTEGER,
  input_tokens INTEGER, output_tokens INTEGER, accumulated_total_tokens INTEGER,
  accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER, schedule_id TEXT, recipe_json TEXT,
  user_recipe_values_json TEXT, provider_name TEXT, model_config_json TEXT, archived_at TIMESTAMP);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL,
  role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL,
  timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP, tokens INTEGER, metadata_json TEXT);
"""


def goose_message(database, session, at, role, *parts):
    insert(database, "messages", {"session_id": session, "role": role, "content_json": json.dumps(parts),
                                  "created_timestamp": at, "message_id": f"msg_{at}"})


def goose(directory):
    directory.mkdir(parents=True)
    at, name = MS // 1000, "20260102_1"
    call = {"status": "success", "value": {"name": "developer__read", "arguments": {"path": "a.txt"}}}
    content = [{"type": "text", "text": RESULT}, {"type": "image", "data": png(10), "mimeType": "image/png"}]
    with sqlite3.connect(directory / "sessions.db") as database:
        database.executescript(GOOSE)
        insert(database, "sessions", {"id": name, "name": "Look", "working_dir": DIR,
                                      "created_at": "2026-01-02 03:04:00", "updated_at": "2026-01-02 03:05:00",
                                      "provider_name": "p", "model_config_json": '{"model_name": "model-a"}'})
        goose_message(database, name, at, "user", {"type": "text", "text": "Look"},
                      {"type": "image", "data": png(9), "mimeType": "image/png"})
        goose_message(database, name, at + 1, "assistant",
                      {"type": "thinking", "thinking": "I read it", "signature": "c2ln"},
                      {"type": "toolRequest", "id": "t1", "toolCall": call})
        goose_message(database, name, at + 2, "user", {"type": "toolResponse", "id": "t1", "toolResult": {
            "status": "success", "value": {"content": content, "isError": False}}})
        goose_message(database, name, at + 3, "assistant", {"type": "text", "text": "Done"})


def grow_goose(path):
    with sqlite3.connect(path) as database:
        session, at = database.execute("SELECT session_id, MAX(created_timestamp) FROM messages").fetchone()
        for n, (prompt, answer) in enumerate(new_turns()):
            goose_message(database, session, at + 10 + 2 * n, "user", {"type": "text", "text": prompt})
            goose_message(database, session, at + 11 + 2 * n, "assistant", {"type": "text", "text": answer})

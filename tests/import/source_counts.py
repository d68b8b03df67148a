"""Counts what the session files of a tool contain. Shares no code with ctx.

`read(tool, path)` returns a list of `Found`, one for each session below the path. A format is described
here only as far as the conversation goes: prompts, answers, reasoning, tool calls, results, images, usage
and branches. Everything else in the files is bookkeeping of the tool.
"""

import json
import pathlib
import sqlite3

from found_session import Found, canonical, plain


def records(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def below(path, pattern):
    path = pathlib.Path(path)
    return [path] if path.is_file() else sorted(path.rglob(pattern))


def claude_code(path):
    for file in below(path, "*.jsonl"):
        conversations, responses = {}, {}
        for record in records(file):
            kind = record["type"]
            name = record.get("sessionId", file.stem)
            if record.get("isSidechain"):
                name += "/" + record.get("agentId", "sidechain")
            found = conversations.setdefault(name, Found(name))
            if kind == "api-request":
                # Newer versions record each request. Its response may reuse the id of an earlier one.
                responses.pop(name, None)
            if kind == "attachment" and record["attachment"].get("type") == "queued_command":
                # A message that was sent while the agent worked: it belongs to the running turn.
                found.prompts.append(plain(record["attachment"]["prompt"]))
            if "uuid" not in record:
                continue
            role, parent = "record", record.get("parentUuid")
            message = record.get("message") or {}
            content = message.get("content", [])
            if isinstance(content, str):
                content = [{"type": "text", "text": content}]
            if kind == "user":
                role = claude_user(found, record, content)
            elif kind == "assistant":
                role = "answer"
                claude_answer(found, content)
                usage, last = message.get("usage"), responses.get(name)
                # Every record of a response repeats its usage.
                if usage and (last is None or last != message.get("id")):
                    read = usage.get("cache_read_input_tokens", 0)
                    fresh = usage.get("input_tokens", 0) + usage.get("cache_creation_input_tokens", 0)
                    found.spend(fresh + read, read, usage.get("output_tokens", 0))
                    responses[name] = message.get("id")
            if role == "prompt":
                responses.pop(name, None)
            found.place(role, record["uuid"], parent)
        yield from conversations.values()


def claude_user(found, record, content):
    texts = [part["text"] for part in content if part["type"] == "text"]
    results = [part for part in content if part["type"] == "tool_result"]
    for part in results:
        found.results.append(f"{part['tool_use_id']} {plain(part.get('content', ''))}")
        inside = part.get("content")
        for inner in inside if isinstance(inside, list) else []:
            if inner["type"] == "image":
                found.image(inner["source"]["data"])
    images = [part["source"]["data"] for part in content if part["type"] == "image"]
    if record.get("isCompactSummary"):
        found.compactions.append("\n".join(texts))
        return "compaction"
    # Rule: text that Claude Code itself adds in the name of the user is a record, not a prompt.
    added = ("<local-command-", "[Request interrupted by user")
    if record.get("isMeta") or not (texts or images) or (texts and texts[0].startswith(added)):
        return "answer" if results else "record"
    for data in images:
        found.image(data)
    found.prompts += texts
    return "answer" if results else "prompt"


def claude_answer(found, content):
    for part in content:
        if part["type"] == "text":
            found.answers.append(part["text"])
        elif part["type"] in ("thinking", "redacted_thinking"):
            found.thoughts.append(part.get("thinking", ""))
        elif part["type"] == "tool_use":
            found.call(part["name"], part["input"])


# Rule: messages with these beginnings are written by Codex. ctx keeps them as records.
CODEX_CONTEXT = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md instructions")


def codex(path):
    for file in below(path, "rollout-*.jsonl"):
        found = Found(file.stem[-36:])
        all_records = records(file)
        exact = any(record["type"] == "token_usage_record" for record in all_records)
        for record in all_records:
            kind, payload = record["type"], record.get("payload", {})
            if kind == "session_meta":
                found.name = payload["id"]
            elif kind == "response_item":
                codex_item(found, payload)
            elif kind == "compacted":
                found.compactions.append(payload["message"])
                found.place("compaction")
            elif kind == "token_usage_record":
                codex_usage(found, payload["usage"])
            elif kind == "event_msg" and payload["type"] == "token_count" and not exact:
                codex_usage(found, payload["info"]["last_token_usage"])
            elif kind == "event_msg" and payload["type"] == "thread_rolled_back":
                # The last turns left the conversation: the next prompt follows the turn before them.
                found.last = before_prompts(found, payload["num_turns"])
        yield found


def before_prompts(found, count):
    """The record before the `count`-th last prompt of the conversation."""
    at = found.last
    while at is not None and count > 0:
        count -= found.kinds[at] == "prompt"
        at = found.parents[at]
    return at


def codex_usage(found, usage):
    found.spend(usage["input_tokens"], usage["cached_input_tokens"], usage["output_tokens"])


def codex_item(found, item):
    kind = item["type"]
    if kind == "message":
        texts = [part["text"] for part in item["content"] if "text" in part]
        if item["role"] == "assistant":
            found.answers += texts
            found.place("answer")
        elif item["role"] == "user" and not (texts and texts[0].lstrip().startswith(CODEX_CONTEXT)):
            found.prompts += texts
            for part in item["content"]:
                if part["type"] == "input_image":
                    found.image(part["image_url"])
            found.place("prompt")
    elif kind == "reasoning":
        found.thoughts.append(canonical(item))
        found.place("answer")
    elif kind in ("function_call", "custom_tool_call"):
        found.call(item["name"], item.get("arguments", item.get("input")))
        found.place("answer")
    elif kind in ("function_call_output", "custom_tool_call_output"):
        found.results.append(f"{item['call_id']} {plain(item['output'])}")
        found.place("answer")


def gemini_cli(path):
    for file in below(path, "session-*.jsonl"):
        found, newest = Found(file.stem), {}
        all_records = records(file)
        # A message is written again, whole, when its tool calls or tokens change.
        for record in all_records:
            if "id" in record:
                newest[record["id"]] = record
        for record in all_records:
            if "sessionId" in record:
                found.name = record["sessionId"]
            elif "$rewindTo" in record:
                # This message and all after it left the conversation.
                found.last = found.parents.get(record["$rewindTo"])
            elif record.get("id") in newest:
                gemini_message(found, newest.pop(record["id"]))
        yield found


def gemini_message(found, message):
    content = message.get("content", "")
    parts = [{"text": content}] if isinstance(content, str) else content
    texts = [part["text"] for part in parts if "text" in part]
    role = "record"
    if message["type"] == "gemini":
        role = "answer"
        found.answers += [text for text in texts if text]
        found.thoughts += [canonical(thought) for thought in message.get("thoughts") or []]
        for call in message.get("toolCalls") or []:
            found.call(call["name"], call["args"])
            for part in call.get("result") or []:
                response = part["functionResponse"]["response"]
                found.results.append(f"{call['id']} {response.get('output', response.get('error'))}")
        tokens = message.get("tokens") or {}
        found.spend(tokens.get("input"), tokens.get("cached"), tokens.get("output"))
    elif message["type"] == "user":
        # Rule: a repeated result and the context that Gemini CLI writes are no prompts.
        repeated = any("functionResponse" in part for part in parts)
        if not repeated and not (texts and texts[0].startswith("<session_context>")):
            role = "prompt"
            found.prompts += texts
            for part in parts:
                if "inlineData" in part:
                    found.image(part["inlineData"]["data"])
    found.place(role, message["id"])


def kimi_code(path):
    for file in below(path, "wire.jsonl"):
        session, agent = file.parents[2].name, file.parent.name
        found = Found(session if agent == "main" else f"{session}/{agent}")
        for record in records(file):
            kind = record["type"]
            if kind == "context.append_message":
                kimi_message(found, record["message"])
            elif kind == "context.append_loop_event":
                kimi_event(found, record["event"])
            elif kind == "usage.record":
                usage = record["usage"]
                read = usage["inputCacheRead"]
                found.spend(usage["inputOther"] + usage["inputCacheCreation"] + read, read, usage["output"])
            elif kind == "context.apply_compaction":
                found.compactions.append(record["summary"])
                found.place("compaction")
            elif kind == "context.undo":
                found.last = before_prompts(found, record["count"])
        yield found


def kimi_message(found, message):
    # Rule: a message with another origin (reminders, hooks) is a record.
    if message["role"] == "user" and message.get("origin", {}).get("kind", "user") == "user":
        for part in message["content"]:
            if part["type"] == "text":
                found.prompts.append(part["text"])
            elif part["type"] == "image_url":
                found.image(part["imageUrl"]["url"])
        found.place("prompt")


def kimi_event(found, event):
    kind = event["type"]
    if kind == "content.part":
        part = event["part"]
        if part["type"] == "text":
            found.answers.append(part["text"])
        else:
            found.thoughts.append(canonical(part))
    elif kind == "tool.call":
        found.call(event["name"], event["args"])
    elif kind == "tool.result":
        found.results.append(f"{event['toolCallId']} {plain(event['result']['output'])}")
    else:
        return
    found.place("answer")


def rows(path, sql, *values):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        database.row_factory = sqlite3.Row
        return database.execute(sql, values).fetchall()


def opencode(path):
    for file in below(path, "opencode.db"):
        for session in rows(file, "SELECT * FROM session"):
            name = session["id"]
            found = Found(f"{session['parent_id']}/{name}" if session["parent_id"] else name)
            order = "SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id"
            for message in rows(file, order, name):
                data = json.loads(message["data"])
                found_parts = rows(file, "SELECT data FROM part WHERE message_id = ? ORDER BY id", message["id"])
                opencode_message(found, data, [json.loads(part["data"]) for part in found_parts])
            yield found


def opencode_message(found, data, parts):
    answers = data["role"] == "assistant"
    for part in parts:
        if part["type"] == "text" and not part.get("synthetic"):
            (found.answers if answers else found.prompts).append(part["text"])
        elif part["type"] == "reasoning":
            found.thoughts.append(canonical(part))
        elif part["type"] == "file":
            found.image(part["url"])
        elif part["type"] == "tool":
            state = part["state"]
            found.call(part["tool"], state["input"])
            if state["status"] in ("completed", "error"):
                found.results.append(f"{part['callID']} {state.get('output', state.get('error'))}")
    if answers and "tokens" in data:
        tokens = data["tokens"]
        read = tokens["cache"]["read"]
        found.spend(tokens["input"] + tokens["cache"]["write"] + read, read, tokens["output"])
    found.place("answer" if answers else "prompt")


def pi(path):
    for file in below(path, "*.jsonl"):
        found = Found(file.stem)
        for record in records(file):
            if record["type"] == "session":
                found.name = record["id"]
                continue
            role = "record"
            if record["type"] == "message":
                role = pi_message(found, record["message"])
            elif record["type"] == "compaction":
                role = "compaction"
                found.compactions.append(record["summary"])
            found.place(role, record["id"], record["parentId"])
        yield found


def pi_message(found, message):
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    # Rule: the prompt of the system is a record.
    if message["role"] == "toolResult":
        found.results.append(f"{message['toolCallId']} {plain(content)}")
        for part in content:
            if part["type"] == "image":
                found.image(part["data"])
        return "answer"
    if message["role"] not in ("user", "assistant"):
        return "record"
    answers = message["role"] == "assistant"
    for part in content:
        if part["type"] == "text":
            (found.answers if answers else found.prompts).append(part["text"])
        elif part["type"] == "thinking":
            found.thoughts.append(part["thinking"])
        elif part["type"] == "toolCall":
            found.call(part["name"], part["arguments"])
        elif part["type"] == "image":
            found.image(part["data"])
    usage = message.get("usage")
    if usage:
        read = usage["cacheRead"]
        found.spend(usage["input"] + usage["cacheWrite"] + read, read, usage["output"])
    return "answer" if answers else "prompt"


def qwen_code(path):
    for file in below(path, "*.jsonl"):
        found = Found(file.stem)
        for record in records(file):
            found.name = record["sessionId"]
            parts = (record.get("message") or {}).get("parts", [])
            role = {"user": "prompt", "assistant": "answer", "tool_result": "answer"}.get(record["type"], "record")
            if role != "record":
                qwen_parts(found, parts, record["type"])
            usage = record.get("usageMetadata")
            if usage:
                counts = ("promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount")
                found.spend(*(usage.get(count) for count in counts))
            if record.get("subtype") == "chat_compression":
                role = "compaction"
                found.compactions.append("")
            found.place(role, record["uuid"], record["parentUuid"])
        yield found


def qwen_parts(found, parts, kind):
    for part in parts:
        if "functionCall" in part:
            found.call(part["functionCall"]["name"], part["functionCall"]["args"])
        elif "functionResponse" in part:
            response = part["functionResponse"]
            text = response["response"].get("output", response["response"].get("error"))
            found.results.append(f"{response['id']} {text}")
        elif "inlineData" in part:
            found.image(part["inlineData"]["data"])
        elif part.get("thought"):
            found.thoughts.append(part["text"])
        elif part.get("text"):
            (found.prompts if kind == "user" else found.answers).append(part["text"])


def goose(path):
    for file in below(path, "sessions.db"):
        for session in rows(file, "SELECT * FROM sessions"):
            found = Found(session["id"])
            order = "SELECT * FROM messages WHERE session_id = ? ORDER BY id"
            for message in rows(file, order, session["id"]):
                goose_message(found, message["role"], json.loads(message["content_json"]))
            yield found


def goose_message(found, role, parts):
    place = "answer" if role == "assistant" else "record"
    for part in parts:
        kind = part["type"]
        if kind == "text":
            (found.answers if role == "assistant" else found.prompts).append(part["text"])
            place = "answer" if role == "assistant" else "prompt"
        elif kind in ("thinking", "redactedThinking"):
            found.thoughts.append(canonical(part))
        elif kind == "toolRequest":
            found.call(part["toolCall"]["value"]["name"], part["toolCall"]["value"]["arguments"])
        elif kind == "image":
            found.image(part["data"])
        elif kind == "toolResponse":
            content = part["toolResult"]["value"]["content"]
            found.results.append(f"{part['id']} {plain(content)}")
            for inner in content:
                if inner["type"] == "image":
                    found.image(inner["data"])
            place = "answer"
    found.place(place)


def jsonl(path):
    for file in below(path, "*.jsonl"):
        found = Found(file.stem)
        for record in records(file):
            role = record.get("role")
            if record.get("type") == "session":
                found.name = record["id"]
                continue
            content = record.get("content", "")
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if role == "tool":
                found.results.append(f"{record['tool_call_id']} {plain(content)}")
            for part in parts if role in ("user", "assistant") else []:
                if part["type"] == "image_url":
                    found.image(part["image_url"]["url"])
                elif part["text"]:
                    (found.prompts if role == "user" else found.answers).append(part["text"])
            if record.get("reasoning"):
                found.thoughts.append(record["reasoning"])
            for call in record.get("tool_calls", []):
                found.call(call["function"]["name"], call["function"]["arguments"])
            usage = record.get("usage", {})
            found.spend(usage.get("input_tokens"), usage.get("cached_tokens"), usage.get("output_tokens"))
            place = {"user": "prompt", "assistant": "answer", "tool": "answer"}.get(role, "record")
            found.place(place, record.get("id"), record.get("parent_id", ...))
        yield found


READERS = {
    "claude-code": claude_code, "codex": codex, "gemini-cli": gemini_cli, "goose": goose, "jsonl": jsonl,
    "kimi-code": kimi_code, "opencode": opencode, "pi": pi, "qwen-code": qwen_code,
}


def read(tool, path):
    """The sessions of a tool below a path. A session without a turn is none."""
    return [found for found in READERS[tool](path) if found.turn_tree()]

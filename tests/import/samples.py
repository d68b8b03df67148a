"""Hand-written sessions in the forms of all tools, and two more turns for a session that exists.

Each sample has a prompt with an image, reasoning, a tool call with a result of more than 4 KiB, answers, usage
and, if the tool has them, a branch: the second prompt was replaced by another one.
"""

import pathlib

from database_samples import goose, grow_goose, grow_opencode, opencode
from sample_parts import AT, DIR, MS, RESULT, last_record, new_turns, png, write

# Claude Code

def claude_record(session, key, parent, kind, message, **more):
    return {"parentUuid": parent, "isSidechain": False, "type": kind, "message": message, "uuid": key,
            "timestamp": AT.format(int(key[-2:])), "cwd": DIR, "sessionId": session, "version": "2.1.312",
            "gitBranch": "main", **more}


def claude_answer(response, *parts, fresh=10):
    usage = {"input_tokens": fresh, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 5,
             "output_tokens": 3}
    return {"id": response, "type": "message", "role": "assistant", "model": "model-a",
            "content": list(parts), "stop_reason": None, "usage": usage}


def claude_code(directory):
    name = "11111111-2222-4333-8444-555555555555"
    source = {"type": "base64", "media_type": "image/png", "data": png(1)}
    inside = {"type": "base64", "media_type": "image/png", "data": png(2)}

    def user(key, parent, *parts, **more):
        return claude_record(name, key, parent, "user", {"role": "user", "content": list(parts)}, **more)

    def answer(key, parent, response, *parts, fresh=10, **more):
        return claude_record(name, key, parent, "assistant", claude_answer(response, *parts, fresh=fresh), **more)

    def turns(parent, first, words):
        """Five turns, as some readers only recognise branches with several."""
        for n in range(first, first + 10, 2):
            yield user(f"u-{n}", parent, {"type": "text", "text": f"{words} {n}"})
            parent = f"a-{n + 1}"
            yield answer(parent, f"u-{n}", f"m-{n}", {"type": "text", "text": f"{words} was {n}"})

    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.txt"}}
    write(directory / "projects/-home-user-project" / f"{name}.jsonl", [
        user("u-01", None, {"type": "text", "text": "Look"}, {"type": "image", "source": source}),
        answer("a-02", "u-01", "m1", {"type": "thinking", "thinking": "I read it", "signature": "c2ln"}),
        answer("a-03", "a-02", "m1", call),
        user("u-04", "a-03", {"type": "tool_result", "tool_use_id": "t1", "content": RESULT}),
        # A result with a picture, and in the same record a remark of the user.
        answer("a-05", "u-04", "m2", dict(call, id="t2", input={"file_path": "b.png"})),
        user("u-06", "a-05", {"type": "tool_result", "tool_use_id": "t2", "content": [
            {"type": "text", "text": "a picture"}, {"type": "image", "source": inside}]},
            {"type": "text", "text": "Use this picture"}),
        answer("a-07", "u-06", "m3", {"type": "text", "text": "Done"}),
        *turns("a-07", 10, "Second"),
        # The second prompt was edited: a branch.
        *turns("a-07", 20, "Another second"),
    ])
    # A subagent has a file of its own.
    worker = {"isSidechain": True, "agentId": "a1"}
    write(directory / "projects/-home-user-project" / name / "subagents/agent-a1.jsonl", [
        user("w-08", None, {"type": "text", "text": "Search"}, **worker),
        answer("w-09", "w-08", "m4", {"type": "text", "text": "Found"}, fresh=20, **worker),
    ])


def grow_claude_code(path):
    last, records = last_record(path, "uuid"), []
    parent = last["uuid"]
    for n, (prompt, answer) in enumerate(new_turns()):
        keys = [f"grown-{second}" for second in (40 + 2 * n, 41 + 2 * n)]
        message = {"role": "user", "content": prompt}
        records.append(claude_record(last["sessionId"], keys[0], parent, "user", message))
        message = claude_answer(f"grown-{n}", {"type": "text", "text": answer})
        records.append(claude_record(last["sessionId"], keys[1], keys[0], "assistant", message))
        parent = keys[1]
    write(path, records)


# Codex

def codex_record(n, kind, payload):
    return {"timestamp": AT.format(n % 60), "ordinal": n, "type": kind, "payload": payload}


def codex_message(role, *parts):
    return {"type": "message", "role": role, "content": list(parts)}


def codex_turn(first, prompt, answer, requests):
    usage = {"input_tokens": 17, "cached_input_tokens": 5, "cache_write_input_tokens": 0, "output_tokens": 3,
             "reasoning_output_tokens": 0, "total_tokens": 20}
    total = {name: tokens * requests for name, tokens in usage.items()}
    info = {"total_token_usage": total, "last_token_usage": usage, "model_context_window": 32768}
    return [
        codex_record(first, "event_msg", {"type": "task_started", "turn_id": f"turn-{first}"}),
        codex_record(first + 1, "response_item", codex_message("user", {"type": "input_text", "text": prompt})),
        codex_record(first + 2, "response_item", {
            **codex_message("assistant", {"type": "output_text", "text": answer}),
            "internal_chat_message_metadata_passthrough": {"turn_id": f"turn-{first}"}}),
        codex_record(first + 3, "token_usage_record", {"turn_id": f"turn-{first}", "usage": usage}),
        codex_record(first + 4, "event_msg", {"type": "token_count", "info": info}),
        codex_record(first + 5, "event_msg", {"type": "task_complete", "turn_id": f"turn-{first}"}),
    ]


def codex(directory):
    name = "01a1e0ae-0000-7000-8000-000000000001"
    url = "data:image/png;base64," + png(3)
    write(directory / "sessions/2026/01/02" / f"rollout-2026-01-02T03-04-00-{name}.jsonl", [
        codex_record(0, "session_meta", {"id": name, "timestamp": AT.format(0), "cwd": DIR, "originator": "codex",
                                         "cli_version": "0.166.0", "git": {"branch": "main"}}),
        codex_record(1, "response_item", codex_message("user", {
            "type": "input_text", "text": "<environment_context>\n  <cwd>/</cwd>\n</environment_context>"})),
        codex_record(2, "turn_context", {"cwd": DIR, "model": "model-a"}),
        codex_record(3, "response_item", codex_message("user", {"type": "input_text", "text": "Look"}, {
            "type": "input_image", "image_url": url})),
        codex_record(4, "response_item", {"type": "reasoning", "id": "r1", "encrypted_content": "eA==", "summary": [
            {"type": "summary_text", "text": "I read it"}]}),
        codex_record(5, "response_item", {"type": "function_call", "name": "exec_command", "call_id": "t1",
                                          "arguments": "{\"cmd\":\"cat a.txt\"}"}),
        codex_record(6, "response_item", {"type": "function_call_output", "call_id": "t1", "output": RESULT}),
        codex_record(7, "response_item", {"type": "custom_tool_call", "name": "apply_patch", "call_id": "t2",
                                          "input": "*** Begin Patch\n*** End Patch"}),
        codex_record(8, "response_item", {"type": "custom_tool_call_output", "call_id": "t2", "output": "Done"}),
        codex_record(9, "response_item", codex_message("assistant", {"type": "output_text", "text": "Done"})),
        *codex_turn(10, "Second", "Two", 1),
        # The user went one turn back.
        codex_record(16, "event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
        *codex_turn(17, "Another second", "Another two", 2),
    ])


def grow_codex(path):
    first = last_record(path, "ordinal")["ordinal"] + 1
    for n, (prompt, answer) in enumerate(new_turns()):
        write(path, codex_turn(first + 6 * n, prompt, answer, 3 + n))


# Gemini CLI

def gemini_answer(key, text, **more):
    tokens = {"input": 17, "output": 3, "cached": 5, "thoughts": 0, "tool": 0, "total": 20}
    return {"id": key, "timestamp": AT.format(int(key[-2:])), "type": "gemini", "content": text, "thoughts": [],
            "tokens": tokens, "model": "model-a", **more}


def gemini_user(key, *parts):
    return {"id": key, "timestamp": AT.format(int(key[-2:])), "type": "user", "content": list(parts)}


def gemini_cli(directory):
    name = "0884ae92-0000-4000-8000-000000000001"
    response = {"functionResponse": {"id": "t1", "name": "read_file", "response": {"output": RESULT}}}
    call = {"id": "t1", "name": "read_file", "args": {"path": "a.txt"}, "status": "executing"}
    done = dict(call, status="success", result=[response], timestamp=AT.format(4))
    thought = {"subject": "Reading", "description": "I read it", "timestamp": AT.format(3)}
    write(directory / "tmp/project/chats/session-2026-01-02T03-04-0884ae92.jsonl", [
        {"sessionId": name, "projectHash": "0", "startTime": AT.format(0), "lastUpdated": AT.format(0), "kind": "main"},
        gemini_user("g-01", {"text": "Look"}, {"inlineData": {"mimeType": "image/png", "data": png(4)}}),
        # The message is written again when it has a call, and when the call has a result.
        gemini_answer("g-03", "", thoughts=[thought]),
        gemini_answer("g-03", "", thoughts=[thought], toolCalls=[call]),
        gemini_answer("g-03", "", thoughts=[thought], toolCalls=[done]),
        gemini_user("g-04", response),
        gemini_answer("g-05", "Done"),
        gemini_user("g-06", {"text": "Second"}),
        gemini_answer("g-07", "Two"),
        # The user went back: this message and those after it left the conversation.
        {"$rewindTo": "g-06"},
        gemini_user("g-08", {"text": "Another second"}),
        gemini_answer("g-09", "Another two"),
    ])


def grow_gemini_cli(path):
    for n, (prompt, answer) in enumerate(new_turns()):
        keys = [f"grown-{second}" for second in (40 + 2 * n, 41 + 2 * n)]
        write(path, [gemini_user(keys[0], {"text": prompt}), gemini_answer(keys[1], answer)])


# Kimi Code

def kimi_prompt(key, *parts):
    at, origin = MS + int(key[-2:]), {"kind": "user"}
    message = {"role": "user", "content": list(parts), "id": key, "toolCalls": [], "origin": origin}
    return [
        {"type": "turn.prompt", "agentId": "main", "input": list(parts), "origin": origin, "promptId": key, "time": at},
        {"type": "context.append_message", "agentId": "main", "message": message, "time": at},
    ]


def kimi_event(key, kind, **event):
    event = {"type": kind, "turnId": "0", "step": 1, **event}
    if kind != "tool.result":
        event["uuid"] = key
    return {"type": "context.append_loop_event", "agentId": "main", "event": event, "time": MS + int(key[-2:])}


def kimi_step(key, *events):
    usage = {"inputOther": 12, "output": 3, "inputCacheRead": 5, "inputCacheCreation": 0}
    return [
        kimi_event(key, "step.begin"),
        {"type": "usage.record", "agentId": "main", "model": "model-a", "usage": usage, "time": MS + int(key[-2:])},
        *events,
        kimi_event(key, "step.end", finishReason="end_turn", usage=usage),
    ]


def kimi_turn(first, prompt, answer):
    text = {"type": "text", "text": answer}
    return [
        *kimi_prompt(f"k-{first}", {"type": "text", "text": prompt}),
        *kimi_step(f"s-{first + 1}", kimi_event(f"k-{first + 1}", "content.part", part=text)),
        {"type": "turn.ended", "agentId": "main", "turnId": 0, "reason": "completed", "time": MS + first + 1},
    ]


def kimi_code(directory):
    session = directory / "sessions/wd_project_0000/session_00000000-0000-4000-8000-000000000001"
    image = {"type": "image_url", "imageUrl": {"url": "data:image/png;base64," + png(5)}}
    write(session / "state.json", [{"title": "Look", "cwd": DIR, "createdAt": MS}])
    write(session / "agents/main/wire.jsonl", [
        {"type": "metadata", "protocol_version": "1.5", "created_at": MS},
        *kimi_prompt("k-01", {"type": "text", "text": "Look"}, image),
        *kimi_step(
            "s-02", kimi_event("k-02", "content.part", part={"type": "think", "think": "I read it"}),
            kimi_event("k-03", "tool.call", toolCallId="t1", name="Read", args={"path": "a.txt"}),
            kimi_event("k-04", "tool.result", toolCallId="t1", result={"output": RESULT})),
        *kimi_step("s-05", kimi_event("k-05", "content.part", part={"type": "text", "text": "Done"})),
        *kimi_turn(10, "Second", "Two"),
        # The user went one turn back.
        {"type": "context.undo", "agentId": "main", "count": 1, "time": MS + 13},
        *kimi_turn(14, "Another second", "Another two"),
    ])


def grow_kimi_code(path):
    for n, (prompt, answer) in enumerate(new_turns()):
        write(path, kimi_turn(40 + 2 * n, prompt, answer))


# pi

def pi_entry(key, parent, role, content, **more):
    message = {"role": role, "content": content, "timestamp": MS + int(key[-2:]), **more}
    if role == "assistant":
        message["model"] = "model-a"
        message["usage"] = {"input": 10, "output": 3, "cacheRead": 5, "cacheWrite": 2, "totalTokens": 20,
                            "cost": {"total": 0}}
    return {"type": "message", "id": key, "parentId": parent, "timestamp": AT.format(int(key[-2:])), "message": message}


def pi(directory):
    name = "01a1e0ae-0000-7000-8000-000000000002"
    def text(words):
        return [{"type": "text", "text": words}]
    call = {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "a.txt"}}
    image = {"type": "image", "data": png(7), "mimeType": "image/png"}
    write(directory / "sessions/--home-user-project--" / f"2026-01-02T03-04-00-000Z_{name}.jsonl", [
        {"type": "session", "version": 3, "id": name, "timestamp": AT.format(0), "cwd": DIR},
        {"type": "model_change", "id": "p-01", "parentId": None, "timestamp": AT.format(1), "provider": "p",
         "modelId": "model-a"},
        pi_entry("p-02", "p-01", "user", [*text("Look"), image]),
        pi_entry("p-03", "p-02", "assistant", [{"type": "thinking", "thinking": "I read it"}, call]),
        pi_entry("p-04", "p-03", "toolResult", text(RESULT), toolCallId="t1", toolName="read", isError=False),
        pi_entry("p-05", "p-04", "assistant", text("Done")),
        pi_entry("p-06", "p-05", "user", text("Second")),
        pi_entry("p-07", "p-06", "assistant", text("Two")),
        # The user went back and wrote another second prompt, then went back to the beginning.
        pi_entry("p-08", "p-05", "user", text("Another second")),
        pi_entry("p-09", "p-08", "assistant", text("Another two")),
        pi_entry("p-10", None, "user", text("Another first")),
        pi_entry("p-11", "p-10", "assistant", text("Another one")),
    ])


def grow_pi(path):
    parent = last_record(path, "parentId")["id"]
    for n, (prompt, answer) in enumerate(new_turns()):
        keys = [f"grown-{second}" for second in (40 + 2 * n, 41 + 2 * n)]
        write(path, [pi_entry(keys[0], parent, "user", [{"type": "text", "text": prompt}]),
                     pi_entry(keys[1], keys[0], "assistant", [{"type": "text", "text": answer}])])
        parent = keys[1]


# Qwen Code

def qwen_record(session, key, parent, kind, *parts, **more):
    record = {"uuid": key, "parentUuid": parent, "sessionId": session, "timestamp": AT.format(int(key[-2:])),
              "type": kind, "cwd": DIR, "version": "0.24.4",
              "message": {"role": "model" if kind == "assistant" else "user", "parts": list(parts)}, **more}
    if kind == "assistant":
        record["model"] = "model-a"
        record["usageMetadata"] = {"promptTokenCount": 17, "cachedContentTokenCount": 5, "candidatesTokenCount": 3}
    return record


def qwen_code(directory):
    name = "24d59f7a-0000-4000-8000-000000000001"
    image = {"inlineData": {"mimeType": "image/png", "data": png(8)}}
    call = {"functionCall": {"id": "t1", "name": "read_file", "args": {"file_path": "a.txt"}}}
    result = {"functionResponse": {"id": "t1", "name": "read_file", "response": {"output": RESULT}}}
    write(directory / "projects/-home-user-project/chats" / f"{name}.jsonl", [
        qwen_record(name, "q-01", None, "user", {"text": "Look"}, image),
        qwen_record(name, "q-02", "q-01", "assistant", {"text": "I read it", "thought": True}, call),
        qwen_record(name, "q-03", "q-02", "tool_result", result, toolCallResult={"callId": "t1", "status": "success"}),
        qwen_record(name, "q-04", "q-03", "assistant", {"text": "Done"}),
        qwen_record(name, "q-05", "q-04", "user", {"text": "Second"}),
        qwen_record(name, "q-06", "q-05", "assistant", {"text": "Two"}),
        qwen_record(name, "q-07", "q-04", "user", {"text": "Another second"}),
        qwen_record(name, "q-08", "q-07", "assistant", {"text": "Another two"}),
    ])


def grow_qwen_code(path):
    last = last_record(path, "uuid")
    parent = last["uuid"]
    for n, (prompt, answer) in enumerate(new_turns()):
        keys = [f"grown-{second}" for second in (40 + 2 * n, 41 + 2 * n)]
        write(path, [qwen_record(last["sessionId"], keys[0], parent, "user", {"text": prompt}),
                     qwen_record(last["sessionId"], keys[1], keys[0], "assistant", {"text": answer})])
        parent = keys[1]


# The generic format

def jsonl(directory):
    url = "data:image/png;base64," + png(11)
    call = {"id": "t1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a.txt"}'}}
    usage = {"input_tokens": 17, "output_tokens": 3, "cached_tokens": 5}
    write(directory / "chat.jsonl", [
        {"type": "session", "id": "chat-1", "title": "Look", "working_dir": DIR},
        {"id": "1", "role": "user", "timestamp": AT.format(1), "content": [
            {"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": url}}]},
        {"id": "2", "role": "assistant", "content": "", "reasoning": "I read it", "tool_calls": [call], "usage": usage},
        {"id": "3", "role": "tool", "tool_call_id": "t1", "content": RESULT},
        {"id": "4", "role": "assistant", "content": "Done", "usage": usage},
        {"id": "5", "role": "user", "content": "Second"},
        {"id": "6", "role": "assistant", "content": "Two", "usage": usage},
        {"id": "7", "role": "user", "content": "Another second", "parent_id": "4"},
        {"id": "8", "role": "assistant", "content": "Another two", "usage": usage},
    ])


def grow_jsonl(path):
    for n, (prompt, answer) in enumerate(new_turns()):
        write(path, [{"id": f"grown-{n}-1", "role": "user", "content": prompt},
                     {"id": f"grown-{n}-2", "role": "assistant", "content": answer}])


SAMPLES = {
    "claude-code": claude_code, "codex": codex, "gemini-cli": gemini_cli, "goose": goose, "jsonl": jsonl,
    "kimi-code": kimi_code, "opencode": opencode, "pi": pi, "qwen-code": qwen_code,
}
GROW = {
    "claude-code": ("*.jsonl", grow_claude_code), "codex": ("rollout-*.jsonl", grow_codex),
    "gemini-cli": ("session-*.jsonl", grow_gemini_cli), "goose": ("sessions.db", grow_goose),
    "jsonl": ("*.jsonl", grow_jsonl), "kimi-code": ("wire.jsonl", grow_kimi_code),
    "opencode": ("opencode.db", grow_opencode), "pi": ("*.jsonl", grow_pi),
    "qwen-code": ("*.jsonl", grow_qwen_code),
}


def grow(tool, path):
    """Adds two turns to the largest session below a path."""
    pattern, append = GROW[tool]
    files = [file for file in pathlib.Path(path).rglob(pattern) if file.is_file()]
    append(max(files, key=lambda file: file.stat().st_size))

"""Sessions of other tools, imported by ctx and continued with each provider: the next request has the whole history once."""

import json
import shutil
import subprocess

import tool_sessions
from agents import by_name
from cell_environment import LEFT_SECONDS, CellEnvironment
from fake_model import answer_to

# The providers that continue: model servers by the API that ctx uses, and agents.
DIRECT = ("openai", "responses", "anthropic")
AGENTS = ("claude", "codex", "opencode", "qwen", "pi")
PROVIDERS = (*DIRECT, *AGENTS)
NAME = "continue"
TURNS = 2
# Includes the start of an agent on a busy system.
SECONDS_MAX = 180
# The messages of a request from ctx to a model API.
SHAPE = ["user", "assistant", "call", "result", "assistant", "user", "call", "result", "assistant", "user"]


def rows(only, tools):
    """The chosen cells: (tool, provider)."""
    return [(tool, provider) for provider in PROVIDERS if provider in only for tool in tool_sessions.ALL if tool in tools]


def environment(suite, tool, provider):
    """The environment of a cell, with its provider only."""
    agents, direct = ([by_name(provider)], ()) if provider in AGENTS else ([], (provider,))
    return CellEnvironment(suite, agents, f"{NAME}-{tool}" if agents else f"{NAME}-{tool}-{provider}", direct)


def continue_session(bench, tool, provider):
    """Imports a session, deletes its source and continues it twice with the provider in an empty HOME."""
    source = tool_sessions.ALL[tool]
    session = imported(bench, source)
    history = [*tool_sessions.HISTORY]
    for question in ("How many pears are left?", "And how many plums?"):
        mark, text = bench.mark(question)
        output = ctx(bench, bench.place / "user", "continue", session, text, "--with", provider)
        assert answer_to(mark) in output, f"the output has no answer: {output[:400]}"
        history.append(mark)
        requests = [each for each in bench.model.requests if bench.model.is_conversation(each) and each.marker == mark]
        assert requests, "no request reached the model"
        for request in requests:
            assert_whole_history(request, history, source.texts)
            if provider in DIRECT:
                expected = SHAPE + ["assistant", "user"] * (len(bench.marks) - 1)
                assert shape(request) == expected, f"request {request.number} of model.jsonl has {shape(request)}"
        left = bench.running_processes(LEFT_SECONDS)
        assert not left, f"left over after `ctx continue`: {list(left.values())}"
        history.append(answer_to(mark))


def imported(bench, source):
    """Imports the session from the tool's own place and returns its id. The source is deleted afterwards."""
    home = bench.place / "home-of-tool"
    path = source.write(home, bench.work)
    where = [str(path)] if source.tool == "jsonl" else []
    found = json.loads(ctx(bench, home, "import", "--from", source.tool, *where))["imported"]
    assert len(found) == 1, f"imported: {json.dumps(found)[:500]}"
    one = found[0]
    assert (one["effect"], one["turns"], one["problems"]) == ("created", TURNS, []), f"imported: {json.dumps(one)[:500]}"
    shown = ctx(bench, home, "session", "show", one["session"], "--full")
    stored = [part for message in json.loads(shown)["messages"] for part in message["content"] if part["type"] != "record"]
    once(json.dumps(stored), (*tool_sessions.REASONING, *(text for text in tool_sessions.HISTORY if not source.texts or text != "result-one")))
    shutil.rmtree(home)
    return one["session"]


def ctx(bench, home, *arguments):
    """The standard output of a command of ctx that must succeed."""
    done = subprocess.run(
        [str(bench.suite.ctx), "--data", str(bench.ctx.data), "--json", *arguments],
        cwd=bench.work,
        env={**bench.ctx.environment, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    with open(bench.ctx.log, "ab") as log:
        log.write(done.stderr)
    assert done.returncode == 0, f"ctx {' '.join(arguments)} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-600:]}"
    return done.stdout.decode()


def once(text, words):
    """Asserts that a text contains each word exactly once."""
    wrong = {word: text.count(word) for word in words if text.count(word) != 1}
    assert not wrong, f"these texts must be there once: {wrong}"


def assert_whole_history(request, history, more):
    """Asserts that a request has each text of the history once and in order, and that it ends with the newest question."""
    where = f"request {request.number} of model.jsonl"
    once(request.text, (*history, *more))
    repeated = [word for word in tool_sessions.REASONING if request.text.count(word) > 1]
    assert not repeated, f"{where} repeats reasoning: {repeated}"
    conversation = json.dumps(request.conversation)
    places = [conversation.find(word) for word in history]
    assert -1 not in places, f"{where} has a text outside of the conversation: {places}"
    assert places == sorted(places), f"{where} has the history in another order: {places}"
    # Claude Code adds a system message after the prompt.
    of_user = [item for item in request.conversation if item.get("role") == "user"]
    assert history[-1] in json.dumps(of_user[-1]), f"{where} does not end with the new question"


def shape(request):
    """The kinds of the messages, calls and results of a request, in order."""
    found = []
    for item in request.conversation:
        content = item.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text"}] if content else []
        names = {"tool_use": "call", "tool_result": "result", "function_call": "call", "function_call_output": "result"}
        found += [names[item["type"]]] if item.get("type") in names else []
        found += ["result"] if item.get("role") == "tool" else [names.get(block["type"], item["role"]) for block in blocks]
        found += ["call"] * len(item.get("tool_calls") or [])
    return found

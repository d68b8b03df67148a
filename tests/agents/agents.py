"""The agents under test: how each is started and configured, its tools, and what it does not support."""

import dataclasses
import json
import pathlib
from typing import Callable

from wire_formats import Call, Say

# The API key of every agent. It must never appear in the store or the logs of ctx.
KEY = "sk-agents-suite-9f3b61c0"
# Cells in which the agent requests a permission.
ASKING = ("permission", "cancel-asking", "kill-asking")
# Codex asks a model to review commands before they run.
REVIEWED = {"risk_level": "low", "user_authorization": "high", "outcome": "allow", "rationale": "It is a test."}
ONE_PROCESS = "the agent is a single process"
NO_STEERING = "the agent does not support steering"
NO_EXPORT = dict.fromkeys(("export", "export-foreign"), "`ctx export` does not write sessions of this agent")


@dataclasses.dataclass
class Agent:
    """One agent. `configure` writes its configuration files to a HOME and returns its environment variables."""

    name: str
    kind: str
    program: str
    arguments: list
    configure: Callable
    shell: Callable
    # The tool calls with which it writes a file and calls a tool of ctx.
    write: Callable = None
    own: Callable = None
    # Cell → why the agent does not support it.
    unsupported: dict = dataclasses.field(default_factory=dict)
    # The answer to requests outside the conversation that have tools; None for requests of the conversation.
    side: Callable = lambda request: None
    # Whether it drops the text of a prompt that is cancelled during the model's response.
    forgets_cancelled: bool = False
    # Whether it may refuse to load a conversation. ctx hands the history over then.
    may_refuse_load: bool = False

    def command(self, installed):
        return [str(installed / "node_modules" / ".bin" / self.program), *self.arguments]


def write_file(path, text):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def claude(home, url):
    return {
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_MODEL": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
    }


def codex(home, url):
    write_file(
        home / ".codex/config.toml",
        'model = "scripted"\nmodel_provider = "tests"\n[model_providers.tests]\nname = "tests"\n'
        f'base_url = "{url}/v1"\nenv_key = "TESTS_API_KEY"\nwire_api = "responses"\nsupports_websockets = false\n',
    )
    return {"TESTS_API_KEY": KEY}


def opencode(home, url):
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Tests",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {"scripted": {"name": "Scripted", "limit": {"context": 128000, "output": 4096}}},
    }
    settings = {
        "model": "tests/scripted",
        "small_model": "tests/scripted",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"bash": "ask", "edit": "ask"},
        "provider": {"tests": provider},
    }
    write_file(home / ".config/opencode/opencode.json", json.dumps(settings))
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


def qwen(home, url):
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "tools": {"approvalMode": "default"},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        # Otherwise it asks the model to extract memories, outside the conversation.
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
    }
    write_file(home / ".qwen/settings.json", json.dumps(settings))
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "scripted"}


def gemini(home, url):
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    write_file(home / ".gemini/settings.json", json.dumps(settings))
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def pi(home, url):
    model = {"id": "scripted", "name": "Scripted", "contextWindow": 32768, "maxTokens": 4096}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": KEY, "models": [model]}
    write_file(home / ".pi/agent/models.json", json.dumps({"providers": {"tests": provider}}))
    return {"PI_OFFLINE": "1"}


def suggestion(request):
    """The answer to a request for what the user might type next."""
    return Say("Nothing.") if "[SUGGESTION MODE:" in request.text else None


ALL = [
    Agent(
        "claude",
        "acp",
        "claude-agent-acp",
        [],
        claude,
        lambda line: Call("Bash", {"command": line, "description": "run"}),
        write=lambda path, text: Call("Write", {"file_path": path, "content": text}),
        own=lambda name, arguments: [
            Call("ToolSearch", {"query": f"select:mcp__ctx__{name}", "max_results": 5}),
            Call(f"mcp__ctx__{name}", arguments),
        ],
        side=suggestion,
    ),
    Agent(
        "codex",
        "acp",
        "codex-acp",
        [],
        codex,
        lambda line: Call("exec_command", {"cmd": line}),
        own=lambda name, arguments: [Call(name, arguments, "mcp__ctx")],
        side=lambda request: Say(json.dumps(REVIEWED)) if '"codex_output_schema"' in request.text else None,
        unsupported={**dict.fromkeys(ASKING, "codex-acp uses its own review instead of permissions"), "write": "codex writes files with shell commands"},
    ),
    Agent(
        "opencode",
        "acp",
        "opencode",
        ["acp"],
        opencode,
        lambda line: Call("bash", {"command": line, "description": "run"}),
        write=lambda path, text: Call("write", {"filePath": path, "content": text}),
        own=lambda name, arguments: [Call(f"ctx_{name}", arguments)],
        unsupported={"steer": NO_STEERING, "kill-child": ONE_PROCESS},
    ),
    Agent(
        "qwen",
        "acp",
        "qwen",
        ["--acp"],
        qwen,
        lambda line: Call("run_shell_command", {"command": line, "description": "run", "is_background": False}),
        write=lambda path, text: Call("write_file", {"file_path": path, "content": text}),
        own=lambda name, arguments: [Call("tool_call", {"name": f"mcp__ctx__{name}", "arguments": arguments})],
        side=suggestion,
        unsupported={"steer": NO_STEERING, "hooks": "`ctx hook` does not support qwen-code", **NO_EXPORT},
    ),
    Agent(
        "gemini",
        "acp",
        "gemini",
        ["--acp"],
        gemini,
        lambda line: Call("run_shell_command", {"command": line, "description": "run"}),
        write=lambda path, text: Call("write_file", {"file_path": path, "content": text}),
        unsupported={"steer": NO_STEERING, "own-tools": "gemini-cli hides tools that are named ask_user", **NO_EXPORT},
        forgets_cancelled=True,
        may_refuse_load=True,
    ),
    Agent(
        "pi",
        "pi",
        "pi",
        ["--mode", "rpc", "--provider", "tests", "--model", "scripted"],
        pi,
        lambda line: Call("bash", {"command": line}),
        write=lambda path, text: Call("write", {"path": path, "content": text}),
        unsupported={**dict.fromkeys(ASKING, "pi requests no permissions"), "own-tools": "pi does not support MCP", "kill-child": ONE_PROCESS},
    ),
]


def by_name(name):
    return next(agent for agent in ALL if agent.name == name)

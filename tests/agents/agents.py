"""The agents under test: how each is started, configured and told to run a command, and what it cannot do."""

import dataclasses
import json
import pathlib
from typing import Callable

from wires import Call, Say

# What every agent is given as its key. It must never turn up in ctx's store or logs.
KEY = "sk-agents-suite-9f3b61c0"
# The cells in which an agent asks for permission.
ASKING = ("permission", "cancel-asking", "kill-asking")
# Codex lets a model review what it is about to do.
REVIEWED = {"risk_level": "low", "user_authorization": "high", "outcome": "allow", "rationale": "It is a test."}
ONE_PROCESS = "it is one process"
NO_STEERING = "it does not offer steering"


@dataclasses.dataclass
class Agent:
    """One agent. `configure` writes its files into a HOME and returns its environment."""

    name: str
    kind: str
    program: str
    arguments: list
    configure: Callable
    shell: Callable
    # How it is told to write a file, and to call a tool of ctx: one call, or what leads to it.
    write: Callable = None
    own: Callable = None
    # Cell → why it cannot be.
    impossible: dict = dataclasses.field(default_factory=dict)
    # What it is answered where it asks the model beside the conversation although it offers tools; nothing for its own requests.
    side: Callable = lambda request: None
    # It drops the text of a prompt that is cancelled while the model speaks.
    forgets_cancelled: bool = False
    # Its session cannot always be taken up again; the history is handed over then.
    may_refuse_load: bool = False

    def command(self, installed):
        return [str(installed / "node_modules" / ".bin" / self.program), *self.arguments]


def put(path, text):
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
    put(
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
    put(home / ".config/opencode/opencode.json", json.dumps(settings))
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


def qwen(home, url):
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "tools": {"approvalMode": "default"},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        # It would ask the model to extract memories beside the conversation.
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
    }
    put(home / ".qwen/settings.json", json.dumps(settings))
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "scripted"}


def gemini(home, url):
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    put(home / ".gemini/settings.json", json.dumps(settings))
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def pi(home, url):
    model = {"id": "scripted", "name": "Scripted", "contextWindow": 32768, "maxTokens": 4096}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": KEY, "models": [model]}
    put(home / ".pi/agent/models.json", json.dumps({"providers": {"tests": provider}}))
    return {"PI_OFFLINE": "1"}


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
        side=lambda request: Say("Nothing.") if "[SUGGESTION MODE:" in request.text else None,
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
        impossible={**dict.fromkeys(ASKING, "codex-acp reviews by itself"), "write": "codex writes files by commands"},
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
        impossible={"steer": NO_STEERING, "kill-child": ONE_PROCESS},
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
        impossible={"steer": NO_STEERING},
    ),
    Agent(
        "gemini",
        "acp",
        "gemini",
        ["--acp"],
        gemini,
        lambda line: Call("run_shell_command", {"command": line, "description": "run"}),
        write=lambda path, text: Call("write_file", {"file_path": path, "content": text}),
        impossible={"steer": NO_STEERING, "own-tools": "gemini-cli hides every tool that is called ask_user"},
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
        impossible={**dict.fromkeys(ASKING, "pi never asks"), "own-tools": "pi knows no MCP", "kill-child": ONE_PROCESS},
    ),
]


def named(name):
    return next(agent for agent in ALL if agent.name == name)

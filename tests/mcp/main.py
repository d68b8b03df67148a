"""Real MCP clients against a real ctx: the conformance suite, mcp-inspector and fastmcp.

    python3 tests/mcp/main.py --ctx target/debug/ctx --target target/mcp

Installs the clients under the target directory, once per version. The exit code is 0 only if everything passed.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

NPM = ["node@24", "@modelcontextprotocol/conformance@0.1.16", "@modelcontextprotocol/inspector@2.12.0"]
PYPI = ["fastmcp==4.1.2"]
# Scenarios that call fixtures, by the reason that docs/mcp.md gives.
FIXTURES = """
tools-call-simple-text tools-call-image tools-call-audio tools-call-embedded-resource tools-call-mixed-content
tools-call-with-logging tools-call-error tools-call-with-progress json-schema-2020-12 tools-call-sampling
tools-call-elicitation elicitation-sep1034-defaults elicitation-sep1330-enums resources-read-text resources-read-binary
resources-templates-read resources-subscribe resources-unsubscribe prompts-get-simple prompts-get-with-args
prompts-get-embedded-resource prompts-get-with-image
""".split()
TIMEOUT_S = 120


def install(target):
    """Installs the clients, unless this version of the list is installed."""
    stamp, wanted = target / "installed.json", json.dumps([NPM, PYPI])
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(target / "npm")]
    subprocess.run([*npm, *NPM], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(target / "venv")], check=True)
    subprocess.run([str(target / "venv/bin/pip"), "install", "--quiet", *PYPI], check=True)
    stamp.write_text(wanted)


class Project:
    """A directory with a store, a decision in it, and a server."""

    def __init__(self, ctx, clients):
        self.ctx = str(ctx)
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="ctx-mcp-"))
        path = f"{clients / 'npm/node_modules/.bin'}:{os.environ['PATH']}"
        self.env = {"PATH": path, "HOME": str(self.root), "CTX_DISCOVERY_ENABLED": "false", "CTX_LOG": "error"}
        self.run("init")
        self.run("stage", "start", "Choose a colour")
        self.run("stage", "note", "Decision: the shed is green")
        self.run("stage", "compact", "-m", "The shed is green")
        listen = [self.ctx, "serve", "--listen", "127.0.0.1:0", "--json"]
        self.server = subprocess.Popen(listen, cwd=self.root, env=self.env, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.server.stdout.readline())["url"] + "/mcp"

    def run(self, *arguments):
        subprocess.run([self.ctx, *arguments], cwd=self.root, env=self.env, check=True, stdout=subprocess.DEVNULL)

    def client(self, *command):
        done = subprocess.run(command, cwd=self.root, env=self.env, capture_output=True, text=True, timeout=TIMEOUT_S)
        return done.returncode, done.stdout + done.stderr

    def close(self):
        self.server.terminate()
        self.server.wait(timeout=30)
        shutil.rmtree(self.root, ignore_errors=True)


def conformance(project):
    _, output = project.client("conformance", "server", "--url", project.url, "--suite", "all")
    results = dict(re.findall(r"^[✓✗] (\S+): \d+ passed, (\d+) failed", output, re.M))
    assert results, output[-2000:]
    failed = sorted(name for name, count in results.items() if count != "0")
    unexpected = [name for name in failed if name not in FIXTURES]
    assert not unexpected, f"failed: {unexpected}\n{output[-3000:]}"
    passed = sorted(set(results) - set(failed))
    return f"{len(passed)} scenarios passed, {len(failed)} need fixtures"


def inspector(project):
    listed = project.client("mcp-inspector", "--cli", project.ctx, "mcp", "--method", "tools/list")
    # Log lines of the server follow the document.
    tools = json.JSONDecoder().raw_decode(listed[1].lstrip())[0]["tools"]
    call = ["mcp-inspector", "--cli", project.ctx, "mcp", "--method", "tools/call", "--tool-name"]
    code, output = project.client(*call, "search", "--tool-arg", "query=shed")
    assert code == 0 and "The shed is green" in output, output
    code, output = project.client("mcp-inspector", "--cli", project.url, "--transport", "http", "--method", "resources/list")
    assert code == 0 and "ctx://session/" in output, output
    return f"{len(tools)} tools on stdio, resources over HTTP"


FASTMCP = '''
import asyncio, sys
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

async def drive(client):
    async with client:
        names = [tool.name for tool in await client.list_tools()]
        assert "search" in names and "context_pack" in names, names
        steps = []
        async def report(progress, total, message):
            steps.append(message)
        pack = await client.call_tool("context_pack", {"task": "colour", "budget": 500}, progress_handler=report)
        assert "the shed is green" in pack.data["text"] if isinstance(pack.data, dict) else str(pack.data), pack
        assert steps, "no progress"
        wrong = await client.call_tool("read_turn", {"turn": "abcd"}, raise_on_error=False)
        assert wrong.is_error, wrong
        assert await client.list_resources() and await client.list_resource_templates()
        read = await client.read_resource("ctx://session/main")
        assert "main" in read[0].text, read
        prompt = await client.get_prompt("continue_where_we_left_off", {"session": "main"})
        assert "Continue the work" in prompt.messages[0].content.text, prompt

async def main(ctx, url):
    await drive(Client(StdioTransport(command=ctx, args=["mcp"])))
    await drive(Client(url))

asyncio.run(main(*sys.argv[1:]))
'''


def fastmcp(project, python):
    code, output = project.client(python, "-c", FASTMCP, project.ctx, project.url)
    assert code == 0, output
    return "stdio and HTTP"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ctx", type=pathlib.Path, required=True)
    parser.add_argument("--target", type=pathlib.Path, required=True)
    options = parser.parse_args()
    target = options.target.resolve()
    install(target)
    project, failed = Project(options.ctx.resolve(), target), 0
    clients = [
        ("conformance", lambda: conformance(project)),
        ("mcp-inspector", lambda: inspector(project)),
        ("fastmcp", lambda: fastmcp(project, str(target / "venv/bin/python"))),
    ]
    try:
        for name, drive in clients:
            try:
                print(f"ok      {name}: {drive()}")
            except (AssertionError, subprocess.TimeoutExpired, ValueError) as fault:
                failed += 1
                print(f"FAILED  {name}: {fault}")
    finally:
        project.close()
    print(f"{len(clients) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

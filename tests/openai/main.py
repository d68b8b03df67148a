"""Official SDKs and a chat program hold conversations of ten turns over kills of `ctx serve`.

Usage: main.py --ctx PROGRAM --target DIRECTORY [--only python|node|llm] [--form FORM]
Installs what is missing into DIRECTORY, once. Each conversation has a server of its own, which is killed twice: when the
model receives a request, and in the middle of an answer. Afterwards the server must have one session of ten turns.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import scripted_model

HERE = pathlib.Path(__file__).parent
PYTHON = ["openai==3.51.0", "llm==0.36"]
NODE = "openai@6.49.0"
SECONDS_MAX = 120
TURNS = 10
# The number of the model's request, and of the words after which the server is killed.
KILLS = [(4, 0), (9, 3)]


def install_python(cache):
    """A virtual environment with the packages; renamed into place when it is complete, so its scripts do not start."""
    target = cache / ("python-" + "-".join(PYTHON).replace("==", "-"))
    if not target.exists():
        print("installing", *PYTHON, flush=True)
        part = cache / "python.part"
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", part], check=True)
        subprocess.run([part / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON], check=True)
        part.rename(target)
    return target / "bin/python"


def install_node(cache):
    """The SDK for Node beside the script that uses it."""
    target = cache / NODE.replace("@", "-")
    if not target.exists():
        print("installing", NODE, flush=True)
        part = cache / "node.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", part, NODE], check=True)
        part.rename(target)
    shutil.copy(HERE / "node_sdk.mjs", target / "node_sdk.mjs")
    return target / "node_sdk.mjs"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Served:
    """A `ctx serve` on a fixed port that is killed at the points of `KILLS` and started again."""

    def __init__(self, program, place):
        self.program, self.place, self.port = program, place, free_port()
        self.model = scripted_model.Model()
        self.kills, self.lock = list(KILLS), threading.Lock()
        self.model.point = self.point
        data = place / "data"
        data.mkdir()
        (data / "ctx.toml").write_text(
            '[defaults]\nprovider = "model"\n[providers.model]\nkind = "openai"\nmodel = "m"\n'
            f'base_url = "{self.model.url}"\n',
            encoding="utf-8",
        )
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = [self.program, "--data", self.place / "data", "serve", "--listen", f"127.0.0.1:{self.port}", "--json"]
        environment = {"HOME": str(self.place), "PATH": os.environ["PATH"], "CTX_LOG": "error", "CTX_DISCOVERY_ENABLED": "false"}
        self.child = subprocess.Popen(command, cwd=self.place, env=environment, stdout=subprocess.PIPE)
        if not self.child.stdout.readline():
            raise SystemExit("ctx did not start")

    def point(self, number, words):
        """Called by the model: kills the server at a point of `KILLS`, once each."""
        with self.lock:
            if not self.kills or number < self.kills[0][0] or words != self.kills[0][1]:
                return
            self.kills.pop(0)
            if words:
                # The words reach the disk within the interval of checkpoints.
                time.sleep(0.4)
            self.child.kill()
            self.child.wait()
            self.start()

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)

    def check(self):
        """One session with ten turns, both kills happened, and the model received every message once."""
        faults = list(self.model.faults)
        if self.kills:
            faults.append(f"the server was not killed at {self.kills}")
        sessions = self.get("/api/sessions")["sessions"]
        if [session["turn_count"] for session in sessions] != [TURNS]:
            faults.append(f"sessions and turns: {[(s['label'], s['turn_count']) for s in sessions]}")
        return faults

    def end(self):
        self.child.kill()
        self.child.wait()
        self.model.server.shutdown()


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, **options)
    if done.returncode != 0:
        return [f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}"]
    sys.stdout.write(done.stdout)
    return []


def llm(python, served):
    """Ten processes of the program `llm`, which keeps its history in a database of its own."""
    settings = served.place / "llm"
    settings.mkdir()
    (settings / "extra-openai-models.yaml").write_text(
        f"- model_id: ctx\n  model_name: ctx\n  api_base: {served.url}/v1\n", encoding="utf-8"
    )
    environment = {"LLM_USER_PATH": str(settings), "HOME": str(served.place), "PATH": os.environ["PATH"], "OPENAI_API_KEY": "any"}
    for turn in range(TURNS):
        more = ["-c"] if turn else ["-m", "ctx"]
        for _ in range(3):
            done = subprocess.run(
                [python, "-m", "llm", *more, f"question {turn}"],
                env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, stdin=subprocess.DEVNULL,
            )
            if done.returncode == 0:
                break
            print("  sent again after:", done.stderr.strip().splitlines()[-1], flush=True)
        if done.stdout.strip() != scripted_model.answer_to(2 * turn + 1):
            return [f"turn {turn}: {done.stdout!r} {done.stderr!r}"]
    print(f"llm: {TURNS} turns")
    return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ctx", required=True, type=pathlib.Path)
    parser.add_argument("--target", required=True, type=pathlib.Path)
    parser.add_argument("--only", choices=["python", "node", "llm"])
    parser.add_argument("--form", help="one of the forms of a client, such as chat_stream")
    arguments = parser.parse_args()
    arguments.target.mkdir(parents=True, exist_ok=True)
    cells = []
    if arguments.only in (None, "python", "llm"):
        python = install_python(arguments.target)
    if arguments.only in (None, "python"):
        for form in ["chat", "chat_stream", "responses", "conversation_stream"]:
            cells.append((f"python {form}", lambda served, form=form: run([python, HERE / "python_sdk.py", served.url + "/v1", form])))
    if arguments.only in (None, "node"):
        script = install_node(arguments.target)
        for form in ["chat", "chat_stream", "responses", "responses_stream"]:
            cells.append((f"node {form}", lambda served, form=form: run(["node", script, served.url + "/v1", form])))
    if arguments.only in (None, "llm"):
        cells.append(("llm", lambda served: llm(python, served)))
    cells = [(name, cell) for name, cell in cells if arguments.form is None or name.endswith(" " + arguments.form)]
    failed = 0
    for name, cell in cells:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            served = Served(arguments.ctx.absolute(), pathlib.Path(place))
            try:
                faults = cell(served) + served.check()
            finally:
                served.end()
        failed += bool(faults)
        print(f"{name}: {'FAILED' if faults else 'ok'} in {time.monotonic() - began:.1f} s", *faults, sep="\n  ", flush=True)
    print(f"{len(cells) - failed} passed; {failed} failed;")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

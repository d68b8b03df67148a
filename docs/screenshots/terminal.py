#!/usr/bin/env python3
"""Renders lists of ctx in terminals of 60, 100 and 160 columns to docs/screenshots/terminal-lists-*.webp.

Usage: docs/screenshots/terminal.py PATH_OF_CTX. It fills a store in a temporary directory, runs the verbs with colours in each
width, turns the escape sequences of the styles into HTML and photographs it with Chromium.
"""
import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CTX = os.path.abspath(sys.argv[1])
OUT = pathlib.Path(__file__).parent
COLOURS = {"31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "34": "#61afef", "35": "#c678dd", "36": "#56b6c2"}
INDEXED = {"1": "31", "2": "32", "3": "33", "4": "34", "5": "35", "6": "36"}


def run(directory, *words, width=None):
    env = {"PATH": os.environ["PATH"], "HOME": directory, "CTX_DISCOVERY_ENABLED": "false", "TZ": "UTC"}
    env |= {"COLUMNS": str(width)} if width else {}
    return subprocess.run([CTX, *words], cwd=directory, env=env, capture_output=True, text=True).stdout


def as_html(text):
    out, style = "", {}
    for part in re.split(r"(\x1b\[[0-9;]*m)", text):
        codes = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if not codes:
            css = ";".join(f"{key}:{value}" for key, value in style.items())
            out += f'<span style="{css}">{html.escape(part)}</span>'
            continue
        numbers = (codes[1] or "0").split(";")
        if numbers[:2] == ["38", "5"]:
            style["color"] = COLOURS[INDEXED.get(numbers[2], "36")]
            continue
        for code in numbers:
            if code in ("0", "39", "22"):
                style = {} if code == "0" else {k: v for k, v in style.items() if (k == "color") != (code == "39")}
            elif code == "1":
                style["font-weight"] = "bold"
            elif code == "2":
                style["opacity"] = "0.6"
            elif code in COLOURS:
                style["color"] = COLOURS[code]
    return out


def fill(directory):
    run(directory, "init")
    run(directory, "stage", "start", "Add retry logic to the client")
    source = pathlib.Path(directory, "client.rs")
    source.write_text("fn send() {}\n")
    run(directory, "stage", "observe", "file-read", "client.rs")
    source.write_text("fn send() {}\nfn retry() {}\n")
    run(directory, "stage", "observe", "file-write", "client.rs")
    run(directory, "stage", "observe", "command", "--exit", "0", "--", "cargo", "test")
    run(directory, "stage", "ask", "How many attempts?")
    run(directory, "stage", "answer", "Five")
    run(directory, "stage", "seal", "-m", "Retries five times, with a log line for each attempt")
    run(directory, "stage", "start", "Port the parser")
    run(directory, "stage", "abort", "--reason", "not needed")
    run(directory, "run", "help", "--label", "talk")
    run(directory, "session", "send", "talk", "permission please")
    run(directory, "run", "Größe des Puffers: why does the test fail?")
    run(directory, "session", "new", "--title", "A plan for the migration of the schema to version 2", "--label", "plan")


with tempfile.TemporaryDirectory() as directory:
    fill(directory)
    for width in (60, 100, 160):
        shown = ""
        for words in (["session", "list"], ["log"], ["provider", "list"], ["search", "retry"],
                      ["session", "tree", "talk"]):
            shown += f"\x1b[2m$ ctx {' '.join(words)}\x1b[0m\n"
            shown += run(directory, *words, "--color", "always", width=width) + "\n"
        shown = shown.replace(directory, "/home/ann/shop".ljust(len(directory)))
        page = pathlib.Path(directory, "page.html")
        page.write_text(
            "<meta charset=utf-8><style>body{margin:0;background:#1e222a;color:#d7dae0}"
            "pre{margin:16px;font:15px/1.35 'DejaVu Sans Mono','Noto Sans Mono CJK JP',monospace}</style>"
            f"<pre>{as_html(shown)}</pre>"
        )
        rows = shown.count("\n") + 1
        size = f"{int(width * 9.1) + 40},{int(rows * 20.3) + 32}"
        target = OUT / f"terminal-lists-{width}.webp"
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}",
             f"--screenshot={target.resolve()}", f"file://{page}"], check=True, capture_output=True,
        )
        print(target)

"""Installs Node and the agents from npm, each in a directory of its own, once per version."""

import json
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).parent
VERSIONS = json.loads((HERE / "versions.json").read_text(encoding="utf-8"))
SECONDS_MAX = 600


def place(cache, name):
    """Where one is; the version is part of the name, so that another one is another directory."""
    package, version = VERSIONS[name].rsplit("@", 1)
    return cache / f"{name}-{version}"


def install(cache, name):
    """Installs one unless it is there; the directory appears only when it is whole."""
    target = place(cache, name)
    if target.exists():
        return target
    print(f"installing {VERSIONS[name]}", flush=True)
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    log = part.with_suffix(".log")
    with open(log, "w", encoding="utf-8") as out:
        command = ["npm", "install", "--prefix", str(part), "--no-audit", "--no-fund", VERSIONS[name]]
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=SECONDS_MAX, check=False)
    if done.returncode != 0:
        raise SystemExit(f"npm could not install {VERSIONS[name]}: see {log}")
    os.rename(part, target)
    return target


def everything(cache, names):
    """Node and these agents: name → directory."""
    cache.mkdir(parents=True, exist_ok=True)
    return {name: install(cache, name) for name in ["node", *names]}

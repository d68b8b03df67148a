"""Installs Node and the agents from npm, once per version, each in its own directory."""

import json
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).parent
VERSIONS = json.loads((HERE / "versions.json").read_text(encoding="utf-8"))
SECONDS_MAX = 600


def directory(cache, name):
    """The directory of a package; its name contains the version."""
    package, version = VERSIONS[name].rsplit("@", 1)
    return cache / f"{name}-{version}"


def install(cache, name):
    """Installs a package unless its directory exists. The directory is renamed into place at the end."""
    target = directory(cache, name)
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


def install_all(cache, names):
    """Installs Node and these agents; name → directory."""
    cache.mkdir(parents=True, exist_ok=True)
    return {name: install(cache, name) for name in ["node", *names]}

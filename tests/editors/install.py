"""Installs the clients of ACP, once per version, each in its own directory."""

import json
import pathlib
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).parent
VERSIONS = json.loads((HERE / "versions.json").read_text(encoding="utf-8"))
SECONDS_MAX = 900


def run(command, log, **options):
    with open(log, "w", encoding="utf-8") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=SECONDS_MAX, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed: see {log}")


def npm(part, package, log):
    run(["npm", "install", "--prefix", str(part), "--no-audit", "--no-fund", package], log)


def pip(part, package, log):
    venv.create(part, with_pip=True)
    run([str(part / "bin" / "python"), "-m", "pip", "install", "--quiet", package], log)


def cargo(target, log):
    """Builds the client with the Rust crate, outside the workspace. Cargo knows whether it is up to date."""
    manifest = HERE / "rust-client" / "Cargo.toml"
    run(["cargo", "build", "--quiet", "--manifest-path", str(manifest), "--target-dir", str(target)], log)
    return target / "debug" / "rust-client"


def install(cache, name):
    """The directory of a client, or the program of the Rust client."""
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / f"{name}.log"
    if name == "rust":
        return cargo(cache / "rust", log)
    version = VERSIONS[name].replace("==", "@").rsplit("@", 1)[1]
    target = cache / f"{name}-{version}"
    # A virtual environment cannot be moved into place, so a file marks that it is complete.
    done = cache / f"{name}-{version}.done"
    if done.exists():
        return target
    print(f"installing {VERSIONS[name]}", file=sys.stderr, flush=True)
    shutil.rmtree(target, ignore_errors=True)
    if name == "python":
        pip(target, VERSIONS[name], log)
    else:
        target.mkdir(parents=True)
        npm(target, VERSIONS[name], log)
    done.touch()
    return target

"""Install the servers of the list, each into a folder of its own in the cache, as they were when the new protocol came.

What a package depends on is resolved as of 2026-07-28, so that an old server gets the libraries it was published with.
Install scripts are not run. Which SDK a server was built with is read from what was installed: that is how the sweep
knows that a server is an old one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from sweep_list import Server

DAY = "2026-07-28"
"""The day on which the new protocol came: nothing published later is installed."""
INSTALL_SECONDS = 600
OLD_SDKS = {"npm": "@modelcontextprotocol/sdk", "pypi": "mcp"}
_ONE_AT_A_TIME = threading.Lock()
READ_SDK = "from importlib.metadata import version; print(version('mcp'))"


class NotInstalled(Exception):
    """It could not be installed, or is not what the list says."""


@dataclass(frozen=True, slots=True)
class Installed:
    server: Server
    folder: Path
    bin: Path
    sdk: str


def folder_of(server: Server, cache: Path) -> Path:
    return cache / server.registry / f"{server.package.replace('/', '+')}-{server.version}"


def install(server: Server, cache: Path) -> Installed:
    """Install a server unless it is there, and check that it is an old one."""
    folder = folder_of(server, cache)
    stamp = folder / f".ready-{'+'.join(server.extra)}".replace("/", "+").rstrip("-")
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if server.registry == "npm":
            _npm(server, folder)
        else:
            _pip(server, folder, cache)
        stamp.touch()
    bin_folder = folder / "node_modules" / ".bin" if server.registry == "npm" else folder / "bin"
    return Installed(server, folder, bin_folder, _old_sdk(server, folder))


def _npm(server: Server, folder: Path) -> None:
    (folder / "package.json").write_text('{"private": true}\n')
    options = ["--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts", f"--before={DAY}"]
    _run(server, ["npm", "install", "--prefix", str(folder), *options, server.pin, *server.extra])


def _pip(server: Server, folder: Path, cache: Path) -> None:
    _run(server, [sys.executable, "-m", "venv", "--without-pip", str(folder)])
    # The SDK is capped as well, for indexes and wheel folders that do not tell when a release came.
    options = ["-qq", "--disable-pip-version-check", f"--uploaded-prior-to={DAY}"]
    _run(server, [*installer(cache), "--python", str(folder), "install", *options, server.pin, "mcp<2", *server.extra])


def installer(cache: Path) -> list[str]:
    """A pip that can install as of a day (26 or newer), in an environment of its own."""
    folder = cache / "installer"
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip"]
    with _ONE_AT_A_TIME:
        if not (folder / ".ready").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=INSTALL_SECONDS)
            subprocess.run([*command, "install", "-qq", "pip>=26"], check=True, timeout=INSTALL_SECONDS)
            (folder / ".ready").touch()
    return command


def _run(server: Server, command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PUPPETEER_SKIP_DOWNLOAD": "1", "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{server.pin} was not installed in {INSTALL_SECONDS} s") from None
    if done.returncode != 0:
        last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-3:]
        raise NotInstalled(f"{server.pin} could not be installed: {' '.join(' '.join(last).split())}")


def _old_sdk(server: Server, folder: Path) -> str:
    """The version of the SDK that the server brings, which must be an old one."""
    version = _npm_sdk(server, folder) if server.registry == "npm" else _python_sdk(folder)
    if version is None:
        raise NotInstalled(f"{server.pin} brings no {OLD_SDKS[server.registry]}; is it an old server?")
    if not version.startswith(("0.", "1.")):
        raise NotInstalled(f"{server.pin} brings {OLD_SDKS[server.registry]} {version}, which is not an old one")
    return version


def _npm_sdk(server: Server, folder: Path) -> str | None:
    modules = folder / "node_modules"
    for place in (modules / server.package / "node_modules", modules):
        manifest = place / OLD_SDKS["npm"] / "package.json"
        if manifest.exists():
            return str(json.loads(manifest.read_text(encoding="utf-8"))["version"])
    # Not there: its maker built it into the program, and says with which version.
    manifest = json.loads((modules / server.package / "package.json").read_text(encoding="utf-8"))
    built = manifest.get("devDependencies", {}).get(OLD_SDKS["npm"], "").lstrip("^~")
    return f"{built} (built in)" if built else None


def _python_sdk(folder: Path) -> str | None:
    done = subprocess.run(
        [str(folder / "bin" / "python"), "-c", READ_SDK], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() or None

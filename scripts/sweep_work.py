"""The folder that a server is let loose on: the same files at the same place for every run, made anew each time."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

GIT_DAY = "2026-01-01T12:00:00+0000"
OPENAPI = {
    "openapi": "3.0.0",
    "info": {"title": "Lighthouses", "version": "1.0.0"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {
        "/lighthouses": {
            "get": {
                "operationId": "listLighthouses",
                "summary": "List lighthouses",
                "responses": {"200": {"description": "All of them"}},
            }
        }
    },
}


def make(place: Path) -> tuple[Path, Path]:
    """A fresh folder to work in, and a fresh home."""
    shutil.rmtree(place, ignore_errors=True)
    work, home = place / "work", place / "home"
    home.mkdir(parents=True)
    work.mkdir()
    (work / "hello.txt").write_text("Hello from the sweep.\n", encoding="utf-8")
    (work / "table.csv").write_text("name,height\nFresnel,41\nEddystone,49\n", encoding="utf-8")
    (work / "notes.md").write_text("# Notes\n\nLighthouses are *tall*.\n", encoding="utf-8")
    (work / "openapi.json").write_text(json.dumps(OPENAPI), encoding="utf-8")
    database = sqlite3.connect(work / "data.db")
    with database:
        database.execute("create table lighthouse (name text, height integer)")
        database.executemany("insert into lighthouse values (?, ?)", [("Fresnel", 41), ("Eddystone", 49)])
    database.close()
    _repository(work / "repository")
    return work, home


def _repository(folder: Path) -> None:
    folder.mkdir()
    (folder / "README.md").write_text("# A small repository\n", encoding="utf-8")
    who = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for role in ("AUTHOR", "COMMITTER"):
        who |= {f"GIT_{role}_NAME": "Ada", f"GIT_{role}_EMAIL": "ada@example.org", f"GIT_{role}_DATE": GIT_DAY}
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", "-C", str(folder), *arguments], env={**os.environ, **who}, check=True, timeout=30)

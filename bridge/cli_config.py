"""``mrtr-bridge config``: look at a configuration file without running it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge import cli_values as words

if TYPE_CHECKING:
    from bridge.config import Fleet
    from bridge.config_faults import ConfigError
    from bridge.settings import Server

app = typer.Typer(help="Look at a configuration file.", no_args_is_help=True)

File = Annotated[str, typer.Argument(metavar="FILE", help="TOML, or the JSON of a client (mcpServers).")]
Json = Annotated[bool, typer.Option("--json", help="For machines.")]


@app.command()
def check(file: File, as_json: Json = False) -> int:
    """Say every mistake in a file, or which servers it has. Nothing is started."""
    from bridge.config import load
    from bridge.config_faults import ConfigError

    try:
        fleet = load(Path(file), os.environ)
    except ConfigError as error:
        if as_json:
            faults = [{"line": one.line, "key": one.key, "message": one.message} for one in error.faults]
            typer.echo(json.dumps({"file": file, "servers": [], "notes": [], "faults": faults}, ensure_ascii=False))
        else:
            typer.echo(faults_of(file, error), err=True)
        return 2
    if as_json:
        servers = [dict(zip(("name", "kind", "target"), row, strict=True)) for row in rows(fleet)]
        said = {"file": file, "servers": servers, "notes": list(fleet.notes), "faults": []}
        typer.echo(json.dumps(said, ensure_ascii=False))
    else:
        count = len(fleet.servers)
        typer.echo(f"{file}: {count} server{'' if count == 1 else 's'}")
        widest = max(len(name) for name in fleet.servers)
        for name, kind, target in rows(fleet):
            typer.echo(f"  {name:{widest}}  {kind:7}  {target}")
        for note in fleet.notes:
            typer.echo(f"  note: {note}")
    return 0


@app.command()
def schema() -> None:
    """Print the JSON Schema of a configuration file, for editors."""
    from bridge.config import schema as made

    typer.echo(json.dumps(made(), indent=2))


def rows(fleet: Fleet) -> list[tuple[str, str, str]]:
    """Name, kind and target of each server; of a command only what it is called: its words may be secret."""
    return [(name, *_target(server)) for name, server in fleet.servers.items()]


def _target(server: Server) -> tuple[str, str]:
    target = server.target
    if target.url is not None:
        return "url", target.url.partition("?")[0]
    return "command", words.server_name(target.command, None)


def faults_of(file: str, error: ConfigError) -> str:
    """A line for each mistake, as compilers write them."""
    lines: list[str] = []
    for fault in error.faults:
        place = f"{file}:{fault.line}" if fault.line is not None else file
        lines.append(f"{place}: {fault.key}: {fault.message}" if fault.key else f"{place}: {fault.message}")
    return "\n".join(lines)

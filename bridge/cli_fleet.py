"""``mrtr-bridge serve --config FILE``: what the file says, and what of the command line goes before it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import typer

from bridge import cli_start as start
from bridge import cli_values as words
from bridge.cli_config import faults_of
from bridge.cli_values import WrongUse

_OF_A_FLEET: Final = {
    "host": "host",
    "port": "port",
    "max_body": "max_body",
    "allowed_host": "allowed_hosts",
    "allowed_origin": "allowed_origins",
    "auth_token_file": "auth_token_file",
    "principal_header": "principal_header",
}
"""Options that go before what the file says under ``[http]``, and their keys there."""


def serve_fleet(file: str, context: typer.Context) -> int:
    """``serve --config FILE``: run until told to stop; the exit code."""
    from bridge.config import load
    from bridge.config_faults import ConfigError

    given = {
        name for name in context.params if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    for name in sorted(given - set(_OF_A_FLEET) - {"config", "key_file", "log_level", "log_format"}):
        if name == "command":
            raise WrongUse("Give either a command or --config, not both.")
        raise WrongUse(f"--{name.replace('_', '-')} is about one server: with --config, write it into the file.")
    try:
        fleet = load(Path(file), os.environ)
    except ConfigError as error:
        print(faults_of(file, error), file=sys.stderr)
        return 2
    http = fleet.http.model_dump() | _of_the_command_line(context, given)
    identify = start.identified(
        http.pop("auth_token_file"),
        http.pop("principal_header"),
        host=http["host"],
        shared=all(server.shared_session for server in fleet.servers.values()),
        advice="give --auth-token-file or --principal-header, here or under [http].",
    )
    ring = start.key_ring(context.params["key_file"] or fleet.key_file)
    start.log_to_stderr(context.params["log_level"], context.params["log_format"])
    from bridge.app import run_fleet
    from bridge.settings_http import HttpOptions

    options = HttpOptions(**http, identify=identify)
    return run_fleet(fleet.servers, ring or start.random_ring(say=True), options)


def _of_the_command_line(context: typer.Context, given: set[str]) -> dict[str, Any]:
    """What was given there of the HTTP side, by its key in the file."""
    found = {_OF_A_FLEET[name]: context.params[name] for name in given & set(_OF_A_FLEET)}
    if "max_body" in found:
        found["max_body"] = words.size("--max-body", found["max_body"])
    for key, meaning in (("allowed_hosts", words.host), ("allowed_origins", words.origin)):
        if key in found:
            found[key] = tuple(map(meaning, found[key]))
    return found

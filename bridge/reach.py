"""From the operator's words to where the server is, with the credentials that all who reach it share."""

from __future__ import annotations

import logging
import os
from typing import TypeGuard

from bridge.cli_values import OUR_SECRETS
from bridge.settings import Target
from legacy.credentials import HeaderCommand
from legacy.targets import AppTarget, HttpTarget, StdioTarget
from legacy.targets import Target as LegacyTarget


def legacy_target(target: Target, *, one_call: bool = False) -> LegacyTarget:
    """Make one for each wrapped server, not for each session."""
    if target.inside is not None:
        return target.inside
    if target.url is None:
        return StdioTarget(target.command, env=target.env, cwd=target.cwd, one_call=one_call)
    credentials = None
    if target.header_command is not None:
        env = {name: value for name, value in os.environ.items() if name not in OUR_SECRETS}
        credentials = HeaderCommand(target.header_command, logging.getLogger(f"mrtr.server.{target.name}"), env=env)
    return HttpTarget(target.url, headers=target.headers, credentials=credentials, transport=target.transport)


def can_be_modern(target: LegacyTarget) -> TypeGuard[HttpTarget]:
    """Whether the server could be served through. One in this process is there to be wrapped."""
    return isinstance(target, HttpTarget) and not isinstance(target, AppTarget)

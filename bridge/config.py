"""A fleet in one file: TOML, or ``mcpServers`` JSON, to settings, and one sentence for each mistake.

What is in the file is checked whole before anything of it is used, and every mistake is told at once, with its file,
line, key and what is allowed there. Values are never repeated in a message: they may be secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from bridge import cli_values as words
from bridge.config_faults import ConfigError, Fault, as_keys, fault_at, refused
from bridge.config_formats import Kind, parsed
from bridge.config_model import Config, HttpEntry, ServerEntry, Value
from bridge.settings import Limits, Server, Target

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE: Final = re.compile(r"\$\$\{|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a file says, ready to run."""

    http: HttpEntry
    key_file: str | None
    servers: dict[str, Server]
    notes: tuple[str, ...] = ()
    """What of the file is not the bridge's, and was left aside."""


def schema() -> dict[str, Any]:
    """The JSON Schema of a file, for editors."""
    made = Config.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "mrtr-bridge configuration"}


def load(path: Path, environ: Mapping[str, str]) -> Fleet:
    """The fleet that a file says; one that ends in ``.json`` is a client's.

    Raises:
        ConfigError: every mistake in it, or why it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(
            [Fault("", None, f"the file cannot be read: {error.strerror or 'no reason given'}.")]
        ) from None
    except UnicodeDecodeError:
        raise ConfigError([Fault("", None, "the file is not text in UTF-8.")]) from None
    kind: Kind = "json" if path.suffix == ".json" else "toml"
    return read(text, kind=kind, folder=path.absolute().parent, environ=environ)


def read(text: str, *, kind: Kind, folder: Path, environ: Mapping[str, str]) -> Fleet:
    """The fleet that ``text`` says; relative paths start at ``folder``.

    Raises:
        ConfigError: every mistake in it.
    """
    value, places, notes = parsed(text, kind)
    try:
        config = Config.model_validate(value)
    except ValidationError as error:
        raise refused(error, places) from None
    faults: list[Fault] = []
    servers: dict[str, Server] = {}
    for name, entry in config.servers.items():
        if not _NAME.fullmatch(name):
            said = "a name is made of letters, digits and . _ -, and 64 at the most."
            faults.append(fault_at(places, ("servers", name), said))
            continue
        reading = _Reading(("servers", name), folder, environ, lambda *found: faults.append(fault_at(places, *found)))
        if (server := reading.settings(name, entry)) is not None:
            servers[name] = server
    if faults:
        raise ConfigError(faults)

    def beside(path: str | None) -> str | None:
        return None if path is None else str(folder / path)

    http = config.http.model_copy(update={"auth_token_file": beside(config.http.auth_token_file)})
    return Fleet(http, beside(config.key_file), servers, tuple(notes))


class _Reading:
    """From one entry to the settings of a server; mistakes are told and the entry is given up."""

    def __init__(
        self,
        path: tuple[str, ...],
        folder: Path,
        environ: Mapping[str, str],
        tell: Callable[[tuple[str, ...], str], None],
    ) -> None:
        self._path = path
        self._folder = folder
        self._environ = environ
        self._tell = tell
        self._failed = False
        self._filled_in: dict[str, str] = {}
        """What came from elsewhere, and what to call it."""

    def settings(self, name: str, entry: ServerEntry) -> Server | None:
        target = self._target(name, entry)
        if target is None:
            return None
        limits = Limits.for_sessions(
            entry.max_sessions,
            silence=entry.timeout,
            call_ttl=entry.call_ttl,
            start=entry.start_timeout,
            sign_in=entry.sign_in,
            roots_age=entry.roots_age,
            one_call=entry.one_call_ttl if entry.one_call else None,
            task_after=entry.task_after,
            task_ttl=entry.task_ttl,
            task_poll=entry.task_poll,
        )
        return Server(
            target=target,
            limits=limits,
            attribution=entry.attribution,
            asks={tool: known.asks for tool, known in entry.tools.items() if known.asks is not None},
            replay={tool: known.replay for tool, known in entry.tools.items() if known.replay is not None},
            shared_session=entry.shared_session,
            single_session=entry.single_session,
            roots=entry.roots,
            strict_tasks=entry.strict_tasks,
            ttl_ms=round(entry.cache.ttl * 1000),
            cache_scope=entry.cache.scope,
        )

    def _target(self, name: str, entry: ServerEntry) -> Target | None:
        given: dict[str, Any] = {"name": name}
        if entry.url is not None:
            headers = {key: self._value(("headers", key), value) for key, value in entry.headers.items()}
            lines = [f"{key}: {value}" for key, value in headers.items()]
            given["url"] = self._checked(("url",), lambda: words.server_url(self._text(("url",), entry.url or "")))
            given["headers"] = self._checked(("headers",), lambda: words.headers(lines))
            command = None if entry.header_command is None else self._text(("header_command",), entry.header_command)
            given["header_command"] = self._checked(("header_command",), lambda: words.header_command(command))
            given["transport"] = entry.transport
        else:
            command_words = tuple(self._text(("command", str(at)), word) for at, word in enumerate(entry.command or ()))
            added = [f"{key}={self._value(('env', key), value)}" for key, value in entry.env.items()]
            env = self._checked(
                ("env",), lambda: words.environment(added, inherit=entry.inherit_env, ours=self._environ)
            )
            cwd = None if entry.cwd is None else str(self._folder / self._text(("cwd",), entry.cwd))
            if cwd is not None:
                self._checked(("cwd",), lambda: words.directory(cwd))
            if not self._failed:
                self._checked(("command",), lambda: words.executable(command_words, env=env, cwd=cwd))
            given |= {"command": command_words, "env": env, "cwd": cwd}
        return None if self._failed else Target(**given)

    def _checked(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        if self._failed:
            return None
        try:
            return make()
        except words.WrongUse as error:
            self._fail(key, as_keys(str(error)))
            return None

    def _value(self, key: tuple[str, ...], value: Value) -> str:
        if isinstance(value, str):
            return self._text(key, value)
        path = self._folder / self._text(key, value.file)
        try:
            text = path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
            return self._from(str(path), key, text)
        except OSError as error:
            self._fail(key, f"the file {path} cannot be read: {error.strerror or type(error).__name__}.")
        except UnicodeDecodeError:
            self._fail(key, f"the file {path} is not text in UTF-8.")
        return ""

    def _text(self, key: tuple[str, ...], text: str) -> str:
        """With ``${NAME}`` replaced; ``$${`` stands for itself."""

        def replaced(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            if found[1] is None:
                self._fail(key, "only ${NAME} and ${env:NAME} can be filled in here; write $${ for the characters.")
            elif found[1] not in self._environ:
                self._fail(key, f"the variable {found[1]} is not set.")
            else:
                return self._from(f"${{{found[1]}}}", key, self._environ[found[1]])
            return ""

        return _VARIABLE.sub(replaced, text)

    def _from(self, name: str, key: tuple[str, ...], text: str) -> str:
        """A value that came from elsewhere."""
        self._filled_in[text] = name
        if "\0" in text:
            self._fail(key, f"{name} holds a zero byte.")
        return text

    def _fail(self, key: tuple[str, ...], message: str) -> None:
        self._failed = True
        for secret, name in sorted(self._filled_in.items(), key=lambda item: -len(item[0])):
            message = message.replace(secret, name) if secret else message
        self._tell((*self._path, *key), message)

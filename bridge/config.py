"""A fleet in one file: TOML, or ``mcpServers`` JSON, to settings, and one sentence for each mistake.

What is in the file is checked whole before anything of it is used, and every mistake is told at once, with its file,
line, key and what is allowed there. Values are never repeated in a message: they may be secret.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from bridge import cli_values as words
from bridge.config_places import in_json, in_toml, line_of, plain_json
from bridge.settings import Limits, Server, Target

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE: Final = re.compile(r"\$\$\{|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
_CLIENTS_OWN: Final = frozenset(
    {"alwaysAllow", "autoApprove", "disabledTools", "enabled", "description", "timeout", "gallery", "version", "dev"}
)
"""What clients keep beside a server in their configuration, for themselves."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake."""

    key: str
    """Dotted; empty for the file as a whole."""
    line: int | None
    message: str
    """A sentence without the value."""

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.key}: {self.message}" if self.key else f"{place}{self.message}"


class ConfigError(Exception):
    """A file that cannot be used."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__(" ".join(map(str, faults)))
        self.faults = faults


def _duration(value: Any) -> Any:
    return words.duration("it", str(value)) if isinstance(value, str | int | float) else value


def _size(value: Any) -> Any:
    return words.size("it", str(value)) if isinstance(value, str | int) else value


_TIME: Final = {"anyOf": [{"type": "string", "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h|d)?$"}, {"type": "number"}]}
Duration = Annotated[
    float,
    BeforeValidator(_duration),
    WithJsonSchema({**_TIME, "description": "A time: 90, 90s, 10m, 1h."}),
]
Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "Bytes: 1000000, 512k, 4m."}),
]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FromFile(_Table):
    """A value that is the text of a file, without the line end at its end."""

    file: str


Value = str | FromFile


class ToolEntry(_Table):
    """What you know of one tool (or of ``prompts/get:NAME``, ``resources/read:URI``), whatever it says itself."""

    asks: Literal["never", "one", "many"] | None = None
    """It never asks, one thing after the other, or many at once."""
    replay: bool | None = None
    """Whether running it again is harmless."""


class CacheEntry(_Table):
    """What clients are told of how long lists and resources stay good."""

    ttl: Annotated[
        float, BeforeValidator(lambda value: 0 if value == 0 else _duration(value)), WithJsonSchema(_TIME)
    ] = 0
    scope: Literal["private", "public"] = "private"


class ServerEntry(_Table):
    """One server: a command, or a URL; the rest as the options of the command line."""

    command: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    env: dict[str, Value] = {}
    inherit_env: bool = False
    cwd: str | None = None
    url: str | None = None
    transport: Literal["auto", "streamable-http", "http-sse"] = "auto"
    headers: dict[str, Value] = {}
    header_command: str | None = None
    timeout: Duration = 600
    call_ttl: Duration = 3600
    start_timeout: Duration = 60
    max_sessions: Annotated[int, Field(ge=1, le=1024)] = 4
    attribution: Literal["infer", "strict"] = "infer"
    sign_in: Duration = 25
    roots: Literal["shared", "per-call"] = "shared"
    roots_age: Duration = 300
    shared_session: bool = False
    single_session: bool = False
    one_call: bool = False
    one_call_ttl: Duration = 60
    task_after: Duration | None = None
    task_ttl: Duration = 3600
    task_poll: Duration = 1
    strict_tasks: bool = False
    tools: dict[str, ToolEntry] = {}
    cache: CacheEntry = CacheEntry()

    @model_validator(mode="after")
    def _command_or_url(self) -> ServerEntry:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either a command to start or a url to reach, not both and not neither")
        if self.url is not None and (self.env or self.cwd is not None or self.one_call):
            raise ValueError(
                "env, cwd and one_call belong to a command; a server at a url was started by somebody else"
            )
        if self.command is not None and (self.headers or self.header_command is not None or self.transport != "auto"):
            raise ValueError("headers, header_command and transport belong to a url")
        if self.roots == "per-call" and self.single_session:
            raise ValueError('a server with a single session cannot tell workspaces apart: roots has to be "shared"')
        return self


class HttpEntry(_Table):
    """Where the bridge listens, and for whom."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    allowed_hosts: tuple[Annotated[str, AfterValidator(words.host)], ...] = ()
    allowed_origins: tuple[Annotated[str, AfterValidator(words.origin)], ...] = ()
    max_body: Size = 4 * 1024 * 1024
    auth_token_file: str | None = None
    principal_header: str | None = None


class Config(_Table):
    """The whole file."""

    http: HttpEntry = HttpEntry()
    key_file: str | None = None
    servers: Annotated[dict[str, ServerEntry], Field(min_length=1)]


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
    kind: Literal["toml", "json"] = "json" if path.suffix == ".json" else "toml"
    return read(text, kind=kind, folder=path.absolute().parent, environ=environ)


def read(text: str, *, kind: Literal["toml", "json"], folder: Path, environ: Mapping[str, str]) -> Fleet:
    """The fleet that ``text`` says; relative paths start at ``folder``.

    Raises:
        ConfigError: every mistake in it.
    """
    value, places, notes = _parsed(text, kind)

    def fault(path: tuple[str, ...], message: str) -> Fault:
        return Fault(".".join(map(_shown, path)), line_of(places, path), message)

    try:
        config = Config.model_validate(value)
    except ValidationError as error:
        faults = [fault(*_told(one)) for one in error.errors(include_input=False, include_url=False)]
        raise ConfigError(_once(faults)) from None
    faults = []
    servers: dict[str, Server] = {}
    for name, entry in config.servers.items():
        if not _NAME.fullmatch(name):
            faults.append(fault(("servers", name), "a name is made of letters, digits and . _ -, and 64 at the most."))
            continue
        server = _Reading(("servers", name), folder, environ, lambda *found: faults.append(fault(*found)))
        made = server.settings(name, entry)
        if made is not None:
            servers[name] = made
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

    def settings(self, name: str, entry: ServerEntry) -> Server | None:
        target = self._target(name, entry)
        if self._failed:
            return None
        usual = Limits()
        limits = Limits(
            silence=entry.timeout,
            call_ttl=entry.call_ttl,
            start=entry.start_timeout,
            sign_in=entry.sign_in,
            roots_age=entry.roots_age,
            one_call=entry.one_call_ttl if entry.one_call else None,
            task_after=entry.task_after,
            task_ttl=entry.task_ttl,
            task_poll=entry.task_poll,
            max_sessions=entry.max_sessions,
            max_sessions_per_principal=max(usual.max_sessions_per_principal, entry.max_sessions),
            max_sessions_total=max(usual.max_sessions_total, entry.max_sessions),
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

    def _target(self, name: str, entry: ServerEntry) -> Target:
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
        if self._failed:
            return Target(command=("true",))
        return Target(**given)

    def _checked(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        if self._failed:
            return None
        try:
            return make()
        except words.WrongUse as error:
            self._fail(key, _as_keys(str(error)))
            return None

    def _value(self, key: tuple[str, ...], value: Value) -> str:
        if isinstance(value, str):
            return self._text(key, value)
        path = self._folder / self._text(key, value.file)
        try:
            return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
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
                return self._environ[found[1]]
            return ""

        return _VARIABLE.sub(replaced, text)

    def _fail(self, key: tuple[str, ...], message: str) -> None:
        self._failed = True
        self._tell((*self._path, *key), message)


# -- what a file holds ------------------------------------------------------------------------------------------------


def _parsed(text: str, kind: str) -> tuple[Any, dict[tuple[str, ...], int], list[str]]:
    if kind == "toml":
        try:
            return tomllib.loads(text), in_toml(text), []
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"\(at line (\d+), column \d+\)", str(error))
            said = re.sub(r" *\(at [^)]*\)", "", str(error)).rstrip(".")
            line = int(found[1]) if found else len(text.splitlines())
            raise ConfigError([Fault("", line, f"this is no TOML: {said}.")]) from None
    plain = plain_json(text)
    try:
        value = json.loads(plain)
    except json.JSONDecodeError as error:
        raise ConfigError([Fault("", error.lineno, f"this is no JSON: {error.msg}.")]) from None
    places = in_json(plain)
    if not isinstance(value, dict):
        raise ConfigError([Fault("", 1, "this is no object with mcpServers, servers or both.")])
    own = next((key for key in ("mcpServers", "servers") if isinstance(value.get(key), dict)), None)
    if own is None:
        raise ConfigError([Fault("", 1, "there is neither mcpServers nor servers in it.")])
    notes: list[str] = []
    servers = {name: _of_client(name, entry, notes) for name, entry in value[own].items()}
    servers = {name: entry for name, entry in servers.items() if entry is not None}
    moved = {("servers", *path[1:]): line for path, line in places.items() if path[0] == own}
    return {"servers": servers}, moved, notes


def _of_client(name: str, entry: Any, notes: list[str]) -> Any:
    """A server as Claude Desktop, Cursor and VS Code write it, in our words; None: it is switched off."""
    if not isinstance(entry, dict):
        return entry
    given = dict(entry)
    if given.pop("disabled", False) is True or given.get("enabled") is False:
        notes.append(f"{name} is disabled and left out.")
        return None
    for key in sorted(_CLIENTS_OWN & set(given)):
        del given[key]
        notes.append(f"{name}: {key} is the client's own and has no effect here.")
    if isinstance(given.get("command"), str):
        arguments = given.pop("args", [])
        given["command"] = [given["command"], *(arguments if isinstance(arguments, list) else [arguments])]
    match given.pop("type", None):
        case "sse":
            given["transport"] = "http-sse"
        case "http" | "streamable-http" | "streamableHttp":
            given["transport"] = "streamable-http"
    if isinstance(given.get("serverUrl"), str):
        given["url"] = given.pop("serverUrl")
    return given


# -- what is said of a mistake -----------------------------------------------------------------------------------------


def _shown(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part, ensure_ascii=False)


def _as_keys(message: str) -> str:
    """What is said of options, of the keys that stand for them."""
    return re.sub(r"--([a-z-]+)", lambda option: option[1].replace("-", "_"), message)


def _told(error: Any) -> tuple[tuple[str, ...], str]:
    """The path of a mistake that pydantic found, and our sentence for it."""
    path = tuple(str(part) for part in error["loc"] if part not in ("str", "FromFile"))
    match error["type"]:
        case "extra_forbidden":
            return path, _unknown(path)
        case "missing":
            return path, "this is needed."
        case "literal_error":
            return path, f"this is one of {error['ctx']['expected']}."
        case _ if path[-1:] == ("command",):
            return path, 'this is a list of words, such as ["npx", "-y", "some-server"].'
        case "value_error":
            said = _as_keys(str(error["ctx"]["error"]).rstrip("."))
            return path, f"{said}."
        case _:
            said = error["msg"].removeprefix("Input ").rstrip(".")
            return path, f"this {said}."


def _unknown(path: tuple[str, ...]) -> str:
    model: type[BaseModel] = Config
    match path:
        case ("servers", _, "tools", _, _):
            model = ToolEntry
        case ("servers", _, "cache", _):
            model = CacheEntry
        case ("servers", _, "env" | "headers", *_):
            return 'a value is a text, or { file = "…" }.'
        case ("servers", _, _):
            model = ServerEntry
        case ("http", _):
            model = HttpEntry
    known = sorted(model.model_fields)
    near = difflib.get_close_matches(path[-1], known, 1)
    return f"there is no such key here{f'; is it {near[0]}?' if near else ''} Known are {', '.join(known)}."


def _once(faults: list[Fault]) -> list[Fault]:
    """In the order of the file; of a value that is none of several kinds, what was said first."""
    first: dict[str, Fault] = {}
    for fault in faults:
        first.setdefault(fault.key, fault)
    return sorted(first.values(), key=lambda fault: fault.line or 0)

"""What a configuration file may hold: tables and keys, their kinds and what they are if left out. Values only.

`bridge.config_faults` says what is wrong with a value; a docstring here is what an editor shows for a key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from bridge import cli_values as words


def _quietly(meaning: Callable[[str, str], Any], value: Any) -> Any:
    """Without the value, which the command line shows and a file must not."""
    try:
        return meaning("it", str(value))
    except words.WrongUse as error:
        raise ValueError(str(error).rpartition(";")[0]) from None


def _duration(value: Any) -> Any:
    return _quietly(words.duration, value) if isinstance(value, str | int | float) else value


def _size(value: Any) -> Any:
    return _quietly(words.size, value) if isinstance(value, str | int) else value


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
    allowed_hosts: tuple[
        Annotated[str, AfterValidator(lambda value: _quietly(lambda _, text: words.host(text), value))], ...
    ] = ()
    allowed_origins: tuple[
        Annotated[str, AfterValidator(lambda value: _quietly(lambda _, text: words.origin(text), value))], ...
    ] = ()
    max_body: Size = 4 * 1024 * 1024
    auth_token_file: str | None = None
    principal_header: str | None = None


class Config(_Table):
    """The whole file."""

    http: HttpEntry = HttpEntry()
    key_file: str | None = None
    servers: Annotated[dict[str, ServerEntry], Field(min_length=1)]

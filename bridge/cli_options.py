"""The options of `mrtr-bridge`, each once: what it is called, what its help says. What its text means: `cli_values`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import typer

from bridge.cli_values import PASSED_ON

_SERVER: Final = "The legacy server"
_LIMITS: Final = "Limits"
_LOG: Final = "Log"
Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="COMMAND [ARG]", help="The legacy server to start; or give --url.", show_default=False),
]
Url = Annotated[
    str | None, typer.Option(metavar="URL", help="The legacy server to reach over HTTP.", rich_help_panel=_SERVER)
]
Transport = Annotated[
    Literal["auto", "streamable-http", "http-sse"],
    typer.Option("--transport", help="What is spoken at the URL; auto: find out.", rich_help_panel=_SERVER),
]
Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What logs call the server; bound into requestState.",
        rich_help_panel=_SERVER,
        show_default="from the command or URL",
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option(metavar="'NAME: VALUE'", help="Send this header to the URL. Repeatable.", rich_help_panel=_SERVER),
]
HeaderCommand = Annotated[
    str | None,
    typer.Option(
        metavar="'COMMAND'",
        help="Run this to get headers for the URL (`Name: value` lines, or a JSON object), and again when the server "
        "answers 401.",
        rich_help_panel=_SERVER,
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=VALUE]", help="Pass this variable to the command. Repeatable.", rich_help_panel=_SERVER
    ),
]
InheritEnv = Annotated[
    bool,
    typer.Option(
        "--inherit-env",
        help="Pass the whole environment to the command. `stdio` does; `serve` passes what the official SDKs do: "
        + ", ".join(PASSED_ON)
        + ".",
        rich_help_panel=_SERVER,
    ),
]
Cwd = Annotated[str | None, typer.Option(metavar="DIR", help="Start the command here.", rich_help_panel=_SERVER)]
CallTtl = Annotated[
    str, typer.Option(metavar="TIME", help="How long one call may take, over all its rounds.", rich_help_panel=_LIMITS)
]
Timeout = Annotated[
    str,
    typer.Option(metavar="TIME", help="How long the server may be silent on a running call.", rich_help_panel=_LIMITS),
]
StartTimeout = Annotated[
    str, typer.Option(metavar="TIME", help="How long the server may take to start.", rich_help_panel=_LIMITS)
]
TaskAfter = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Make a task of a tool call that takes this long, for clients with the tasks extension.",
        rich_help_panel=_LIMITS,
        show_default="off",
    ),
]
TaskTtl = Annotated[
    str, typer.Option(metavar="TIME", help="How long a task may take, and is kept.", rich_help_panel=_LIMITS)
]
TaskPoll = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="How often to look after a task, if the server does not say.", rich_help_panel=_LIMITS
    ),
]
StrictTasks = Annotated[
    bool,
    typer.Option(
        "--strict-tasks",
        help="Refuse tools that the server runs only as tasks to clients without the tasks extension, instead of "
        "running them to their end.",
        rich_help_panel=_LIMITS,
    ),
]
MaxSessions = Annotated[
    int,
    typer.Option(
        min=1,
        max=1024,
        help="Sessions with the server for each principal and set of client capabilities.",
        rich_help_panel=_LIMITS,
    ),
]
Attribution = Annotated[
    Literal["infer", "strict"],
    typer.Option(
        "--attribution",
        help="What to do with a question whose call only evidence tells: infer it, or refuse it.",
        rich_help_panel=_LIMITS,
    ),
]
Asks = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TOOL=never|one|many",
        help="What you know of a tool: it never asks, one thing after the other, or many at once. Repeatable.",
        rich_help_panel=_LIMITS,
    ),
]
Replay = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TOOL=yes|no",
        help="Whether running a tool again is harmless, whatever it says itself. Repeatable.",
        rich_help_panel=_LIMITS,
    ),
]
SignIn = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="How long to wait for a person at a URL that the server wants opened, before it is asked again.",
        rich_help_panel=_LIMITS,
    ),
]
OneCall = Annotated[
    bool,
    typer.Option(
        "--one-call",
        help="For a server that reads the answers to its questions inline: nothing else is sent while a call is open.",
        rich_help_panel=_LIMITS,
    ),
]
OneCallTtl = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="How long a question of such a server waits for its answer.", rich_help_panel=_LIMITS
    ),
]
SingleSession = Annotated[
    bool,
    typer.Option(
        "--single-session",
        help="For a server that can have one session only: all clients use it, and a second principal is refused. "
        "Found out by itself when a second session is refused; then what the first did not negotiate is missing.",
        rich_help_panel=_LIMITS,
    ),
]
RootsAge = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Ask clients again after this long for the roots that the server wants outside calls.",
        rich_help_panel=_LIMITS,
    ),
]
KeyFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Keys from `mrtr-bridge keygen`, one a line; the first seals, all unseal. Otherwise MRTR_BRIDGE_KEYS is "
        "read; without either a random key lives as long as the process.",
    ),
]
Level = Annotated[
    Literal["debug", "info", "warning", "error"],
    typer.Option("--log-level", help="From which level on.", rich_help_panel=_LOG),
]
Format = Annotated[
    Literal["text", "json"], typer.Option("--log-format", help="Lines to read, or JSON.", rich_help_panel=_LOG)
]

Config = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Serve all servers of a configuration file, each at /servers/NAME/mcp, instead of one command or URL.",
    ),
]
Host = Annotated[str, typer.Option(help="Listen on this address.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0: any free one.")]
AuthTokenFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Who may come in by bearer token: a token and a name a line."),
]
PrincipalHeader = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Who a request belongs to, as a trusted proxy says in this header (and lets no client say).",
    ),
]
SharedSession = Annotated[
    bool,
    typer.Option(
        "--shared-session",
        help="All clients share the sessions with the server, and with them whatever it keeps in memory: files it "
        "opened, logins, roots, what one client told it. A question goes to the client whose call caused it, and is "
        "refused where only inference could tell which that is.",
    ),
]
Roots = Annotated[
    Literal["shared", "per-call"],
    typer.Option(
        "--roots",
        help="Whether clients of one principal share the roots that their server knows, or each call asks for its own "
        "first, one round more, and runs where the server knows no others.",
    ),
]
AllowedHost = Annotated[
    list[str] | None, typer.Option(metavar="HOST", help="A Host that is ours, besides loopback's. Repeatable.")
]
AllowedOrigin = Annotated[
    list[str] | None, typer.Option(metavar="ORIGIN", help="A web page's origin that may call. Repeatable.")
]
MaxBody = Annotated[str, typer.Option(metavar="SIZE", help="The largest request.", rich_help_panel=_LIMITS)]

"""The command line: words to settings, settings to a running bridge.

Wrong use ends with one sentence on stderr that says what to do, and exit code 2; what breaks later with another one,
and exit code 1. Nothing heavy is imported before a command needs it: this module costs what typer costs.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import typer

from bridge import cli_config
from bridge import cli_options as options
from bridge import cli_start as start
from bridge import cli_values as words
from bridge.cli_values import WrongUse

if TYPE_CHECKING:
    from bridge.settings import Limits, Target

PROGRAM: Final = "mrtr-bridge"
_ClickError: Final = cast(
    type[Exception], next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
)

app = typer.Typer(
    name=PROGRAM,
    help="Run an unmodified MCP server of 2025-11-25 or older behind the stateless protocol of 2026-07-28.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # They show local variables: secrets.
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.add_typer(cli_config.app, name="config")

_COMMAND_WORDS: Final[Any] = {"allow_interspersed_args": False}
"""The first word that is no option begins the command; every option after it is the command's."""


@app.command(context_settings=_COMMAND_WORDS, options_metavar="[OPTIONS] --")
def stdio(
    command: options.Command = None,
    url: options.Url = None,
    transport: options.Transport = "auto",
    name: options.Name = None,
    header: options.Header = None,
    header_command: options.HeaderCommand = None,
    env: options.Env = None,
    inherit_env: options.InheritEnv = False,
    cwd: options.Cwd = None,
    call_ttl: options.CallTtl = "1h",
    timeout: options.Timeout = "10m",
    start_timeout: options.StartTimeout = "1m",
    max_sessions: options.MaxSessions = 4,
    attribution: options.Attribution = "infer",
    asks: options.Asks = None,
    replay: options.Replay = None,
    sign_in: options.SignIn = "25s",
    roots_age: options.RootsAge = "5m",
    single_session: options.SingleSession = False,
    one_call: options.OneCall = False,
    one_call_ttl: options.OneCallTtl = "1m",
    task_after: options.TaskAfter = None,
    task_ttl: options.TaskTtl = "1h",
    task_poll: options.TaskPoll = "1s",
    strict_tasks: options.StrictTasks = False,
    key_file: options.KeyFile = None,
    log_level: options.Level = "info",
    log_format: options.Format = "text",
) -> int:
    """Speak 2026-07-28 on stdin and stdout: for the configuration of a client."""
    del inherit_env  # Always so here: the client decided what this process gets.
    target = _target(
        command,
        url,
        transport=transport,
        name=name,
        header=header,
        header_command=header_command,
        env=env,
        inherit_env=True,
        cwd=cwd,
    )
    tasks = words.task_times(task_after, task_ttl, task_poll)
    inline = words.one_call(one_call, one_call_ttl, url)
    limits = _limits(call_ttl, timeout, start_timeout, max_sessions, roots_age, sign_in, inline, tasks)
    ring = start.key_ring(key_file)
    start.log_to_stderr(log_level, log_format)
    from bridge.app import run_stdio
    from bridge.settings import Server

    server = Server(
        target=target,
        limits=limits,
        attribution=attribution,
        asks=words.hints(asks or ()),
        replay=words.replay(replay or ()),
        single_session=single_session,
        strict_tasks=strict_tasks,
    )
    return run_stdio(server, ring or start.random_ring(say=False))


@app.command(context_settings=_COMMAND_WORDS, options_metavar="[OPTIONS] --")
def serve(
    context: typer.Context,
    command: options.Command = None,
    config: options.Config = None,
    host: options.Host = "127.0.0.1",
    port: options.Port = 8000,
    auth_token_file: options.AuthTokenFile = None,
    principal_header: options.PrincipalHeader = None,
    shared_session: options.SharedSession = False,
    roots: options.Roots = "shared",
    allowed_host: options.AllowedHost = None,
    allowed_origin: options.AllowedOrigin = None,
    max_body: options.MaxBody = "4m",
    url: options.Url = None,
    transport: options.Transport = "auto",
    name: options.Name = None,
    header: options.Header = None,
    header_command: options.HeaderCommand = None,
    env: options.Env = None,
    inherit_env: options.InheritEnv = False,
    cwd: options.Cwd = None,
    call_ttl: options.CallTtl = "1h",
    timeout: options.Timeout = "10m",
    start_timeout: options.StartTimeout = "1m",
    max_sessions: options.MaxSessions = 4,
    attribution: options.Attribution = "infer",
    asks: options.Asks = None,
    replay: options.Replay = None,
    sign_in: options.SignIn = "25s",
    roots_age: options.RootsAge = "5m",
    single_session: options.SingleSession = False,
    one_call: options.OneCall = False,
    one_call_ttl: options.OneCallTtl = "1m",
    task_after: options.TaskAfter = None,
    task_ttl: options.TaskTtl = "1h",
    task_poll: options.TaskPoll = "1s",
    strict_tasks: options.StrictTasks = False,
    key_file: options.KeyFile = None,
    log_level: options.Level = "info",
    log_format: options.Format = "text",
) -> int:
    """Speak 2026-07-28 over HTTP at /mcp. When ready, the full URL is printed to stderr."""
    if config is not None:
        from bridge.cli_fleet import serve_fleet

        return serve_fleet(config, context)
    target = _target(
        command,
        url,
        transport=transport,
        name=name,
        header=header,
        header_command=header_command,
        env=env,
        inherit_env=inherit_env,
        cwd=cwd,
    )
    tasks = words.task_times(task_after, task_ttl, task_poll)
    inline = words.one_call(one_call, one_call_ttl, url)
    limits = _limits(call_ttl, timeout, start_timeout, max_sessions, roots_age, sign_in, inline, tasks)
    if roots == "per-call" and single_session:
        raise WrongUse("--roots per-call needs a session for each set of roots, and --single-session allows one.")
    identify = start.identified(
        auth_token_file,
        principal_header,
        host=host,
        shared=shared_session,
        advice="give --auth-token-file or --principal-header, or --shared-session if everybody may share the server's "
        "sessions.",
    )
    from bridge.settings_http import HttpOptions

    http = HttpOptions(
        host=host,
        port=port,
        max_body=words.size("--max-body", max_body),
        allowed_hosts=tuple(map(words.host, allowed_host or ())),
        allowed_origins=tuple(map(words.origin, allowed_origin or ())),
        identify=identify,
    )
    ring = start.key_ring(key_file)
    start.log_to_stderr(log_level, log_format)
    from bridge.app import run_http
    from bridge.settings import Server

    server = Server(
        target=target,
        limits=limits,
        attribution=attribution,
        asks=words.hints(asks or ()),
        replay=words.replay(replay or ()),
        single_session=single_session,
        shared_session=shared_session,
        roots=roots,
        strict_tasks=strict_tasks,
    )
    return run_http(server, ring or start.random_ring(say=True), http)


@app.command()
def demo(
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Answer the server's questions yourself.")
    ] = False,
) -> int:
    """Show it working: an old server asks in the middle of a call, and a new client answers on a retry."""
    from bridge.demo import run

    return run(interactive)


@app.command()
def keygen() -> None:
    """Print a new key for MRTR_BRIDGE_KEYS or --key-file."""
    from bridge.keyring import generate

    typer.echo(generate())


def _print_version(wanted: bool) -> None:
    if wanted:
        from bridge.version import VERSION

        typer.echo(f"{PROGRAM} {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        code = app(args=arguments, prog_name=PROGRAM, standalone_mode=False)
    except WrongUse as error:
        return _fail(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except _ClickError as error:
        message, code = cast(Any, error).format_message(), cast(Any, error).exit_code
        if type(error).__name__ == "NoArgsIsHelpError":  # The help is the answer; some versions have printed it by now.
            print(message, end="", file=sys.stderr)
            return int(code)
        return _fail(f"{message.rstrip('.')}. See {PROGRAM} --help.", code)
    except Exception as error:
        return _fail_from(error)
    return code if isinstance(code, int) else 0


def _fail_from(error: Exception) -> int:
    """Say what broke, in the error's own words if they are meant for the operator."""
    import logging

    from bridge.keyring import KeyRingError
    from bridge.principals import PrincipalsError
    from bridge.settings_http import CannotListen
    from legacy.errors import LegacyError

    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    match error:
        case KeyRingError() | PrincipalsError():
            return _fail(str(error), 2)
        case CannotListen() | LegacyError():
            return _fail(str(error), 1)
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] in ("mcp", "mcp_types"):
            return _fail("The demo needs more packages: pip install 'mrtr-bridge[demo]'.", 1)
        case _:
            logging.getLogger("mrtr").error("The bridge stopped because of a fault of its own.", exc_info=error)
            return 1


def _fail(sentence: str, code: int) -> int:
    try:
        print(f"{PROGRAM}: {sentence}", file=sys.stderr)
    except (OSError, ValueError):
        pass
    return code


def _target(
    command: list[str] | None,
    url: str | None,
    *,
    transport: Literal["auto", "streamable-http", "http-sse"],
    name: str | None,
    header: list[str] | None,
    header_command: str | None,
    env: list[str] | None,
    inherit_env: bool,
    cwd: str | None,
) -> Target:
    command = command or []
    words.target_words(command, url)
    if name is not None and not (name.isprintable() and 0 < len(name) <= 100):
        raise WrongUse("--name takes at most 100 printable characters.")
    given: dict[str, Any] = {"name": name or words.server_name(command, url)}
    if url is not None:
        if env or cwd is not None:
            raise WrongUse("--env and --cwd belong to a command; a server at a URL was started by somebody else.")
        given |= {"url": words.server_url(url), "transport": transport, "headers": words.headers(header or ())}
        given |= {"header_command": words.header_command(header_command)}
    else:
        if header or header_command is not None:
            option = "--header" if header else "--header-command"
            raise WrongUse(f"{option} belongs to --url; a command takes no headers.")
        if transport != "auto":
            raise WrongUse("--transport belongs to --url; a command is spoken to over its stdin and stdout.")
        child_env = words.environment(env or (), inherit=inherit_env, ours=os.environ)
        child_cwd = None if cwd is None else words.directory(cwd)
        words.executable(command, env=child_env, cwd=child_cwd)
        given |= {"command": tuple(command), "env": child_env, "cwd": child_cwd}
    from bridge.settings import Target

    return Target(**given)


def _limits(
    call_ttl: str,
    timeout: str,
    start_timeout: str,
    max_sessions: int,
    roots_age: str,
    sign_in: str,
    one_call: float | None,
    tasks: dict[str, Any],
) -> Limits:
    call, silence = words.duration("--call-ttl", call_ttl), words.duration("--timeout", timeout)
    from bridge.settings import Limits

    return Limits.for_sessions(
        max_sessions,
        call_ttl=call,
        silence=silence,
        start=words.duration("--start-timeout", start_timeout),
        one_call=one_call,
        roots_age=words.duration("--roots-age", roots_age),
        sign_in=words.duration("--sign-in", sign_in),
        **tasks,
    )


if __name__ == "__main__":
    sys.exit(main())

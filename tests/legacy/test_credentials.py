"""Credentials that run out: `--header-command`, and what a 401 or 403 becomes, against a server that expires tokens."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from legacy.credentials import CredentialsFailed, HeaderCommand, read_headers
from legacy.errors import CannotStart
from legacy.messages import Lost, Result
from legacy.targets import HttpTarget
from tests.legacy.http_server import Exchange, HttpServer, here
from tests.legacy.support import Ears, cause, connected, eventually, start

pytestmark = pytest.mark.anyio
LOG = logging.getLogger("mrtr.server.srv")
METADATA = "https://auth.example.org/.well-known/oauth-protected-resource"
CHALLENGE = f'Bearer realm="hush", error="invalid_token", resource_metadata="{METADATA}", error_description="hush"'


@pytest.fixture
def anyio_backend() -> object:
    """The event loop that processes are started on where there is one."""
    return "asyncio", {"use_uvloop": True}


class Guarded(HttpServer):
    """Takes the tokens in `good`, refuses the rest with 401."""

    def __init__(self) -> None:
        super().__init__()
        self.good = {"hush-1"}
        self.refused: list[str | None] = []

    async def _handle(self, x: Exchange) -> None:
        token = x.headers.get("authorization", "").removeprefix("Bearer ")
        if token in self.good:
            await super()._handle(x)
        else:
            self.refused.append(x.method or x.verb)
            await x.answer(401, b"hush", www_authenticate=CHALLENGE)


class Tokens:
    """A command that prints `hush-1`, then `hush-2`, ...; it counts its runs in a file."""

    def __init__(self, folder: Path, *, then: str = "") -> None:
        self._runs = folder / "runs"
        script = folder / "token.py"
        script.write_text(
            f"import pathlib, sys, time\nruns = pathlib.Path({str(self._runs)!r})\n"
            "n = len(runs.read_text()) if runs.exists() else 0\nruns.write_text('x' * (n + 1))\n"
            f"print('hush', file=sys.stderr)\n{then}\nprint(f'Authorization: Bearer hush-{{n + 1}}')\n"
        )
        self.command = f"{sys.executable} {script}"

    @property
    def runs(self) -> int:
        return len(self._runs.read_text()) if self._runs.exists() else 0

    def target(self, server: HttpServer, **options: Any) -> HttpTarget:
        return replace(server.target, credentials=HeaderCommand(self.command, LOG, **options))


async def test_the_command_brings_headers_before_the_first_request_and_newer_ones_on_401(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mrtr")
    tokens, server = Tokens(tmp_path), Guarded()
    async with here(server), connected(tokens.target(server, pause=0)) as session:
        assert tokens.runs == 1
        assert not server.refused
        server.good = {"hush-2"}
        assert await session.request("tools/list", timeout=10) == Result({})
        assert server.refused == ["tools/list"]
        assert tokens.runs == 2
    assert "hush" not in caplog.text


async def test_a_hundred_requests_that_are_refused_share_one_run(tmp_path: Path) -> None:
    tokens, server = Tokens(tmp_path, then="time.sleep(0.2)"), Guarded()
    async with here(server), connected(tokens.target(server, pause=0)) as session:
        server.good = {"hush-2"}
        calls = [start(session, "tools/call")[1] for _ in range(100)]
        await eventually(lambda: all(calls), 15)
        assert calls == [[Result({})]] * 100
        assert tokens.runs == 2


async def test_credentials_that_are_refused_again_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    tokens, server = Tokens(tmp_path), Guarded()
    async with here(server), connected(tokens.target(server, pause=30)) as session:
        server.good = set()
        for _ in range(3):
            reply = await session.request("tools/call", timeout=10)
            assert isinstance(reply, Lost)
            assert reply.reason == (
                "The server 'srv' answered tools/call with HTTP 401 Unauthorized (Bearer, error invalid_token, "
                f"resource_metadata {METADATA}); give the bridge credentials that the server takes with --header, or "
                "with --header-command if they run out."
            )
        assert tokens.runs == 1  # not within 30 s of the last run
        assert not session.closed
        server.good = {"hush-1"}
        assert await session.request("tools/call", timeout=10) == Result({})


async def test_newer_credentials_are_tried_once_for_each_request(tmp_path: Path) -> None:
    tokens, server = Tokens(tmp_path), Guarded()
    async with here(server), connected(tokens.target(server, pause=0)) as session:
        server.good = set()
        assert isinstance(await session.request("tools/call", timeout=10), Lost)
        assert server.refused == ["tools/call"] * 2
        assert tokens.runs == 2
        server.good = {"hush-2"}


async def test_the_get_stream_is_opened_again_with_newer_credentials(tmp_path: Path) -> None:
    tokens, server = Tokens(tmp_path), Guarded()

    async def get(x: Exchange) -> None:
        await x.stream()
        if server.good == {"hush-1"}:
            server.good = {"hush-2"}
            await x.end()
        else:
            await x.event(message={"id": 1, "method": "elicitation/create", "params": {"message": "?"}})
            await x.gone()

    server.on_get = get
    ears = Ears()
    async with here(server), connected(tokens.target(server, pause=0), ears):
        await eventually(lambda: ears.asks)
        assert tokens.runs == 2


async def test_a_get_stream_that_is_refused_too_soon_for_newer_credentials_is_opened_later(tmp_path: Path) -> None:
    tokens, server = Tokens(tmp_path), Guarded()

    async def get(x: Exchange) -> None:
        await x.event(message={"id": 1, "method": "elicitation/create", "params": {"message": "?"}})
        await x.gone()

    async def pushed(x: Exchange) -> None:
        server.good = {"hush-2"}  # before the GET
        await x.answer(202)

    server.on_get, server.on_push = get, pushed
    ears = Ears()
    async with here(server), connected(tokens.target(server, pause=1), ears) as session:
        assert session.unlabelled
        assert not ears.asks
        await eventually(lambda: ears.asks)
        assert tokens.runs == 2


async def test_an_answer_that_is_refused_for_old_credentials_is_sent_again(tmp_path: Path) -> None:
    tokens, server = Tokens(tmp_path), Guarded()

    async def call(x: Exchange) -> None:
        await x.event(message={"id": 1, "method": "elicitation/create", "params": {"message": "?"}})
        server.good = {"hush-2"}
        await eventually(lambda: len(server.pushed()) == 2)  # refused with the old ones, taken with the new ones
        await x.event(message={"id": x.id, "result": {"said": server.pushed()[-1]["result"]}})
        await x.end()

    server.on_call = call
    ears = Ears()
    async with here(server), connected(tokens.target(server, pause=0), ears) as session:
        _, replies = start(session, "tools/call")
        await eventually(lambda: server.good == {"hush-2"} and ears.asks)
        session.answer(ears.asks[0], {"action": "accept"})
        await eventually(lambda: replies)
        assert replies == [Result({"said": {"action": "accept"}})]
        assert server.refused == ["POST"]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_is_named_for_the_handshake_a_request_and_the_get_stream(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = HttpServer()
    word = {401: "Unauthorized", 403: "Forbidden"}[status]

    async def refuse(x: Exchange) -> None:
        await x.answer(status, {"error": {"code": -32001, "message": "hush"}}, www_authenticate=CHALLENGE)

    server.on_get = server.on_call = refuse
    said = f"HTTP {status} {word} (Bearer, error invalid_token, resource_metadata {METADATA}); "
    async with here(server):
        async with connected(server.target) as session:
            assert not session.unlabelled
            reply = await session.request("tools/call", timeout=5)
            assert isinstance(reply, Lost)
            assert reply.reason.startswith(f"The server 'srv' answered tools/call with {said}")
            assert "--header-command" in reply.reason
        [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert f"the GET stream was refused with HTTP {status} {word} (Bearer" in warning
        assert "--header" in warning
        server.on_initialize = refuse
        with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
            async with connected(server.target):
                pass
        sentence = str(cause(caught.value))
        assert f"at http://127.0.0.1:{server.port}/mcp answered initialize with {said}" in sentence
    assert "hush" not in caplog.text + sentence + reply.reason


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("exit 3", "ended with exit code 3; run it by hand"),
        ("sleep 20", "did not end within 0.5 s"),
        ("echo hush hush", "printed a line that is no `Name: value`"),
        ("true", "printed no header"),
        ("yes hush", "printed more than 65536 bytes"),
    ],
)
async def test_a_command_that_brings_no_headers_is_an_error_that_says_so(
    command: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mrtr")
    server = HttpServer()
    async with here(server):
        credentials = HeaderCommand(command, LOG, within=0.5)
        with pytest.raises((CannotStart, BaseExceptionGroup)) as caught:
            async with connected(replace(server.target, credentials=credentials)):
                pass
        sentence = str(cause(caught.value))
        assert sentence.startswith("The server 'srv' could not be reached for initialize: --header-command")
        assert says in sentence
        assert not server.seen
    assert "hush" not in caplog.text + sentence


async def test_a_command_that_fails_at_renewal_is_named_with_the_401(tmp_path: Path) -> None:
    tokens, server = Tokens(tmp_path, then="if n: sys.exit(4)"), Guarded()
    async with here(server), connected(tokens.target(server, pause=0)) as session:
        server.good = set()
        reply = await session.request("tools/call", timeout=10)
        assert isinstance(reply, Lost)
        assert "it answered HTTP 401 Unauthorized, and --header-command ended with exit code 4" in reply.reason


async def test_a_waiter_that_leaves_ends_the_command_and_the_next_runs_it_anew(tmp_path: Path) -> None:
    marker = tmp_path / "lives"
    credentials = HeaderCommand(f"test -e {marker} && echo X-Key: 1 || {{ sleep 30; }}", LOG)
    with anyio.move_on_after(0.3) as left:
        await credentials.current()
    assert left.cancelled_caught
    marker.touch()
    with anyio.fail_after(5):
        assert await credentials.current() == (1, {"x-key": "1"})


@pytest.mark.parametrize(
    ("printed", "headers"),
    [
        ("Authorization: Bearer a:b==\r\n\r\nX-Two:  2 \n", {"authorization": "Bearer a:b==", "x-two": "2"}),
        (json.dumps({"Authorization": "Bearer c", "X-Key": "k"}), {"authorization": "Bearer c", "x-key": "k"}),
    ],
)
def test_lines_and_a_json_object_are_read(printed: str, headers: dict[str, str]) -> None:
    assert read_headers(printed.encode()) == headers


@pytest.mark.parametrize(
    "printed",
    [
        b"\xff: hush",
        b"{hush",
        b'{"X": 1}',
        b'{"X": "hush\\n"}',
        b"X: h\xc3\xbcsh",
        b"Mcp-Session-Id: hush",
        b"X Y: hush",
        b"X:",
    ],
)
def test_what_may_not_be_sent_is_refused_without_being_repeated(printed: bytes) -> None:
    with pytest.raises(CredentialsFailed) as caught:
        read_headers(printed)
    assert "hush" not in str(caught.value)

"""URLs that a person has to open, by a server of the old SDK and with both official clients of today."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.peers.talking import ROOT, Http, Script, Stdio, Transcript, bridge, bridge_serving, converse, server_process

Json = dict[str, Any]

SIGNER = [os.environ.get("MRTR_TEST_LEGACY_PYTHON", "python"), str(ROOT / "tests" / "servers" / "signer.py")]


@pytest.fixture(scope="module")
def signer_url() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with server_process([*SIGNER, str(port)], r"Uvicorn running"):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(scope="module", params=["stdio server", "http server"])
def signer(request: pytest.FixtureRequest, face: str) -> Iterator[Stdio | Http]:
    server = ["--", *SIGNER] if request.param == "stdio server" else ["--url", request.getfixturevalue("signer_url")]
    if face == "stdio":
        yield Stdio(bridge("stdio", *server))
    else:
        with bridge_serving(*server) as target:
            yield target


def said(client: str, signer: Stdio | Http, *calls: Json, action: str = "accept") -> Transcript:
    return converse(client, signer, Script(list(calls), {"elicitation/create": [{"action": action}]}))


def tool(name: str, **arguments: Any) -> Json:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


def test_a_url_is_shown_once_and_the_call_ends_well_when_the_person_is_done(client: str, signer: Stdio | Http) -> None:
    transcript = said(client, signer, tool("needs_sign_in", id=uuid4().hex, seconds=1.0))
    assert transcript.text(0) == "signed in"
    assert [(ask["params"]["mode"], ask["params"]["message"]) for ask in transcript.asks] == [("url", "Sign in first.")]


def test_a_declined_url_is_one_error_and_no_second_question(client: str, signer: Stdio | Http) -> None:
    transcript = said(client, signer, tool("needs_sign_in", id=uuid4().hex, seconds=30.0), action="decline")
    assert transcript.results[0]["error"]["code"] == -32603
    assert len(transcript.asks) == 1


def test_a_url_in_the_middle_of_a_call_is_asked_like_anything_else(client: str, signer: Stdio | Http) -> None:
    transcript = said(client, signer, tool("asks_url"))
    assert transcript.text(0) == "accept"
    assert "elicitationId" not in transcript.asks[0]["params"]

"""The HTTP face's address: bound before anything else, or a sentence."""

from __future__ import annotations

import socket

import pytest

from bridge.settings_http import CannotListen, HttpOptions, bind, is_loopback


def test_port_0_is_any_free_one() -> None:
    with bind(HttpOptions(port=0)) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass


def test_a_taken_port_is_said_with_what_to_do() -> None:
    with bind(HttpOptions(port=0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(CannotListen, match=f"127.0.0.1, port {port}: .*Give another --port"):
            bind(HttpOptions(port=port))


def test_a_host_without_an_address_is_said() -> None:
    with pytest.raises(CannotListen, match="has no address here"):
        bind(HttpOptions(host="no such host", port=0))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("LOCALHOST", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("x.localhost", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback

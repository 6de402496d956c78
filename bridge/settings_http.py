"""Where and for whom the HTTP face listens. Values only, and the one act that can fail before it is up: binding."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Final

from bridge.principals import Identify, everybody_is_anonymous
from modern.http_app import PATH

MAX_BODY: Final = 4 * 1024 * 1024


class CannotListen(Exception):
    """The address is taken, not ours or not allowed; the message is a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """What `run_http` needs to know besides the server."""

    host: str = "127.0.0.1"
    port: int = 8000
    """0: any free one."""
    max_body: int = MAX_BODY
    """Bytes of a request's body; more is 413."""
    allowed_hosts: tuple[str, ...] = ()
    """``Host`` values that are ours, with or without a port, besides those of the loopback interface.

    Behind an address that is not loopback the names of this machine are not known here: there, none given means any.
    """
    allowed_origins: tuple[str, ...] = ()
    """``Origin`` values whose pages may call us."""
    identify: Identify = everybody_is_anonymous

    def url(self, port: int | None = None) -> str:
        """The endpoint's full URL; ``port`` is the bound one when `port` is 0."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port if port is None else port}{PATH}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``. A name other than ``localhost`` could be anything: no."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(options: HttpOptions) -> socket.socket:
    """A listening socket at the options' address.

    Raises:
        CannotListen: with the reason and what to do.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise CannotListen(f"The host {options.host!r} has no address here ({error}); give another --host.") from None
    listener = socket.socket(family, kind, protocol)
    try:
        if hasattr(socket, "SO_REUSEADDR") and not hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # Not on Windows: it shares ports there.
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        where = f"{options.host}, port {options.port}"
        raise CannotListen(
            f"Cannot listen on {where}: {error.strerror or error}. Give another --port or --host."
        ) from None
    listener.setblocking(False)
    return listener

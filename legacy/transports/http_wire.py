"""What the HTTP answers of a legacy server mean; pure.

The rules are those of 2025-11-25 basic/transports (session management), and what servers do instead: a session that is
gone is 404 by the specification, and in the field also 400 with a JSON-RPC error, or with plain text, about the
session.
"""

from __future__ import annotations

import re
from typing import Any

import httpx

from legacy.messages import Refusal
from legacy.replies import as_int, says_one_session
from legacy.wire import decode

ACCEPT_BOTH = "application/json, text/event-stream"
ACCEPT_EVENTS = "text/event-stream"
PASSING = frozenset({408, 409, 425, 429})
"""Client errors that another try may not meet."""

CREDENTIALS = frozenset({401, 403})
"""What is answered for want of credentials, or of better ones."""

_PARAMETER = re.compile(r'([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))')
_SCHEME = re.compile(r"(?:^|,)\s*([A-Za-z][A-Za-z0-9-]{0,30})(?=[\s,]|$)")
_TELLING = {
    "error": re.compile(r"[a-z_]{1,40}"),
    "scope": re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]{1,200}"),
    "resource_metadata": re.compile(r"https?://[!-~]{1,300}"),
}

_ABOUT_SESSION = re.compile(r"\bsession|not initialized", re.IGNORECASE)
_NO_SUCH_SESSION = re.compile(
    r"session\b.{0,60}\b(?:not found|unknown|expired|does not exist)|\b(?:unknown|no such) session", re.IGNORECASE
)
_STILL_THERE = re.compile(r"\bconflict\b|\bonly one\b|\balready (?:open|connected|exists|established)", re.IGNORECASE)
"""What is said of a session whose stream the server believes to be open still, after a proxy has cut it."""
_SESSION_CODES = frozenset({-32600, -32000, -32001, -32603})


def session_in(response: httpx.Response) -> str | None:
    """The session that an answer names, byte for byte: it is to be sent back so, also where it is no ASCII."""
    for name, value in response.headers.raw:
        if name.lower() == b"mcp-session-id":
            return value.decode("latin-1")
    return None


def media_type(response: httpx.Response) -> str:
    """The media type of the answer, without parameters."""
    value: str = response.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()


def error_in(body: bytes) -> dict[str, Any] | None:
    """The JSON-RPC error object in the body of an HTTP error, whatever id it has; None if there is none."""
    try:
        value = decode(body)
    except ValueError:
        return None
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) and isinstance(error.get("code"), int) else None


def adopted(message: dict[str, Any], request_id: int | None) -> dict[str, Any]:
    """A message that answers a POST: an error whose id is none of ours (null, or text such as "server-error") is the
    POST's own, since HTTP says whose it is."""
    if request_id is None or "error" not in message or "method" in message or as_int(message.get("id")) is not None:
        return message
    return {**message, "id": request_id}


def session_is_gone(status: int, body: bytes, *, had_session: bool) -> bool:
    """Whether this answer says that the server does not know our session (any more), and did not look further.

    Servers of the Rust SDK say so with 401. If it was about credentials after all, the next ``initialize`` tells.
    """
    if not had_session or status not in (400, 401, 404):
        return False
    error = error_in(body)
    if status == 404:
        return error is None or error["code"] in _SESSION_CODES
    if status == 401:
        return _NO_SUCH_SESSION.search(body[:2000].decode("utf-8", "replace")) is not None
    said = body[:2000].decode("utf-8", "replace") if error is None else str(error.get("message"))
    if not _ABOUT_SESSION.search(said) or _STILL_THERE.search(said):
        return False
    return error is None or error["code"] in _SESSION_CODES


def post_is_for_no_session(status: int, body: bytes) -> bool:
    """The same for a POST of HTTP+SSE, whose URL is the session: there is no such URL, or it says so."""
    said = body[:2000].decode("utf-8", "replace")
    return status in (404, 410) or (status == 400 and _ABOUT_SESSION.search(said) is not None)


def one_session(status: int, body: bytes) -> Refusal | None:
    """Whether an ``initialize`` that got no JSON-RPC answer was refused because the server has its one session
    already. Servers throw that at their web framework, which may show it, or only say that something failed."""
    if status in (401, 403, 429):
        return None
    if says_one_session(body[:2000].decode("utf-8", "replace")):
        return Refusal.ONE_SESSION
    return Refusal.PERHAPS_ONE_SESSION if status == 500 else None


def same_origin(one: httpx.URL, other: httpx.URL) -> bool:
    """Scheme, host and port."""
    return _origin(one) == _origin(other)


def under_the_prefix(stream: httpx.URL, endpoint: httpx.URL) -> httpx.URL | None:
    """Where the endpoint of HTTP+SSE is for those who reach its server through a proxy that puts it under a path of its
    own: ``/messages`` named at ``/tools/sse`` is ``/tools/messages``. None if the paths leave no room for one."""
    above = [part for part in stream.path.split("/")[:-1] if part]
    named = [part for part in endpoint.path.split("/") if part]
    shared = next(n for n in range(len(above), -1, -1) if above[len(above) - n :] == named[:n])
    prefix = above[: len(above) - shared]
    return endpoint.copy_with(path=f"/{'/'.join(prefix)}{endpoint.path}") if prefix else None


def shown(url: httpx.URL) -> str:
    """A URL fit for a message: without credentials and query."""
    port = f":{url.port}" if url.port is not None else ""
    return f"{url.scheme}://{url.host}{port}{url.path}"


def status_line(response: httpx.Response) -> str:
    """For example ``404 Not Found``, or ``401 Unauthorized (Bearer, invalid_token)``."""
    line = f"{response.status_code} {httpx.codes.get_reason_phrase(response.status_code)}".rstrip()
    challenge = challenged(response) if response.status_code in CREDENTIALS else ""
    return f"{line} ({challenge})" if challenge else line


def challenged(response: httpx.Response) -> str:
    """What ``WWW-Authenticate`` wants: schemes, and of their parameters those that help and hold no secret (RFC 6750,
    section 3; RFC 9728, section 5.1)."""
    value = response.headers.get("www-authenticate", "")[:4000]
    found = [scheme[1] for scheme in _SCHEME.finditer(_PARAMETER.sub("=", value))]
    for parameter in _PARAMETER.finditer(value):
        form, given = _TELLING.get(parameter[1].lower()), parameter[2] or parameter[3] or ""
        if form is not None and form.fullmatch(given):
            found.append(f"{parameter[1].lower()} {given}")
    return ", ".join(found)


def advice(status: int, method: str) -> str:
    """What the operator can do about a refusal, as the end of a sentence."""
    match status:
        case 401:
            return (
                "; give the bridge credentials that the server takes with --header, or with --header-command if they "
                "run out"
            )
        case 403:
            return (
                "; the server refuses the bridge's credentials (--header, --header-command), or what they may do, "
                "or this host or origin"
            )
        case 404 | 405 if method == "initialize":
            return "; check the path of its URL, and whether it speaks Streamable HTTP"
        case 429:
            return "; it asks for fewer requests"
        case _:
            return ""


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)

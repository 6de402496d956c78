"""What every start of the bridge needs of the command line: keys, the log, and who may come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bridge.cli_values import WrongUse

if TYPE_CHECKING:
    from bridge.keyring import KeyRing
    from bridge.principals import Identify


def key_ring(key_file: str | None) -> KeyRing | None:
    from bridge.keyring import KeyRing

    return KeyRing.from_env() if key_file is None else KeyRing.from_file(key_file)


def random_ring(*, say: bool) -> KeyRing:
    import logging

    from bridge.keyring import KeyRing

    logging.getLogger("mrtr").log(
        logging.INFO if say else logging.DEBUG,
        "No key was given (MRTR_BRIDGE_KEYS or --key-file): a random one is used, and what it sealed is void when this "
        "process ends. So are the calls that wait for an answer, which live in its memory.",
    )
    return KeyRing.random()


def log_to_stderr(level: str, style: Literal["text", "json"]) -> None:
    from bridge import telemetry

    telemetry.setup(level, style)


def identified(token_file: str | None, header: str | None, *, host: str, shared: bool, advice: str) -> Identify:
    """From a request to its principal; everybody is one only on loopback, or where sessions are shared.

    Raises:
        WrongUse: others can reach ``host``, and nothing tells them apart; it ends with ``advice``.
    """
    from bridge.principals import everybody_is_anonymous, identify_by
    from bridge.settings_http import is_loopback

    identify = identify_by(token_file=token_file, header=header)
    if identify is None and not shared and not is_loopback(host):
        raise WrongUse(f"Others can reach {host or 'every address'}, and nothing would tell them apart: {advice}")
    return identify or everybody_is_anonymous

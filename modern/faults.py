"""What a face does with an exception that its handler should not have let out: the client learns that it happened.

The log gets the exception's type and where it arose, never its message or any value: both may hold what a user typed.
"""

from __future__ import annotations

import logging
import traceback
from typing import Final

from modern.errors import INTERNAL_ERROR, ProtocolError

log: Final = logging.getLogger("mrtr.modern")


def internal_error(method: str, fault: BaseException) -> ProtocolError:
    """Log ``fault`` without its values; the error that the client gets instead."""
    frames = traceback.extract_tb(fault.__traceback__)
    where = "\n".join(f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
    log.error("serving %s failed with %s\n%s", method, type(fault).__qualname__, where)
    return ProtocolError(INTERNAL_ERROR, "Internal error: the bridge failed to serve this request; its log says where.")


def because(error: ProtocolError, trouble: str | None) -> ProtocolError:
    """The error, with what is wrong besides said first: some clients show nothing but their last error."""
    if trouble is None:
        return error
    return ProtocolError(error.code, f"{trouble} ({error.message})", error.data, status=error.status)

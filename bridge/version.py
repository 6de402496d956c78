"""What the bridge calls itself: to old servers as their client, to new clients beside the server's own name."""

from __future__ import annotations

from importlib import metadata

NAME = "mrtr-bridge"
try:
    VERSION = metadata.version(NAME)
except metadata.PackageNotFoundError:  # run from a checkout that was never installed
    VERSION = "0+unknown"

CLIENT_INFO = {"name": NAME, "title": "MRTR bridge", "version": VERSION}

"""Bytes to messages and back, one module a transport; no rule of the protocol lives here."""

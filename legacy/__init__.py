"""The Model Context Protocol up to revision 2025-11-25, as its client: sessions with servers that ask mid-call."""

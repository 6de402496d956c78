"""The Model Context Protocol from revision 2026-07-28 on, as its server: what arrives, what may leave, and how."""

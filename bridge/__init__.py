"""Where the eras meet: a legacy server's mid-call asks become multi round-trip results of 2026-07-28."""

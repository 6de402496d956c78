"""Pure tables and functions between the eras: requests, results, asks, answers, errors, notifications, capabilities."""

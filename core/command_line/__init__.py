"""The `mowdeck` command: its root, and the commands that speak to either host over the API."""

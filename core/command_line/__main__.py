"""`python -m core.command_line` is `mowdeck`."""

from __future__ import annotations

from core.command_line.main import main

main()

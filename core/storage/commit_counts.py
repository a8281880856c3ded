"""What the writer of a database has done, counted for the wear of a card."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CommitCounts:
    """Since the start. Written by the writer's thread alone; reading it elsewhere gives the newest or the one before.

    Syncs are of the log and ours; SQLite adds two for each checkpoint (about every 4 MiB of log).
    """

    commits: int = 0
    """Transactions that changed something."""
    prompt_syncs: int = 0
    """At once: orders, their results, and rows that the relay is about to be told of."""
    timed_syncs: int = 0
    """For all that came within the commit window: states of mowers."""
    failed_syncs: int = 0

"""The tables of commands. They outlive the mower, so they do not refer to it."""

from __future__ import annotations

import sqlalchemy as sa

from core.storage.relational import METADATA
from core.storage.relational_types import ID, WORD, Instant

COMMANDS = sa.Table(
    "fleet_commands",
    METADATA,
    sa.Column("command_id", ID, primary_key=True),
    sa.Column("account_id", ID, nullable=False),
    sa.Column("mower_id", ID, nullable=False),
    sa.Column("edge_id", ID, nullable=False),
    sa.Column("command", sa.Text, nullable=False),
    sa.Column("status", WORD, nullable=False),
    sa.Column("reason", sa.Text, nullable=True),
    sa.Column("issued_by", sa.Text, nullable=False),
    sa.Column("correlation_id", ID, nullable=False),
    sa.Column("confirm_timeout_s", sa.Float, nullable=False),
    sa.Column("issued_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Index("fleet_commands_mower", "account_id", "mower_id", "command_id"),
    sa.Index("fleet_commands_open", "status", "expires_at"),
    sa.Index("fleet_commands_age", "issued_at"),
)

COMMAND_SESSIONS = sa.Table(
    "fleet_command_sessions",
    METADATA,
    sa.Column("command_id", ID, sa.ForeignKey("fleet_commands.command_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("session_id", ID, nullable=False),
)
"""The sign-in that a person gave a command in, which may end while the command waits."""

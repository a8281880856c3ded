"""Accounts, the people in them, and what lets them in. Secrets are kept only as fingerprints."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Index, PrimaryKeyConstraint, String, Table

from core.storage.relational import METADATA
from core.storage.relational_types import ID, WORD, Instant

FINGERPRINT = String(64)
"""SHA-256 in hex of a random secret."""
NAME = String(128)


def _account() -> Column[str]:
    return Column("account_id", ID, ForeignKey("identity_accounts.account_id", ondelete="CASCADE"), nullable=False)


def _user() -> Column[str]:
    return Column("user_id", ID, ForeignKey("identity_users.user_id", ondelete="CASCADE"), nullable=False)


accounts = Table(
    "identity_accounts",
    METADATA,
    Column("account_id", ID, primary_key=True),
    Column("name", NAME, nullable=False),
    Column("created_at", Instant, nullable=False),
)

users = Table(
    "identity_users",
    METADATA,
    Column("user_id", ID, primary_key=True),
    Column("username", NAME, nullable=False),
    Column("email", String(254)),
    Column("password_hash", String(255), nullable=False),
    Column("must_change_password", Boolean, nullable=False),
    Column("home_account_id", ID, ForeignKey("identity_accounts.account_id", ondelete="SET NULL")),
    Column("created_at", Instant, nullable=False),
)
"""People, once per installation. Only the administrators of the home account may reset the password."""

login_names = Table(
    "identity_login_names",
    METADATA,
    Column("name", String(254), primary_key=True),
    _user(),
    Index("ix_identity_login_names_user", "user_id"),
)
"""Folded usernames and e-mail addresses, in one namespace: nobody can call themselves by another's address."""

memberships = Table(
    "identity_memberships",
    METADATA,
    _account(),
    _user(),
    Column("is_disabled", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
    PrimaryKeyConstraint("account_id", "user_id"),
    Index("ix_identity_memberships_user", "user_id"),
)

sessions = Table(
    "identity_sessions",
    METADATA,
    Column("session_id", ID, primary_key=True),
    _user(),
    _account(),
    Column("device", String(200), nullable=False),
    Column("address", String(64), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("last_used_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Index("ix_identity_sessions_user", "user_id"),
)
"""Signed-in devices, each with the account it acts for at present. A revoked session is deleted."""

refresh_tokens = Table(
    "identity_refresh_tokens",
    METADATA,
    Column("fingerprint", FINGERPRINT, primary_key=True),
    Column(
        "session_id", ID, ForeignKey("identity_sessions.session_id", ondelete="CASCADE"), nullable=False, index=True
    ),
    Column("issued_at", Instant, nullable=False),
    Column("used_at", Instant),
)
"""The family of a session; those used are kept for a while, to recognise a stolen one."""

role_assignments = Table(
    "identity_role_assignments",
    METADATA,
    Column("assignment_id", ID, primary_key=True),
    _account(),
    _user(),
    Column("role", WORD, nullable=False),
    Column("object_type", WORD, nullable=False),
    Column("object_id", ID, nullable=False),
    Column("starts_at", Instant),
    Column("ends_at", Instant),
    Column("created_by", ID, nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("ix_identity_role_assignments_account", "account_id", "user_id"),
)

service_tokens = Table(
    "identity_service_tokens",
    METADATA,
    Column("token_id", ID, primary_key=True),
    _account(),
    Column("name", NAME, nullable=False),
    Column("fingerprint", FINGERPRINT, nullable=False, unique=True),
    Column("role", WORD, nullable=False),
    Column("object_type", WORD, nullable=False),
    Column("object_id", ID, nullable=False),
    Column("created_by", ID, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("last_used_at", Instant),
    Index("ix_identity_service_tokens_account", "account_id"),
)

reset_links = Table(
    "identity_reset_links",
    METADATA,
    Column("fingerprint", FINGERPRINT, primary_key=True),
    _user(),
    _account(),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
"""One-time links for a new password, at most one per user."""

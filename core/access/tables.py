"""The tuples: who holds what on which object, and which object is below which."""

from __future__ import annotations

from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table

from core.storage.relational import METADATA
from core.storage.relational_types import ID, WORD, Instant

grants = Table(
    "access_grants",
    METADATA,
    Column("assignment_id", ID, nullable=False),
    Column("account_id", ID, nullable=False),
    Column("subject", ID, nullable=False),
    Column("grant_name", WORD, nullable=False),
    Column("object_type", WORD, nullable=False),
    Column("object_id", ID, nullable=False),
    Column("starts_at", Instant),
    Column("ends_at", Instant),
    PrimaryKeyConstraint("assignment_id", "grant_name"),
    Index("ix_access_grants_subject", "account_id", "subject", "grant_name"),
)
"""`subject` holds `grant_name` on an object and all below it, from `starts_at` until just before `ends_at`.
Written by identity, one row per grant of the assignment that it follows."""

hierarchy = Table(
    "access_hierarchy",
    METADATA,
    Column("account_id", ID, nullable=False),
    Column("child_type", WORD, nullable=False),
    Column("child_id", ID, nullable=False),
    Column("parent_type", WORD, nullable=False),
    Column("parent_id", ID, nullable=False),
    PrimaryKeyConstraint("child_type", "child_id", "parent_type", "parent_id"),
    Index("ix_access_hierarchy_child", "account_id", "child_id"),
    Index("ix_access_hierarchy_parent", "account_id", "parent_type", "parent_id"),
)
"""The child is below the parent. Written by fleet; an object without a row here is nobody's."""

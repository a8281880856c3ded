"""Tables of the boxes and of their linking. Secrets have 256 random bits and are kept as hashes."""

from __future__ import annotations

import sqlalchemy as sa

from core.storage.relational import METADATA
from core.storage.relational_types import ID, WORD, Instant

EDGES = sa.Table(
    "edges",
    METADATA,
    sa.Column("edge_id", ID, primary_key=True),
    sa.Column("account_id", ID, nullable=False),
    sa.Column("site_id", sa.ForeignKey("fleet_sites.site_id"), nullable=False),
    sa.Column("name", sa.String(120), nullable=False),
    sa.Column("fingerprint", sa.String(128), nullable=False, unique=True),
    sa.Column("credential_hash", sa.String(200), nullable=True),
    sa.Column("linked_at", Instant, nullable=False),
    sa.Column("linked_by", sa.String(64), nullable=False),
    sa.Column("registrations_version", sa.Integer, nullable=False, server_default="0"),
    sa.Column("last_seen_at", Instant, nullable=True),
    sa.Column("facts", sa.Text, nullable=True),
    sa.Index("edges_account", "account_id"),
    sa.Index("edges_site", "site_id"),
)
"""`facts` is the EdgeFacts of the last hello. `fingerprint` is unique: a box has one account at a time.
`credential_hash` is as the broker keeps it (`$7$`), null until the box has fetched its credential."""

LINK_REQUESTS = sa.Table(
    "edge_link_requests",
    METADATA,
    sa.Column("device_code_hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("user_code", sa.String(16), nullable=False, unique=True),
    sa.Column("name", sa.String(120), nullable=False),
    sa.Column("version", sa.String(64), nullable=False),
    sa.Column("fingerprint", sa.String(128), nullable=False),
    sa.Column("remote", sa.String(64), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Column("status", WORD, nullable=False),
    sa.Column("interval_s", sa.Integer, nullable=False),
    sa.Column("polled_at", Instant, nullable=True),
    sa.Column("edge_id", ID, nullable=True),
    sa.Index("edge_link_requests_expiry", "expires_at"),
)
"""`status` is pending, confirmed or denied; a confirmed request names the edge that it made."""

"""Tables of the fleet. JSON is text that msgspec wrote."""

from __future__ import annotations

import sqlalchemy as sa

from core.storage.relational import METADATA
from core.storage.relational_types import ID, Instant

SITES = sa.Table(
    "fleet_sites",
    METADATA,
    sa.Column("site_id", ID, primary_key=True),
    sa.Column("account_id", ID, nullable=False),
    sa.Column("name", sa.String(120), nullable=False),
    sa.Column("address", sa.String(400), nullable=False, server_default=""),
    sa.Column("time_zone", sa.String(64), nullable=False, server_default="UTC"),
    sa.Column("is_default", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("created_at", Instant, nullable=False),
    sa.Index("fleet_sites_account", "account_id"),
)
sa.Index(
    "fleet_sites_one_default",
    SITES.c.account_id,
    unique=True,
    sqlite_where=SITES.c.is_default.is_(True),
    postgresql_where=SITES.c.is_default.is_(True),
)
"""One default site per account, also when two requests make it at the same moment."""

GROUPS = sa.Table(
    "fleet_groups",
    METADATA,
    sa.Column("group_id", ID, primary_key=True),
    sa.Column("account_id", ID, nullable=False),
    sa.Column("site_id", sa.ForeignKey("fleet_sites.site_id"), nullable=True),
    sa.Column("name", sa.String(120), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Index("fleet_groups_account", "account_id"),
    sa.Index("fleet_groups_site", "site_id"),
)

MOWERS = sa.Table(
    "fleet_mowers",
    METADATA,
    sa.Column("mower_id", ID, primary_key=True),
    sa.Column("account_id", ID, nullable=False),
    sa.Column("site_id", sa.ForeignKey("fleet_sites.site_id"), nullable=False),
    sa.Column("edge_id", ID, nullable=True),
    sa.Column("name", sa.String(120), nullable=False),
    sa.Column("domain", sa.String(64), nullable=True),
    sa.Column("connection", sa.Text, nullable=True),
    sa.Column("vendor", sa.String(120), nullable=True),
    sa.Column("serial", sa.String(120), nullable=True),
    sa.Column("model", sa.String(200), nullable=True),
    sa.Column("links", sa.Text, nullable=False, server_default="[]"),
    sa.Column("areas", sa.Text, nullable=False, server_default="[]"),
    sa.Column("capabilities", sa.Text, nullable=False, server_default="{}"),
    sa.Column("setup_error", sa.Text, nullable=True),
    sa.Column("created_at", Instant, nullable=False),
    sa.UniqueConstraint("account_id", "vendor", "serial", name="fleet_mowers_serial"),
    sa.Index("fleet_mowers_edge", "edge_id"),
    sa.Index("fleet_mowers_site", "site_id"),
)

MOWER_GROUPS = sa.Table(
    "fleet_mower_groups",
    METADATA,
    sa.Column("mower_id", sa.ForeignKey("fleet_mowers.mower_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("group_id", sa.ForeignKey("fleet_groups.group_id"), primary_key=True),
    sa.Index("fleet_mower_groups_group", "group_id"),
)

REMOVED_MOWERS = sa.Table(
    "fleet_removed_mowers",
    METADATA,
    sa.Column("edge_id", ID, primary_key=True),
    sa.Column("mower_id", ID, primary_key=True),
    sa.Column("removed_at", Instant, nullable=False),
)
"""Mowers deleted here that their box may still have; kept until a hello without them shows that it has heard."""

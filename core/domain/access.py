"""Who may do what: grants on objects, the relations that are asked for, and the built-in roles."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ObjectType(StrEnum):
    """Levels of the hierarchy; a right on one flows down to all below it."""

    ACCOUNT = "account"
    SITE = "site"
    GROUP = "group"
    MOWER = "mower"


class ObjectRef(msgspec.Struct, frozen=True, kw_only=True):
    """One object, e.g. the mower `01j...`."""

    type: ObjectType
    id: str


class Grant(StrEnum):
    """What a tuple (subject, grant, object) gives."""

    VIEW = "view"
    CONTROL = "control"
    DRIVE = "drive"
    BULK = "bulk"
    MANAGE = "manage"
    USERS = "users"
    AUDIT = "audit"


class Relation(StrEnum):
    """What is asked before something is done."""

    CAN_VIEW = "can_view"
    CAN_EMERGENCY_STOP = "can_emergency_stop"
    CAN_CONTROL = "can_control"
    CAN_DRIVE = "can_drive"
    CAN_BULK_COMMAND = "can_bulk_command"
    CAN_MANAGE_MOWERS = "can_manage_mowers"
    CAN_MANAGE_USERS = "can_manage_users"
    CAN_AUDIT = "can_audit"


GRANT_OF: dict[Relation, Grant] = {
    Relation.CAN_VIEW: Grant.VIEW,
    Relation.CAN_EMERGENCY_STOP: Grant.VIEW,  # whoever sees a machine with blades may stop it
    Relation.CAN_CONTROL: Grant.CONTROL,
    Relation.CAN_DRIVE: Grant.DRIVE,
    Relation.CAN_BULK_COMMAND: Grant.BULK,
    Relation.CAN_MANAGE_MOWERS: Grant.MANAGE,
    Relation.CAN_MANAGE_USERS: Grant.USERS,
    Relation.CAN_AUDIT: Grant.AUDIT,
}
"""The grant that each relation needs."""

ROLES: dict[str, frozenset[Grant]] = {
    "owner": frozenset(Grant),
    "manager": frozenset(Grant) - {Grant.USERS},
    "operator": frozenset({Grant.VIEW, Grant.CONTROL, Grant.DRIVE, Grant.BULK}),
    "viewer": frozenset({Grant.VIEW}),
    "installer": frozenset({Grant.VIEW, Grant.CONTROL, Grant.DRIVE, Grant.MANAGE}),
    "service": frozenset({Grant.VIEW, Grant.CONTROL}),
}
"""Built-in roles and what they hold."""

ROLES_WITH_END: frozenset[str] = frozenset({"installer"})
"""Roles that are never given without an end date."""

"""The tables are made the same way in both databases."""

from __future__ import annotations

import pytest
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from core.access import tables as access
from core.identity import tables as identity
from core.storage.relational import METADATA


@pytest.mark.parametrize("dialect", [postgresql.dialect(), sqlite.dialect()])
def test_every_table_and_index_can_be_made(dialect: Dialect) -> None:
    ours = [t for t in METADATA.sorted_tables if t.name.startswith(("identity_", "access_"))]
    assert access.grants in ours
    assert identity.users in ours
    for table in ours:
        assert str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            assert str(CreateIndex(index).compile(dialect=dialect))


def test_no_table_keeps_a_secret_in_the_clear() -> None:
    """A column that could hold one is a fingerprint or a hash."""
    names = {f"{t.name}.{c.name}" for t in METADATA.sorted_tables if t.name.startswith("identity_") for c in t.columns}
    assert {n for n in names if any(w in n.partition(".")[2] for w in ("secret", "password", "key"))} == {
        "identity_users.password_hash",
        "identity_users.must_change_password",
    }

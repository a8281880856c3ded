"""Thousands of random tracks: SQL agrees with the pure rule to the row, in slices of any length."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.storage.test_sqlite_thinning import LENGTHS_US
from tests.core.storage.thinning_agreement import assert_agreement
from tests.core.telemetry.tracks import some_times, tracks


@pytest.mark.timeout(600)
@settings(max_examples=3_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(tracks(most_legs=20), st.integers(0, 99), st.sampled_from(LENGTHS_US))
def test_sql_agrees_with_the_pure_rule_to_the_row(rows, seed: int, length_us: int) -> None:
    assert_agreement(rows, some_times(rows, seed), length_us=length_us)

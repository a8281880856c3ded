"""Each read of the growth bench gets at rows, ours and the bare one at the same mower's."""

from __future__ import annotations

from pathlib import Path

from bench.growth import READS, measure_read, measure_size, thin
from bench.season import Season, make_season
from bench.thinning import open_track

SMALL, LONGER = Season(mowers=2, days=3, row_s=20.0), Season(mowers=1, days=15, row_s=20.0)


async def test_reads_and_their_baselines_find_rows(tmp_path: Path) -> None:
    box = tmp_path / "box.db"
    await make_season(box, SMALL)
    connection = open_track(box)
    for read in READS.values():
        assert read.ours(connection, SMALL, 2)
        assert read.bare(connection, SMALL, 2)
    assert READS["history_31d_1h"].ours(connection, SMALL, 1) != READS["history_31d_1h"].ours(connection, SMALL, 2)
    bins, groups = (work(connection, SMALL, 1) for work in (READS["history_31d_1h"].ours, READS["history_31d_1h"].bare))
    assert isinstance(bins, list)
    assert isinstance(groups, list)
    assert [one.samples for one in bins] == [row[1] for row in groups]
    connection.close()
    assert measure_read(box, SMALL, "track_1d", 2)["ms"] > 0


async def test_thinning_takes_only_what_is_old_and_the_file_shrinks(tmp_path: Path) -> None:
    box = tmp_path / "box.db"
    await make_season(box, LONGER)
    before = measure_size(box, LONGER)
    figures = thin(box, LONGER, 1)
    after = measure_size(box, LONGER)
    assert 0 < figures["scanned"] < before["rows_left"] / 10
    assert after["rows_left"] == before["rows_left"] - round(figures["scanned"] * (1 - figures["left_percent"] / 100))
    assert after["track_mib"] <= before["track_mib"]
    assert before["bytes_per_row_left"] > 20

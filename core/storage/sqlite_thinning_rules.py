"""The rules of `core.telemetry.thinning` as SQL on SQLite, over one slice in temporary tables.

`thin_rows` gets the slice and what is around it, numbered in order; `thin_paths` has each row's length of path and bin;
`thin_kept` is the survivors by number. The slice is `:first <= n < :last`. Every arithmetic operation is the pure
rule's, in its order. Integers stand here in full; doubles come as parameters (PARAMETERS).
"""

from __future__ import annotations

from core.telemetry.binning import ANCHOR_US
from core.telemetry.thinning import (
    ARM_UM,
    BLADES_TOLERANCE_M2,
    COARSE_BIN_S,
    CONTEXT_US,
    FINE_BIN_S,
    GAP_US,
    MOVED_UM,
    TOLERANCE_M2,
    TURN_COSINE_SQUARED,
)
from core.telemetry.track_scale import EAST, HALF_TURN, NORTH, QUARTER, TURN

PARAMETERS: dict[str, float] = {
    **{f"n{power}": value for power, value in enumerate(NORTH)},
    **{f"e{power}": value for power, value in enumerate(EAST)},
    "quarter": QUARTER,
    "micro": 1e6,
    "cosine": TURN_COSINE_SQUARED,
    "blades_tolerance": BLADES_TOLERANCE_M2,
    "tolerance": TOLERANCE_M2,
}
"""What every statement here may be given."""

TABLES = (
    """CREATE TEMP TABLE IF NOT EXISTS thin_rows (n INTEGER PRIMARY KEY, at, lat, lon, fix, blades, north, east)""",
    """CREATE TEMP TABLE IF NOT EXISTS thin_paths (n INTEGER PRIMARY KEY, step, path, bin, is_broken)""",
    """CREATE INDEX IF NOT EXISTS temp.thin_paths_path ON thin_paths (path)""",
    """CREATE TEMP TABLE IF NOT EXISTS thin_kept (n INTEGER PRIMARY KEY)""",
    """CREATE TEMP TABLE IF NOT EXISTS thin_gaps (a INTEGER PRIMARY KEY, b, lat, lon, north, east, ux, uy, uu)""",
    """CREATE TEMP TABLE IF NOT EXISTS thin_farthest (a INTEGER PRIMARY KEY, b, n, square, is_beyond)""",
)
CLEAR = tuple(f"DELETE FROM {name}" for name in ("thin_rows", "thin_paths", "thin_kept", "thin_gaps", "thin_farthest"))

_ONCE = "LIMIT -1 OFFSET 0"
"""Keeps SQLite from copying a subquery's expressions to each of their uses."""

_LOAD = """
INSERT INTO thin_rows (at, lat, lon, fix, blades, north, east)
SELECT observed_us, lat_e7, lon_e7, rtk_fix, blades_on,
    ((:n3 * z + :n2) * z + :n1) * z + :n0,
    (1 - z) * ((((:e4 * z + :e3) * z + :e2) * z + :e1) * z + :e0)
FROM (SELECT observed_us, lat_e7, lon_e7, rtk_fix, blades_on, (lat_e7 / :quarter) * (lat_e7 / :quarter) AS z
"""
LOAD = (
    f"{_LOAD} FROM thinning_tails WHERE mower_no = :mower ORDER BY observed_us {_ONCE})",
    f"""{_LOAD} FROM mower_positions
    WHERE mower_no = :mower AND observed_us >= :start AND observed_us <= :end + {CONTEXT_US}
    ORDER BY observed_us {_ONCE})""",
)
"""The end of the slice before, as it was; the slice; and ten minutes after it."""


def _turned(difference: str) -> str:
    return f"(({difference} + {TURN + HALF_TURN}) % {TURN} - {HALF_TURN})"


MEASURE = f"""
INSERT INTO thin_paths (n, step, path, bin, is_broken)
SELECT n, step, sum(step) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING),
    CASE WHEN blades = 1 OR step > {MOVED_UM} THEN (at - {ANCHOR_US}) / {FINE_BIN_S * 1_000_000} * 2 + 1
         ELSE (at - {ANCHOR_US}) / {COARSE_BIN_S * 1_000_000} * 2 END,
    is_broken
FROM (
    SELECT n, at, blades, is_broken, coalesce(CAST(sqrt(dx * dx + dy * dy) * :micro AS INTEGER), 0) AS step
    FROM (
        SELECT r.n, r.at, r.blades,
            p.n IS NULL OR r.at - p.at > {GAP_US} OR r.blades IS NOT p.blades OR r.fix IS NOT p.fix AS is_broken,
            {_turned("r.lon - p.lon")} * r.east AS dx, (r.lat - p.lat) * r.north AS dy
        FROM thin_rows r LEFT JOIN thin_rows p ON p.n = r.n - 1
        ORDER BY r.n {_ONCE}
    )
    {_ONCE}
)
"""
"""`is_broken`: between the row before and this one lies an edge."""

_BACK = f"""CASE WHEN m.step >= {ARM_UM} THEN s.n - 1 ELSE
    (SELECT o.n FROM thin_paths o WHERE o.path <= m.path - {ARM_UM} ORDER BY o.path DESC, o.n DESC LIMIT 1) END"""
_AHEAD = f"""CASE WHEN mq.step >= {ARM_UM} THEN mq.n ELSE
    (SELECT o.n FROM thin_paths o WHERE o.path >= m.path + {ARM_UM} ORDER BY o.path, o.n LIMIT 1) END"""

JUDGE = f"""
INSERT INTO thin_kept (n)
SELECT min(s.n) FROM thin_paths s LEFT JOIN thin_paths p ON p.n = s.n - 1
WHERE s.n >= :first AND s.bin IS NOT p.bin GROUP BY s.bin
UNION
SELECT n FROM (
    SELECT n, is_plain, ux * vx + uy * vy AS dot, (ux * ux + uy * uy) * (vx * vx + vy * vy) AS square FROM (
        SELECT s.n,
            m.is_broken OR mq.n IS NULL OR mq.is_broken
                OR s.at IN (SELECT observed_us FROM mower_history WHERE mower_no = :mower AND observed_us >= :start
                            AND observed_us < :end AND error_code IS NOT NULL) AS is_plain,
            {_turned("s.lon - f.lon")} * s.east AS ux, (s.lat - f.lat) * s.north AS uy,
            {_turned("t.lon - s.lon")} * s.east AS vx, (t.lat - s.lat) * s.north AS vy
        FROM thin_rows s CROSS JOIN thin_paths m ON m.n = s.n LEFT JOIN thin_paths mq ON mq.n = s.n + 1
            LEFT JOIN thin_rows f ON f.n = {_BACK} AND s.at - f.at <= {CONTEXT_US}
            LEFT JOIN thin_rows t ON t.n = {_AHEAD} AND t.at - s.at <= {CONTEXT_US}
        WHERE s.n >= :first AND s.n < :last
        {_ONCE}
    )
    {_ONCE}
)
WHERE is_plain OR dot <= 0 OR dot * dot < :cosine * square
"""
"""All rules but the bound, for the rows of the slice; also the first row after it, which is the first of a bin."""


def _gaps(pairs: str) -> str:
    return f"""
INSERT INTO thin_gaps (a, b, lat, lon, north, east, ux, uy, uu)
SELECT a, b, lat, lon, north, east, ux, uy, ux * ux + uy * uy FROM (
    SELECT g.a, g.b, s.lat, s.lon, s.north, s.east,
        {_turned("e.lon - s.lon")} * s.east AS ux, (e.lat - s.lat) * s.north AS uy
    FROM ({pairs}) g CROSS JOIN thin_rows s CROSS JOIN thin_rows e
    WHERE g.b - g.a > 1 AND s.n = g.a AND e.n = g.b
)"""


FIRST_GAPS = _gaps("SELECT a, b FROM (SELECT n AS a, lead(n) OVER (ORDER BY n) AS b FROM thin_kept) WHERE a < :last")
NEXT_GAPS = _gaps(
    "SELECT a, n AS b FROM thin_farthest WHERE is_beyond UNION ALL SELECT n, b FROM thin_farthest WHERE is_beyond"
)

FIND_FARTHEST = f"""
INSERT INTO thin_farthest (a, b, n, square, is_beyond)
SELECT a, b, n, square, square > CASE WHEN blades = 1 THEN :blades_tolerance ELSE :tolerance END FROM (
    SELECT a, b, n, blades, max(CASE
        WHEN vx * ux + vy * uy <= 0 THEN vx * vx + vy * vy
        WHEN vx * ux + vy * uy >= uu THEN (vx - ux) * (vx - ux) + (vy - uy) * (vy - uy)
        ELSE (vx * uy - vy * ux) * (vx * uy - vy * ux) / uu END) AS square
    FROM (
        SELECT g.a, g.b, r.n, r.blades, g.ux, g.uy, g.uu,
            {_turned("r.lon - g.lon")} * g.east AS vx, (r.lat - g.lat) * g.north AS vy
        FROM thin_gaps g CROSS JOIN thin_rows r WHERE r.n > g.a AND r.n < g.b
    )
    GROUP BY a
)
"""
"""The farthest row of each gap; of several the earliest, which SQLite's `max` keeps in the order of the scan."""

KEEP_FARTHEST = "INSERT INTO thin_kept (n) SELECT n FROM thin_farthest WHERE is_beyond"
"""No row is changed once every gap is within its tolerance."""
LARGEST = "SELECT coalesce(max(square), 0.0) FROM thin_farthest WHERE NOT is_beyond"

SAVE_TAIL = f"""
INSERT INTO thinning_tails (mower_no, observed_us, lat_e7, lon_e7, rtk_fix, blades_on)
SELECT :mower, r.at, r.lat, r.lon, r.fix, r.blades
FROM thin_paths l CROSS JOIN thin_rows r
WHERE l.n = :last - 1 AND r.n < :last AND r.n >= coalesce(
    (SELECT o.n FROM thin_paths o WHERE o.path <= l.path - {ARM_UM} ORDER BY o.path DESC, o.n DESC LIMIT 1), 1)
  AND (r.n = :last - 1 OR r.at >= :end - {CONTEXT_US})
"""
"""Rows that an arm of the next slice may reach, and the last row in any case."""

-- How far each mower's track is thinned. Rows behind the watermark are never looked at again.
CREATE TABLE mower_positions_thinning (
    mower_no         INTEGER PRIMARY KEY,
    thinned_until_us INTEGER NOT NULL
);

-- One row per slice (six hours at most) that lost rows: none of those is farther than error_mm from what is left.
CREATE TABLE thinned_stretches (
    mower_no INTEGER NOT NULL,
    first_us INTEGER NOT NULL,
    last_us  INTEGER NOT NULL,
    error_mm INTEGER NOT NULL,
    PRIMARY KEY (mower_no, first_us)
) WITHOUT ROWID;

-- The end of the newest thinned slice as it was before: what the next slice sees behind itself (a few rows a mower).
CREATE TABLE thinning_tails (
    mower_no    INTEGER NOT NULL,
    observed_us INTEGER NOT NULL,
    lat_e7      INTEGER NOT NULL,
    lon_e7      INTEGER NOT NULL,
    rtk_fix     INTEGER,
    blades_on   INTEGER,
    PRIMARY KEY (mower_no, observed_us)
) WITHOUT ROWID;

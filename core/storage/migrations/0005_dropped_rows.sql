-- What the disk budget has cost: rows let go before their time, by table.
CREATE TABLE dropped_rows (
    table_name   TEXT PRIMARY KEY,
    rows         INTEGER NOT NULL,
    unacked_rows INTEGER NOT NULL,
    first_us     INTEGER NOT NULL,
    last_us      INTEGER NOT NULL
) WITHOUT ROWID;

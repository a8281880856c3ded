-- Small documents of a mower that change over time (days of health, changes of blades, sessions, alerts): the newest
-- version of each. `at_us` is when what it tells of happened, `updated_us` which version it is. `seq` is the newest
-- version's journal number on the box, NULL on the relay.
CREATE TABLE mower_records (
    mower_no   INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    at_us      INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    seq        INTEGER,
    body       BLOB NOT NULL,
    PRIMARY KEY (mower_no, kind, key)
) WITHOUT ROWID;

CREATE INDEX mower_records_at ON mower_records (mower_no, kind, at_us);
CREATE INDEX mower_records_seq ON mower_records (seq) WHERE seq IS NOT NULL;

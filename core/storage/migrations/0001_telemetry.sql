-- Telemetry of one host. Times are microseconds since 1970-01-01 UTC (*_us), coordinates whole 1e-7 degrees (*_e7),
-- words are the codes of core/storage/sqlite_columns.py. `seq` is the box's journal number, NULL on the relay.

CREATE TABLE mower_directory (
    mower_id   TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    edge_id    TEXT,
    name       TEXT NOT NULL,
    is_seed    INTEGER NOT NULL
) WITHOUT ROWID;

-- One number per (mower, account): a row is only reachable through the account that it was written under.
CREATE TABLE mowers (
    mower_no   INTEGER PRIMARY KEY,
    mower_id   TEXT NOT NULL,
    account_id TEXT NOT NULL,
    UNIQUE (mower_id, account_id)
);

CREATE TABLE mower_latest (
    mower_no             INTEGER PRIMARY KEY,
    observed_us          INTEGER NOT NULL,
    received_us          INTEGER NOT NULL,
    history_written_us   INTEGER,
    history_fingerprint  TEXT,
    position_fingerprint TEXT,
    state                BLOB NOT NULL
);

CREATE TABLE mower_history (
    mower_no      INTEGER NOT NULL,
    observed_us   INTEGER NOT NULL,
    seq           INTEGER,
    activity      INTEGER NOT NULL,
    connectivity  INTEGER NOT NULL,
    battery       INTEGER,
    is_charging   INTEGER,
    rtk_fix       INTEGER,
    rtk_source    INTEGER,
    blade_height  INTEGER,
    blades_on     INTEGER,
    speed         INTEGER,
    error_code    TEXT,
    PRIMARY KEY (mower_no, observed_us)
) WITHOUT ROWID;

CREATE INDEX mower_history_seq ON mower_history (seq) WHERE seq IS NOT NULL;

-- No index on seq: journal_blocks says in which stretch of time a stretch of numbers lies (20 bytes less per row).
CREATE TABLE mower_positions (
    mower_no    INTEGER NOT NULL,
    observed_us INTEGER NOT NULL,
    seq         INTEGER,
    lat_e7      INTEGER NOT NULL,
    lon_e7      INTEGER NOT NULL,
    heading     INTEGER,
    accuracy    INTEGER,
    rtk_fix     INTEGER,
    rtk_source  INTEGER,
    blades_on   INTEGER,
    wifi        INTEGER,
    mobile      INTEGER,
    satellites  INTEGER,
    PRIMARY KEY (mower_no, observed_us)
) WITHOUT ROWID;

CREATE TABLE command_timeline (
    command_id TEXT NOT NULL,
    status     INTEGER NOT NULL,
    mower_no   INTEGER NOT NULL,
    at_us      INTEGER NOT NULL,
    reason     TEXT,
    seq        INTEGER,
    PRIMARY KEY (command_id, status)
) WITHOUT ROWID;

CREATE INDEX command_timeline_at ON command_timeline (mower_no, at_us);
CREATE INDEX command_timeline_seq ON command_timeline (seq) WHERE seq IS NOT NULL;

-- The box's stream: its name and how far the relay has acknowledged it.
CREATE TABLE journal_stream (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    stream_id TEXT NOT NULL,
    acked_seq INTEGER NOT NULL
);

-- Runs of numbers: every track row with first_seq <= seq <= last_seq has first_us <= observed_us <= last_us. The
-- last block is the counter and is never deleted.
CREATE TABLE journal_blocks (
    first_seq INTEGER PRIMARY KEY,
    last_seq  INTEGER NOT NULL,
    first_us  INTEGER,
    last_us   INTEGER
);

-- The relay's side: how far each stream of each box is stored, and what could not be.
CREATE TABLE edge_streams (
    edge_id     TEXT NOT NULL,
    stream_id   TEXT NOT NULL,
    acked_seq   INTEGER NOT NULL,
    PRIMARY KEY (edge_id, stream_id)
) WITHOUT ROWID;

CREATE TABLE quarantine (
    id          INTEGER PRIMARY KEY,
    edge_id     TEXT NOT NULL,
    stream_id   TEXT NOT NULL,
    seq         INTEGER NOT NULL,
    reason      TEXT NOT NULL,
    payload     BLOB NOT NULL,
    received_us INTEGER NOT NULL,
    UNIQUE (edge_id, stream_id, seq)
);

-- Commands that the box has seen, so that none runs twice, each with its last transition.
CREATE TABLE command_ledger (
    command_id TEXT PRIMARY KEY,
    mower_id   TEXT NOT NULL,
    status     INTEGER NOT NULL,
    reason     TEXT,
    seen_us    INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    envelope   BLOB NOT NULL
) WITHOUT ROWID;

CREATE INDEX command_ledger_seen ON command_ledger (seen_us);
CREATE INDEX command_ledger_mower ON command_ledger (mower_id, command_id);

-- The open day of a mower's health (core/telemetry/health_tally.py, JSON): counted with each state, so it is written
-- with it. NULL on the relay, which has the days as records.
ALTER TABLE mower_latest ADD COLUMN health BLOB;

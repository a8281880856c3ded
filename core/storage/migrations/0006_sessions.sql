-- What a mower's sessions remember between two states (core/telemetry/session_tally.py, JSON): advanced with each state,
-- so it is written with it. NULL on the relay, which has the sessions as records.
ALTER TABLE mower_latest ADD COLUMN session BLOB;

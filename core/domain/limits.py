"""Every bound of the system in one place, with the relations between them asserted at import."""

from __future__ import annotations

from datetime import timedelta

# State and telemetry (03)
HEARTBEAT_S = 10.0
"""An unchanged state is reported again this often, so that silence and no change can be told apart."""
STALE_AFTER_S = 60.0
"""A state older than this is stale: six missed heartbeats."""
HISTORY_HEARTBEAT_S = 300.0
"""An unchanged state is written to the history at most this often."""
STANDING_POSITION_S = 300.0
"""A standing mower's position is written at most this often (for the signal maps)."""
POSITION_STEP_M = 0.01
HEALTH_GAP_S = 120.0
FUTURE_TOLERANCE = timedelta(minutes=10)
"""Rows dated further ahead than this are quarantined."""
COMMIT_WINDOW_S = 1.0
"""Grouped commits of telemetry: what a power cut may cost at most."""
HISTORY_RANGE = timedelta(days=31)
MAX_BINS = 5_000
MAX_RAW_ROWS = 5_000
MAX_TRACK_POINTS = 20_000
SIMPLIFIED_ROWS = 50_000
"""Rows of a track that are looked at for one answer: under two days at 1 Hz of mowing."""
HISTORY_RETENTION = timedelta(days=30)
POSITIONS_RETENTION = timedelta(days=730)
TIMELINE_RETENTION = timedelta(days=30)
RETENTION_BATCH_ROWS = 5_000
RECORD_BYTES = 16 * 1024
"""Body of one record (a small document of a mower)."""
RECORD_RETENTION = timedelta(days=730)
"""Records of a kind that this version does not know, and of those without a time of their own."""
RECORD_NEWS = timedelta(hours=1)
"""Older versions of records (a box that was away) are stored, but not pushed to sockets."""

# Runtime of the box (02)
EVENT_QUEUE = 256
"""Events of one link waiting for the intake; more fails the link (an event is never dropped in silence)."""
REPORTS_PER_S = 50
"""Reports of one link that the intake takes per second, averaged over ten; more is a flood."""
SILENT_AFTER_S = 900.0
"""A link that is up but has said nothing of a moving mower for this long is no longer believed."""
COMMAND_QUEUE = 16
"""Commands waiting for one mower; more are rejected."""
RETRY_FIRST_S = 5.0
RETRY_MAX_S = 600.0
CLOSE_DEADLINE_S = 5.0
"""A link or a plugin task that is asked to end has this long before it is abandoned and named in the log."""

# Plugin platform (02)
IMPORT_DEADLINE_S = 30.0
SETUP_DEADLINE_S = 60.0
"""`create` and the first `mowers()` of a config entry together."""
STEP_DEADLINE_S = 45.0
"""One step of a config flow."""
FLOW_TTL_S = 1800.0
FLOWS_OPEN = 32
FLOWS_DISCOVERED = 16
"""Of these at most so many that no person has started, so that discovery never locks people out."""
ENTRIES = 128
PLUGIN_TASKS = 64
"""Tasks that one config entry may have at a time through `spawn`."""
BUDGET_WAIT_S = 60.0
"""A request that the vendor's budget allows later than this fails instead of waiting."""

# Sync (04)
BATCH_ROWS = 1_000
BATCH_BYTES = 64 * 1024
BATCH_BYTES_RAW = 4 * 1024 * 1024
"""What a batch may inflate to before it is refused."""
BATCHES_IN_FLIGHT = 8
ACK_TIMEOUT_S = 30.0
RECONNECT_FIRST_S = 1.0
RECONNECT_MAX_S = 300.0
RECONNECT_STABLE_S = 60.0
LIVE_INTERVAL_S = 1.0
"""At most one live snapshot per mower in this time."""
MESSAGE_BYTES = 1024 * 1024
LINK_CODE_TTL = timedelta(minutes=10)
LINK_CODE_TRIES = 5
LINK_POLL_S = 5.0
SEEN_COMMANDS = timedelta(hours=24)
UNDATED_ROWS = 20_000
"""Rows kept in memory while the box's clock is not yet right; the oldest are halved beyond it."""

# Commands (05)
COMMAND_TTL = timedelta(seconds=30)
COMMAND_TTL_MAX = timedelta(seconds=300)
EMERGENCY_TTL = timedelta(seconds=10)
DRIVE_TTL = timedelta(seconds=2)
COMMAND_RETENTION = timedelta(days=90)
AREAS_PER_COMMAND = 100
AREA_ID_CHARS = 64
MOWERS_PER_ACCOUNT = 50
BULK_SIZE = 200
CONNECTION_OPTIONS_BYTES = 4 * 1024

# Driving by hand (04 section 4.6)
DRIVE_SESSION = timedelta(minutes=10)
DRIVE_IDLE_S = 30.0
"""A drive session without a frame for this long is over: nobody is there any more."""
DRIVE_FRAME_TTL_MS = 500
"""The dead man: a mower stands when no newer frame arrived within the frame's own time."""
DRIVE_FRAME_TTL_MS_MIN = 100
DRIVE_FRAME_TTL_MS_MAX = 1_000
DRIVE_FRAMES_PER_S = 20.0
"""Frames of one session that a host passes on; more are refused."""

# Realtime (05 section 5.4)
FRAME_BYTES = 16 * 1024
AUTH_DEADLINE_S = 5.0
CONNECTIONS_PER_ACCOUNT = 50
CONNECTIONS_PER_USER = 10
SUBSCRIPTIONS = 200
VIEWER_QUEUE = 256
SEND_DEADLINE_S = 10.0
PROTOCOL_PING_S = 20.0
RECHECK_S = 60.0
LAST_VALUES = 10_000

# Access and identity (05)
ACCESS_TOKEN_TTL = timedelta(minutes=10)
REFRESH_TOKEN_TTL = timedelta(days=30)
DECISION_TTL_S = 5.0
PASSWORD_MIN = 10
PASSWORD_MAX = 256

assert STALE_AFTER_S == 6 * HEARTBEAT_S
assert COMMIT_WINDOW_S <= HEARTBEAT_S
assert EMERGENCY_TTL <= COMMAND_TTL <= COMMAND_TTL_MAX
assert ACK_TIMEOUT_S < RECONNECT_MAX_S
assert BATCH_BYTES < MESSAGE_BYTES
assert 2 * RECORD_BYTES < BATCH_BYTES
assert PROTOCOL_PING_S < 90
assert DRIVE_FRAME_TTL_MS_MIN <= DRIVE_FRAME_TTL_MS <= DRIVE_FRAME_TTL_MS_MAX < DRIVE_IDLE_S * 1_000
assert DRIVE_SESSION < SEEN_COMMANDS
assert FLOWS_DISCOVERED < FLOWS_OPEN

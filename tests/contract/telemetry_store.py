"""What every TelemetryStore must do. Parametrise a test over `COMMON`, and over `BOX` or `RELAY` for stores that have
that side; each check takes a way to open a store.

`open_store(name)` opens the store of that name, empty at first; opened again it has what was written before.
"""

from __future__ import annotations

from tests.contract.telemetry_health import HEALTH
from tests.contract.telemetry_ingest import INGEST
from tests.contract.telemetry_journal import JOURNAL
from tests.contract.telemetry_reads import READS
from tests.contract.telemetry_records import RECORDS, RECORDS_OF_A_BOX, RECORDS_OF_A_RELAY
from tests.contract.telemetry_sessions import SESSIONS
from tests.contract.telemetry_writes import WRITES

COMMON = (*WRITES, *READS, *RECORDS)
BOX = (*JOURNAL, *RECORDS_OF_A_BOX, *HEALTH, *SESSIONS)
RELAY = (*INGEST, *RECORDS_OF_A_RELAY)

"""Every built-in integration with every fault: what is run, and why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.domain.mower import LinkKind
from core.platform.contract.fault import NETWORK_FAULTS, Fault, MakeBench, faults_of
from integrations.ardumower import emulator as ardumower
from integrations.grouw_ble import emulator as grouw_ble
from integrations.husqvarna_ble import emulator as husqvarna_ble
from integrations.simulator import emulator as simulator


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One integration over one link."""

    name: str
    link: LinkKind
    make: MakeBench
    no_such_fault: Mapping[Fault, str]

    @property
    def faults(self) -> list[Fault]:
        """Those that are run."""
        return [fault for fault in faults_of([self.link]) if fault not in self.no_such_fault]


IN_MEMORY = (
    Row(
        name="husqvarna_ble",
        link=LinkKind.BLE,
        make=husqvarna_ble.contract_fault,
        no_such_fault=husqvarna_ble.NO_SUCH_FAULT,
    ),
    Row(name="grouw_ble", link=LinkKind.BLE, make=grouw_ble.contract_fault, no_such_fault=grouw_ble.NO_SUCH_FAULT),
    Row(name="ardumower", link=LinkKind.BLE, make=ardumower.fault_over_ble, no_such_fault=ardumower.NO_SUCH_FAULT),
    Row(name="simulator", link=LinkKind.SIM, make=simulator.contract_fault, no_such_fault=simulator.NO_SUCH_FAULT),
)
OVER_NETWORK = (
    Row(name="ardumower", link=LinkKind.LAN, make=ardumower.fault_over_lan, no_such_fault=ardumower.NO_SUCH_FAULT),
)
ROWS = (*IN_MEMORY, *OVER_NETWORK)
RUN_OVER_NETWORK = NETWORK_FAULTS | {
    Fault.WRONG_PIN,
    Fault.LOST_ANSWERS,
    Fault.SILENT,
    Fault.SLOW_ANSWERS,
    Fault.REBOOT,
}
"""Over real sockets in real time: what differs there. The rest is the firmware's and the machine's, and runs above."""

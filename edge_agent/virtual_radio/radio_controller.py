"""bumble's virtual controller with the behaviour of a real one where a box depends on it.

Every override names what the stock controller (0.0.236) does instead; `test_bumble_gaps.py` fails when a new
version of bumble changes one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bumble import hci, ll
from bumble.controller import Connection, Controller, LegacyAdvertiser
from bumble.link import LocalLink
from bumble.transport.common import BaseSource, TransportSink

ReportType = hci.HCI_LE_Advertising_Report_Event.EventType
SLOT_S = 0.000_625
ADV_IND = 0
ADV_NONCONN_IND = 3


@dataclass
class RadioAdvInd(ll.AdvInd):
    """An advertisement with its scan response and whether a central may connect to it."""

    scan_response: bytes = b""
    is_connectable: bool = True


class RadioAdvertiser(LegacyAdvertiser):
    """Stock: the interval is taken as milliseconds where HCI counts 0.625 ms slots, scan responses are never sent,
    and only connectable advertising exists."""

    def _on_timer_fired(self) -> None:
        self.send_advertising_data()
        interval_s = max(self.advertising_interval_min, 1) * SLOT_S
        self.timer_handle = asyncio.get_running_loop().call_later(interval_s, self._on_timer_fired)

    def send_advertising_data(self) -> None:
        if self.enabled:
            self.controller.send_advertising_pdu(
                RadioAdvInd(
                    advertiser_address=self.address,
                    data=self.advertising_data,
                    scan_response=self.scan_response_data,
                    is_connectable=self.advertising_type == ADV_IND,
                )
            )


class RadioController(Controller):
    """One radio on the air, known there by its unique `name`."""

    def __init__(
        self,
        name: str,
        *,
        link: LocalLink,
        host_source: BaseSource | None = None,
        host_sink: TransportSink | None = None,
    ) -> None:
        # Legacy commands only: what the mowers speak, and one code path less in bumble.
        self.le_features = Controller.le_features & ~hci.LeFeatureMask.LE_EXTENDED_ADVERTISING
        self.heard_dbm: int = -127
        """Strength of the advertisement that is being handled; set by the link."""
        self.link_dbm: Callable[[hci.Address], int] = lambda _peer: -127
        """Strength of a connection; set by the link."""
        super().__init__(name, host_source=host_source, host_sink=host_sink, link=link)
        self.le_legacy_advertiser = RadioAdvertiser(self)

    def silence(self) -> None:
        """Power is gone. Stock: a controller without a host goes on advertising."""
        self.le_legacy_advertiser.stop()
        self.pending_le_connection = None
        self.le_scan_enable = False

    def on_hci_reset_command(self, _command: hci.HCI_Reset_Command) -> hci.HCI_StatusReturnParameters:
        """Stock: a reset leaves advertising, scanning and the pending connection as they were."""
        self.silence()
        return hci.HCI_StatusReturnParameters(hci.HCI_ErrorCode.SUCCESS)

    def on_advertising_pdu(self, pdu: ll.AdvInd | ll.AdvExtInd) -> None:
        """Stock: -50 dBm always, and the advertisement repeated in place of the scan response."""
        if not isinstance(pdu, RadioAdvInd):
            return
        if self.le_scan_enable:
            kind = ReportType.ADV_IND if pdu.is_connectable else ReportType.ADV_NONCONN_IND
            self._report(pdu, kind, pdu.data)
            if pdu.is_connectable and self.le_scan_type == 1:
                self._report(pdu, ReportType.SCAN_RSP, pdu.scan_response)
        pending = self.pending_le_connection
        if pdu.is_connectable and pending is not None and pending.peer_address == pdu.advertiser_address:
            self.create_le_connection(pdu.advertiser_address)

    def _report(self, pdu: RadioAdvInd, kind: ReportType, data: bytes) -> None:
        report = hci.HCI_LE_Advertising_Report_Event.Report(
            event_type=kind,
            address_type=pdu.advertiser_address.address_type,
            address=pdu.advertiser_address,
            data=data,
            rssi=self.heard_dbm,
        )
        self.send_hci_packet(hci.HCI_LE_Advertising_Report_Event([report]))

    def on_le_disconnected(self, connection: Connection, reason: int) -> None:
        """Stock: a KeyError when both ends hang up at once."""
        if self.le_connections.get(connection.peer_address) is connection:
            super().on_le_disconnected(connection, reason)

    def on_hci_le_create_connection_cancel_command(
        self, _command: hci.HCI_LE_Create_Connection_Cancel_Command
    ) -> hci.HCI_StatusReturnParameters:
        """Stock: does nothing and says SUCCESS, so a connect to an absent peer hangs for ever."""
        pending, self.pending_le_connection = self.pending_le_connection, None
        if pending is None:
            return hci.HCI_StatusReturnParameters(hci.HCI_ErrorCode.COMMAND_DISALLOWED_ERROR)
        event = hci.HCI_LE_Connection_Complete_Event(
            status=hci.HCI_ErrorCode.UNKNOWN_CONNECTION_IDENTIFIER_ERROR,
            connection_handle=0,
            role=hci.Role.CENTRAL,
            peer_address_type=pending.peer_address.address_type,
            peer_address=pending.peer_address,
            connection_interval=0,
            peripheral_latency=0,
            supervision_timeout=0,
            central_clock_accuracy=0,
        )
        asyncio.get_running_loop().call_soon(self.send_hci_packet, event)
        return hci.HCI_StatusReturnParameters(hci.HCI_ErrorCode.SUCCESS)

    def on_hci_read_rssi_command(self, command: hci.HCI_Read_RSSI_Command) -> hci.HCI_Read_RSSI_ReturnParameters:
        """Stock: not supported."""
        connection = self.find_le_connection_by_handle(command.handle)
        is_known = connection is not None
        status = hci.HCI_ErrorCode.SUCCESS if is_known else hci.HCI_ErrorCode.UNKNOWN_CONNECTION_IDENTIFIER_ERROR
        rssi = -127
        if connection is not None:
            rssi = self.link_dbm(connection.peer_address)
        return hci.HCI_Read_RSSI_ReturnParameters(status=status, handle=command.handle, rssi=rssi)

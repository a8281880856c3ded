"""Cancels that came before their commands: the two travel as separate messages, and either may be first."""

from __future__ import annotations

from collections import OrderedDict

from core.domain import limits
from core.domain.commands import EmergencyStop
from core.domain.ids import CommandId
from core.sync.messages import CancelEnvelope, CommandEnvelope

EARLY_CANCELS = 1_000
"""Kept at most; the oldest is forgotten beyond it. Only a relay that signs makes any."""


class EarlyCancels:
    """Kept for as long as a command may live at all, in memory: what waits while the box restarts is not sent to it
    again (its sessions are clean), so there is nothing to remember from before."""

    def __init__(self) -> None:
        self._kept: OrderedDict[CommandId, tuple[CancelEnvelope, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, cancel: CancelEnvelope, monotonic: float) -> None:
        """A cancel for a command that was not seen yet."""
        self._drop_old(monotonic)
        self._kept.pop(cancel.command_id, None)
        self._kept[cancel.command_id] = (cancel, monotonic + limits.SEEN_COMMANDS.total_seconds())
        while len(self._kept) > EARLY_CANCELS:
            self._kept.popitem(last=False)

    def find(self, envelope: CommandEnvelope, monotonic: float) -> CancelEnvelope | None:
        """The cancel of this command of the relay, if there is one."""
        self._drop_old(monotonic)
        kept = self._kept.get(envelope.command_id)
        return kept[0] if kept is not None and does_cancel(kept[0], envelope) else None

    def _drop_old(self, monotonic: float) -> None:
        while self._kept:
            oldest = next(iter(self._kept))
            if self._kept[oldest][1] > monotonic:
                return
            del self._kept[oldest]


def does_cancel(cancel: CancelEnvelope, envelope: CommandEnvelope) -> bool:
    """Whether the cancel is this command's. Nothing cancels an emergency stop."""
    return (
        not isinstance(envelope.command, EmergencyStop)
        and cancel.command_id == envelope.command_id
        and cancel.account_id == envelope.account_id
        and cancel.edge_id == envelope.edge_id
        and cancel.mower_id == envelope.mower_id
    )

"""From what rules find at each instant to alerts: debounce on both sides, at most one open per cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from core.telemetry.alert import Alert, AlertKind, Evidence, Severity, closed, with_evidence

OPEN_MAX = 32
"""Open alerts of one mower; beyond it none opens until another closes."""
NEWS_S = 60.0
"""Evidence that only goes on (a moving position) is added this often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Debounce:
    """A cause must hold `open_s` without a break before it is an alert, and be gone `close_s` before that closes."""

    open_s: float
    close_s: float


DEBOUNCE: Mapping[AlertKind, Debounce] = {
    AlertKind.STUCK: Debounce(open_s=10, close_s=30),
    AlertKind.ERROR: Debounce(open_s=10, close_s=30),
    AlertKind.OFFLINE: Debounce(open_s=180, close_s=60),
    AlertKind.LEFT_AREA: Debounce(open_s=15, close_s=30),
    AlertKind.THEFT: Debounce(open_s=10, close_s=60),
    AlertKind.SILENT: Debounce(open_s=600, close_s=60),
    AlertKind.BLADES_DUE: Debounce(open_s=60, close_s=60),
    AlertKind.BATTERY_AGEING: Debounce(open_s=60, close_s=3600),
    AlertKind.DISK: Debounce(open_s=60, close_s=600),
    AlertKind.BOX_OFFLINE: Debounce(open_s=300, close_s=30),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A cause that holds now."""

    severity: Severity
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one rule finds at one instant: the causes that hold. None: it cannot tell, which is neither."""

    kind: AlertKind
    causes: Mapping[str, Finding] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Track:
    held_since_s: float | None = None
    since: datetime | None = None
    clear_since_s: float | None = None
    alert: Alert | None = None
    """While open."""
    is_muted: bool = False
    """A person closed it; nothing is told until the cause has been gone."""


class AlertTracks:
    """The causes of one mower. Times of the wall are only written down; what is measured is monotonic."""

    def __init__(self, make_alert_id: Callable[[datetime], str], open_alerts: Iterable[Alert] = ()) -> None:
        """`open_alerts`: those that were open when the process ended."""
        self._make_id = make_alert_id
        self._tracks: dict[tuple[AlertKind, str], _Track] = {}
        for alert in open_alerts:
            if alert.closed_at is None:
                self._tracks[alert.kind, alert.cause] = _Track(alert=alert)

    def open_alerts(self) -> list[Alert]:
        """Those that are open now."""
        return [track.alert for track in self._tracks.values() if track.alert is not None]

    def take(self, reading: Reading, *, now: datetime, monotonic_s: float) -> list[Alert]:
        """New versions of alerts, in order."""
        changed = []
        if reading.causes is None:
            for key, track in list(self._tracks.items()):
                if key[0] is reading.kind:
                    self._put(key, replace(track, held_since_s=None, clear_since_s=None))
            return []
        for cause, finding in reading.causes.items():
            alert = self._hold((reading.kind, cause), finding, now, monotonic_s)
            changed += [] if alert is None else [alert]
        for key, track in list(self._tracks.items()):
            if key[0] is reading.kind and key[1] not in reading.causes:
                alert = self._clear(key, track, now, monotonic_s)
                changed += [] if alert is None else [alert]
        return changed

    def close(self, alert_id: str, now: datetime) -> Alert | None:
        """A person has closed it; None when it is not open. Its cause is told again once it has been gone."""
        for key, track in self._tracks.items():
            if track.alert is not None and track.alert.alert_id == alert_id:
                ended = closed(track.alert, "person", now)
                self._tracks[key] = replace(track, alert=None, is_muted=True, clear_since_s=None)
                return ended
        return None

    def _hold(self, key: tuple[AlertKind, str], finding: Finding, now: datetime, monotonic_s: float) -> Alert | None:
        track = replace(self._tracks.get(key, _Track()), clear_since_s=None)
        if track.held_since_s is None:
            track = replace(track, held_since_s=monotonic_s, since=now)
        self._tracks[key] = track
        if track.is_muted or track.held_since_s is None or track.since is None:
            return None
        if track.alert is not None:
            if not _is_news(track.alert, finding):
                return None
            alert = with_evidence(track.alert, finding.evidence, finding.severity, now)
        else:
            if monotonic_s - track.held_since_s < DEBOUNCE[key[0]].open_s or len(self.open_alerts()) >= OPEN_MAX:
                return None
            alert = Alert(
                alert_id=self._make_id(now),
                kind=key[0],
                cause=key[1],
                severity=finding.severity,
                since=min(track.since, now),
                opened_at=now,
                updated_at=now,
                evidence=(finding.evidence,),
            )
        self._tracks[key] = replace(track, alert=alert)
        return alert

    def _clear(self, key: tuple[AlertKind, str], track: _Track, now: datetime, monotonic_s: float) -> Alert | None:
        since_s = monotonic_s if track.clear_since_s is None else track.clear_since_s
        track = replace(track, held_since_s=None, clear_since_s=since_s)
        if monotonic_s - since_s < DEBOUNCE[key[0]].close_s:
            self._put(key, track)
            return None
        del self._tracks[key]
        return None if track.alert is None else closed(track.alert, "recovery", now)

    def _put(self, key: tuple[AlertKind, str], track: _Track) -> None:
        """Keeps what has something to say."""
        if track.alert is None and not track.is_muted and track.held_since_s is None:
            self._tracks.pop(key, None)
        else:
            self._tracks[key] = track


def _is_news(alert: Alert, finding: Finding) -> bool:
    if not alert.evidence:
        return True
    last, new = alert.evidence[-1], finding.evidence
    if (last.verdict, set(last.signs), last.error_code) != (new.verdict, set(new.signs), new.error_code):
        return True
    goes_on = (last.lat, last.lon) != (new.lat, new.lon)
    return goes_on and (new.at - last.at).total_seconds() >= NEWS_S

"""Signs of theft, and what they say together: lifted, moved, Bluetooth lost, Wi-Fi down and a power cut are different.

A mower that should stand has an anchor: where it stood. It has moved when good positions lie at least MOVED_M away
from it (beyond their accuracy) and it has gone there in steps: one step is a jump of the satellites.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from core.domain.geo import GeoPoint, distance_m
from core.domain.mower import AT_DOCK, MOVING, Activity, Area, Connectivity, ErrorClass, LinkKind, MowerState
from core.telemetry.fence import Fence, place_of

MOVED_M = 5.0
FAR_M = 30.0
"""Carried away where no border is known."""
OUTSIDE_M = 5.0
GOOD_M = 5.0
"""Positions less accurate than this are no evidence."""
STEP_M = 1.0
STEPS_MIN = 3
SPEED_MAX_MPS = 40.0
FLAT_PERCENT = 10
STARTED_S = 180.0
"""A box that has run for less does not know yet who is silent."""
STANDING = AT_DOCK | {Activity.IDLE, Activity.PAUSED, Activity.ERROR}


class Verdict(StrEnum):
    """What the signs say. Only some are an alarm."""

    QUIET = "quiet"
    CARRIED_AWAY = "carried_away"
    LIFTED = "lifted"
    PUSHED = "pushed"
    VANISHED = "vanished"
    WIFI_DOWN = "wifi_down"
    POWER_CUT = "power_cut"
    FLAT = "flat"
    POSITION_JUMP = "position_jump"


MOVED = frozenset({Verdict.CARRIED_AWAY, Verdict.LIFTED, Verdict.PUSHED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the box knows beside the mower's own words."""

    links: Mapping[LinkKind, bool] = field(default_factory=dict)
    """The mower's links that are set up, and whether each is up."""
    is_network_up: bool | None = None
    up_s: float = STARTED_S
    """How long the box has been running."""
    is_ble_released: bool = False
    """A person asked the box to leave its Bluetooth alone, so that this link is down says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What is seen of a mower that should stand."""

    is_lifted: bool = False
    moved_m: float | None = None
    is_outside: bool | None = None
    is_ble_lost: bool = False
    is_wifi_down: bool = False
    is_lan_lost: bool = False
    """Its only links go over a network that is up."""
    has_power_cut: bool = False
    is_flat: bool = False
    has_jumped: bool = False

    def words(self) -> tuple[str, ...]:
        """For the evidence."""
        said = {
            "lifted": self.is_lifted,
            "moved": self.moved_m is not None and self.moved_m >= MOVED_M,
            "outside": self.is_outside is True,
            "ble_lost": self.is_ble_lost,
            "wifi_down": self.is_wifi_down,
            "lan_lost": self.is_lan_lost,
            "power_cut": self.has_power_cut,
            "flat": self.is_flat,
            "position_jump": self.has_jumped,
        }
        return tuple(word for word, holds in said.items() if holds)


def judge(signs: Signs) -> Verdict:
    """The gravest story that the signs tell."""
    moved_m = signs.moved_m or 0.0
    is_silent = (signs.is_ble_lost or signs.is_lan_lost) and not signs.has_power_cut
    is_far = signs.is_outside if signs.is_outside is not None else moved_m >= FAR_M
    if moved_m >= MOVED_M:
        return Verdict.CARRIED_AWAY if is_far else Verdict.PUSHED
    if signs.is_lifted:
        return Verdict.CARRIED_AWAY if is_silent and not signs.is_flat else Verdict.LIFTED
    if signs.has_power_cut and (signs.is_ble_lost or signs.is_lan_lost or signs.is_wifi_down):
        return Verdict.POWER_CUT
    if is_silent:
        return Verdict.FLAT if signs.is_flat else Verdict.VANISHED
    if signs.is_wifi_down:
        return Verdict.WIFI_DOWN
    return Verdict.POSITION_JUMP if signs.has_jumped else Verdict.QUIET


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    anchor: GeoPoint | None = None
    last: GeoPoint | None = None
    last_at_s: float = 0.0
    accuracy_m: float = 0.0
    steps: int = 0
    moved_m: float | None = None
    has_jumped: bool = False
    was_still: bool = False
    """It stood before anything was odd, so that lifting it is odd by itself."""
    links_up: frozenset[LinkKind] = frozenset()
    """Links that were up since it stands."""


class TheftSigns:
    """Follows one mower."""

    def __init__(self) -> None:
        self._standing: _Standing | None = None
        self._is_flat = False
        self._areas: tuple[Area, ...] = ()
        self._fence = Fence(())
        self.is_accounted = False
        """It has docked or worked since this process began, so that quiet means well."""

    def look(
        self, state: MowerState, around: Surroundings, areas: tuple[Area, ...], monotonic_s: float
    ) -> Signs | None:
        """The signs now; None for a mower that does not have to stand, as far as is known."""
        if areas is not self._areas:
            self._areas, self._fence = areas, Fence(areas)
        is_online = state.connectivity is not Connectivity.OFFLINE
        is_lifted = state.error is not None and state.error.error_class is ErrorClass.LIFTED
        if is_online and not is_lifted and state.activity in MOVING:
            self.is_accounted, self._standing = True, None
            return None
        if state.activity in STANDING and self._standing is None:
            self._standing = _Standing()
        standing = self._standing
        if standing is None:
            return None
        if is_online and state.activity in STANDING and not is_lifted:
            standing = replace(standing, was_still=True)
            self.is_accounted = self.is_accounted or state.activity in AT_DOCK
        if is_online and state.battery_percent is not None:
            self._is_flat = state.battery_percent <= FLAT_PERCENT and state.is_charging is not True
        if is_online:
            standing = _moved(standing, state, monotonic_s)
        up = frozenset(kind for kind, is_up in around.links.items() if is_up)
        self._standing = standing = replace(standing, links_up=standing.links_up | up)
        return self._signs(standing, around, is_lifted=is_lifted)

    def _signs(self, standing: _Standing, around: Surroundings, *, is_lifted: bool) -> Signs:
        lost = {kind for kind, is_up in around.links.items() if not is_up and kind in standing.links_up}
        if around.is_ble_released:
            lost.discard(LinkKind.BLE)
        over_network = [kind for kind in around.links if kind is not LinkKind.BLE]
        is_network_lost = bool(over_network) and all(kind in lost for kind in over_network)
        is_wifi_down = around.is_network_up is False or (is_network_lost and around.links.get(LinkKind.BLE) is True)
        outside_m = None if standing.last is None else self._fence.outside_m(standing.last)
        return Signs(
            is_lifted=is_lifted and (standing.was_still or standing.steps >= STEPS_MIN),
            moved_m=standing.moved_m if standing.steps >= STEPS_MIN else None,
            is_outside=None if outside_m is None else outside_m - standing.accuracy_m > OUTSIDE_M,
            is_ble_lost=LinkKind.BLE in lost,
            is_wifi_down=is_wifi_down,
            is_lan_lost=is_network_lost and LinkKind.BLE not in around.links and around.is_network_up is True,
            has_power_cut=around.up_s < STARTED_S,
            is_flat=self._is_flat,
            has_jumped=standing.has_jumped and standing.steps < STEPS_MIN,
        )


def _moved(standing: _Standing, state: MowerState, monotonic_s: float) -> _Standing:
    """With this state's position, if it is good enough to be evidence."""
    place = place_of(state)
    if place is None or place[1] > GOOD_M:
        return standing
    here, accuracy_m = place
    if standing.anchor is None or standing.last is None:
        return replace(standing, anchor=here, last=here, last_at_s=monotonic_s, accuracy_m=accuracy_m)
    step_m = distance_m(standing.last, here)
    is_step = step_m >= max(STEP_M, accuracy_m + standing.accuracy_m)
    away_m = max(0.0, distance_m(standing.anchor, here) - accuracy_m)
    if not is_step:
        return replace(standing, moved_m=away_m, accuracy_m=accuracy_m)
    is_jump = step_m > SPEED_MAX_MPS * max(0.1, monotonic_s - standing.last_at_s)
    is_back = away_m < MOVED_M
    return replace(
        standing,
        last=here,
        last_at_s=monotonic_s,
        accuracy_m=accuracy_m,
        moved_m=away_m,
        steps=0 if is_back and standing.has_jumped else standing.steps + (0 if is_jump else 1),
        has_jumped=not is_back and (standing.has_jumped or is_jump or standing.steps == 0),
    )

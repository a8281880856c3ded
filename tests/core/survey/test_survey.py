"""From what a box hears to a map: samples, the record, numbers, advice, GeoJSON and the picture."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from core.domain.errors import ConflictError, InvalidInputError
from core.survey.listening import SILENCE_S, Listener
from core.survey.picture import HEIGHT, WIDTH, colour_of, draw, round_length_m
from core.survey.record import Record, read_record
from core.survey.sample import TOO_WEAK_DBM, WEAK_DBM, Head, Place, Sample, band_of
from core.survey.summary import best_of, geojson, locate, shares_of, summarise

START = datetime(2026, 6, 1, 8, tzinfo=UTC)
ADDRESS = "C0:00:00:00:00:01"
HEAD = Head(version=1, mower="305", address=ADDRESS, carried="mower", started_at=START)
LAT, LON = 48.137, 11.575


def view(*paths: tuple[str, int, int], is_connected: bool = False, is_scanning: bool = True) -> dict[str, Any]:
    """(source, rssi, packets) ..."""
    heard = [{"source": s, "rssi_dbm": r, "packets": p, "seen_s_ago": 0.5} for s, r, p in paths]
    near = {"address": ADDRESS, "is_connected": is_connected, "paths": heard}
    return {"adapters": [{"is_scanning": is_scanning}], "nearby": [near] if paths else []}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def sample(seconds: float, rssi: int | None, *, adapter: str | None = "hci0", **place: Any) -> Sample:
    where = Place(via="nmea", **place) if place else None
    return Sample(at=at(seconds), rssi_dbm=rssi, adapter=adapter if rssi is not None else None, place=where)


def there(seconds: float, rssi: int | None, east_m: float, north_m: float) -> Sample:
    lat, lon = LAT + north_m / 111_200, LON + east_m / (111_320 * math.cos(math.radians(LAT)))
    return sample(seconds, rssi, lat=lat, lon=lon)


class Looks:
    """A listener that is asked once a second."""

    def __init__(self) -> None:
        self.listener = Listener(address=ADDRESS)
        self.second = 0

    def take(self, answer: dict[str, Any]) -> list[int | None]:
        self.second += 1
        found = self.listener.take(answer, at=at(self.second), now=100.0 + self.second, place=None)
        return [one.rssi_dbm for one in found]


def test_each_advertisement_counts_once_for_each_adapter():
    looks = Looks()
    assert looks.take(view(("hci0", -60, 7))) == []  # heard before the survey
    assert looks.take(view(("hci0", -60, 7))) == []
    assert looks.take(view(("hci0", -61, 8), ("proxy", -80, 1))) == [-61, -80]
    assert looks.take(view(("hci0", -61, 8), ("proxy", -81, 3))) == [-81]
    assert looks.take(view(("new", 127, 0))) == []  # heard, but how strongly was not said
    assert looks.take(view(("hci0", -50, 2))) == [-50]  # the box has started again


def test_silence_is_a_finding_when_somebody_listens():
    looks = Looks()
    looks.take(view(("hci0", -60, 1)))
    quiet = [looks.take(view()) for _ in range(int(SILENCE_S) + 6)]
    assert [one for one in quiet if one] == [[None], [None]]
    assert looks.take(view(("hci0", -60, 2))) == [-60]
    assert looks.take(view()) == []


@pytest.mark.parametrize("answer", [view(("hci0", -60, 1), is_connected=True), view(is_scanning=False)])
def test_no_silence_is_made_up(answer: dict[str, Any]):
    """A connected mower may not advertise, and an adapter that does not scan hears nobody."""
    looks = Looks()
    looks.take(view(("hci0", -60, 1)))
    assert [looks.take(answer) for _ in range(30)] == [[]] * 30


@given(st.integers(-120, 0))
def test_bands(rssi: int):
    assert band_of(rssi) == ("too weak" if rssi < TOO_WEAK_DBM else "weak" if rssi < WEAK_DBM else "good")
    assert band_of(None) == "silent"


# -- the record


def test_a_record_survives_a_crash_at_any_byte(tmp_path: Path):
    path, samples = tmp_path / "s.jsonl", [sample(n, -60 - n) for n in range(4)]
    with Record.begin(path, HEAD) as record:
        record.append(samples[:2])
        record.append(samples[2:])
    data = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    head_bytes = data.index(b"\n") + 1
    for cut in range(head_bytes, len(data) + 1):
        path.write_bytes(data[:cut])
        whole = data[head_bytes:cut].count(b"\n")
        with Record.resume(path) as record:
            assert record.samples == samples[:whole]
            record.append([sample(9, -99)])
        assert read_record(path)[1] == [*samples[:whole], sample(9, -99)]


def test_a_survey_is_never_written_over(tmp_path: Path):
    path = tmp_path / "s.jsonl"
    Record.begin(path, HEAD).__exit__(None, None, None)
    with pytest.raises(ConflictError, match="is there already"):
        Record.begin(path, HEAD)
    for text in ("", "{}\n", "hello\n", '{"type":"sample","at":"2026-06-01T08:00:00Z","rssi_dbm":-3}\n'):
        path.write_text(text)
        with pytest.raises(InvalidInputError):
            Record.resume(path)
    with pytest.raises(InvalidInputError, match="no record"):
        Record.resume(tmp_path / "none")


# -- numbers and words

SAMPLES = st.lists(
    st.builds(sample, st.floats(0, 3600), st.none() | st.integers(-110, -30), adapter=st.sampled_from(["a", "b"])),
    max_size=40,
)


@given(SAMPLES)
def test_the_best_adapter_of_each_moment_counts(samples: list[Sample]):
    best = best_of(samples)
    looks = {int((one.at - START).total_seconds() // 2) for one in samples}
    assert len(best) == len(looks)
    assert best == sorted(best, key=lambda one: one.at)
    shares = shares_of(best)
    assert shares.samples == len(best)
    if best:
        weak = sum(one.rssi_dbm is None or one.rssi_dbm < WEAK_DBM for one in best)
        assert shares.below_weak_percent == round(100 * weak / len(best), 1)
        assert (shares.median_dbm is None) == all(one.rssi_dbm is None for one in best)


@given(SAMPLES)
def test_geojson_holds_every_sample_and_invents_no_place(samples: list[Sample]):
    summary = summarise(HEAD, samples)
    assert summary.without_place == len(samples)
    found = json.loads(msgspec.json.encode(geojson(HEAD, samples, summary)))
    assert (found["type"], len(found["features"])) == ("FeatureCollection", len(samples))
    for feature, one in zip(found["features"], samples, strict=True):
        assert set(feature) == {"type", "geometry", "properties"}
        assert feature["geometry"] is None
        assert feature["properties"]["rssi_dbm"] == one.rssi_dbm
        assert datetime.fromisoformat(feature["properties"]["at"]) == one.at
        assert "adapter" in feature["properties"]


def test_geojson_has_longitude_first_and_local_metres_as_properties():
    samples = [sample(1, -60, lat=LAT, lon=LON), sample(3, -70, x_m=2.0, y_m=3.0, spot="gate")]
    first, second = geojson(HEAD, samples, summarise(HEAD, samples))["features"]
    assert first["geometry"] == {"type": "Point", "coordinates": [LON, LAT]}
    assert second["geometry"] is None
    assert {k: second["properties"][k] for k in ("x_m", "y_m", "spot")} == {"x_m": 2.0, "y_m": 3.0, "spot": "gate"}


def test_the_plane_is_metric():
    located = locate([there(0, -60, 0, 0), there(2, -60, 30, -40), sample(4, -60)])
    assert len(located) == 2
    assert math.isclose(located[1].point.east_m, 30, rel_tol=0.01)
    assert math.isclose(located[1].point.north_m, -40, rel_tol=0.01)


def test_advice_names_the_weak_corner():
    near = [there(2 * n, -60, n % 5, 0) for n in range(30)]
    far = [there(100 + 2 * n, -86, 41, 30) for n in range(10)]
    summary = summarise(HEAD, [*near, *far])
    assert summary.best.below_weak_percent == 25.0
    words = " ".join(summary.advice)
    assert "25 % of 40 measurements are below -80 dBm" in words
    assert "proxy" in words
    assert "+41 m east, +30 m north" in words
    assert "10 of the 10 weak" in words
    assert "reaches the mower well" in " ".join(summarise(HEAD, near).advice)


def test_advice_for_a_carried_box_names_where_it_hears_best():
    head = msgspec.structs.replace(HEAD, carried="box")
    samples = [there(2 * n, -85, 0, 0) for n in range(5)] + [there(20 + 2 * n, -62, 21, 9) for n in range(5)]
    words = " ".join(summarise(head, samples).advice)
    assert "+21 m east, +9 m north" in words
    assert "-62 dBm in the median" in words
    assert "more slowly" in " ".join(summarise(head, samples[:2]).advice)


def test_advice_without_coordinates_names_the_spot_and_without_places_says_so():
    head = msgspec.structs.replace(HEAD, carried="box")
    spots = [sample(2 * n, -60 - 20 * (n % 2), spot="gate" if n % 2 else "terrace") for n in range(10)]
    assert "at 'terrace'" in " ".join(summarise(head, spots).advice)
    assert "nobody can say where" in " ".join(summarise(head, [sample(n, -60) for n in range(5)]).advice)
    assert "was not heard" in summarise(head, [sample(1, None)]).advice[0]


def test_a_state_that_says_nothing_of_bluetooth_is_not_silence():
    state = Sample(at=START, rssi_dbm=None, adapter="state", wifi_dbm=-70)
    summary = summarise(HEAD, [state])
    assert (summary.best.samples, summary.best.silent, summary.adapters) == (0, 0, {})


# -- the picture


def test_the_picture_shows_the_path_in_its_colours():
    samples = [there(2 * n, -55 - n, n, (n % 7) / 2) for n in range(45)] + [there(92, None, 46, 1)]
    data = draw(HEAD, samples, summarise(HEAD, samples))
    assert data is not None
    image = Image.open(io.BytesIO(data))
    assert (image.format, image.size) == ("PNG", (WIDTH, HEIGHT))
    colours = {colour for _, colour in image.getcolors(100_000) or []}
    assert {colour_of(-55), colour_of(-80), colour_of(-95), colour_of(None)} <= colours


def test_without_places_there_is_no_picture_and_one_place_is_enough():
    lonely = [sample(1, -60)]
    assert draw(HEAD, lonely, summarise(HEAD, lonely)) is None
    one = [sample(1, -60, x_m=1.0, y_m=1.0)]
    assert draw(HEAD, one, summarise(HEAD, one)) is not None


@given(st.floats(1, 10_000))
def test_a_scale_bar_has_a_round_length(span_m: float):
    length = round_length_m(span_m)
    assert span_m / 11 < length <= span_m / 4 * 1.0001
    assert f"{length:e}"[0] in "125"

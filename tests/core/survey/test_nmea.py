"""NMEA: what was measured comes out to the last digit, whatever else is on the line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.survey.nmea import LINE_BYTES, Fix, NmeaReader, checksum_of

GGA = b"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n"
RMC = b"$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\r\n"
"""The examples that every description of NMEA 0183 shows."""


def sentence(body: str) -> bytes:
    return f"${body}*{checksum_of(body.encode()):02X}\r\n".encode()


def gga(lat: float, lon: float, quality: str = "1", satellites: str = "08") -> bytes:
    def angle(value: float, digits: int) -> str:
        whole, minutes = divmod(round(abs(value) * 60e6), 60_000_000)
        return f"{whole:0{digits}d}{minutes / 1e6:09.6f}"

    sides = "N" if lat >= 0 else "S", "E" if lon >= 0 else "W"
    return sentence(f"GNGGA,1,{angle(lat, 2)},{sides[0]},{angle(lon, 3)},{sides[1]},{quality},{satellites},1,0,M,,M,,")


@pytest.mark.parametrize(("line", "satellites"), [(GGA, 8), (RMC, None)])
def test_known_sentences(line: bytes, satellites: int | None):
    (fix,) = NmeaReader().feed(line)
    assert (round(fix.lat, 6), round(fix.lon, 6), fix.satellites) == (48.1173, 11.516667, satellites)


@given(st.floats(-90, 90), st.floats(-180, 180))
def test_every_place_on_earth(lat: float, lon: float):
    (fix,) = NmeaReader().feed(gga(lat, lon))
    assert abs(fix.lat - lat) < 2e-8
    assert abs(fix.lon - lon) < 2e-8


@given(st.lists(st.sampled_from([GGA, RMC, b"noise\r\n", b"$GPGSV,1,1,00*79\r\n"]), max_size=8), st.data())
def test_it_does_not_matter_how_the_bytes_are_cut(lines: list[bytes], data: st.DataObject):
    stream = b"".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader, found = NmeaReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == NmeaReader().feed(stream)
    assert len(found) == sum(line in (GGA, RMC) for line in lines)


@given(st.integers(1, len(GGA) - 3), st.integers(1, 255))
def test_a_changed_byte_is_no_fix(at: int, change: int):
    wrong = GGA[:at] + bytes([GGA[at] ^ change]) + GGA[at + 1 :]
    found = NmeaReader().feed(wrong)
    assert found == [] or wrong.upper() == GGA, "a checksum may be written in small letters, and nothing else"


@given(st.binary(max_size=2000))
def test_noise_raises_nothing_and_is_not_kept(noise: bytes):
    reader = NmeaReader()
    reader.feed(noise)
    assert len(reader._rest) <= LINE_BYTES


@pytest.mark.parametrize("quality", ["0", "6", "7", "8", ""])
def test_what_was_not_measured_is_no_fix(quality: str):
    assert NmeaReader().feed(gga(48.0, 11.0, quality)) == []


@pytest.mark.parametrize("mode", ["N", "E", "M", "S"])
def test_a_receiver_that_reckons_on_gives_no_fix(mode: str):
    body = f"GPRMC,1,A,4807.038,N,01131.000,E,0,0,230394,,,{mode}"
    assert NmeaReader().feed(sentence(body)) == []
    assert len(NmeaReader().feed(sentence(body[:-1] + "A"))) == 1
    assert NmeaReader().feed(sentence(body[:-1].replace(",A,", ",V,") + "A")) == []


@pytest.mark.parametrize("angle", ["4860.000", "9100.000", "48", "", "-807.038", "48O7.038"])
def test_an_impossible_angle_is_counted(angle: str):
    reader = NmeaReader()
    assert reader.feed(sentence(f"GPGGA,1,{angle},N,01131.000,E,1,08,1,0,M,,M,,")) == []
    assert reader.refused == 1
    assert reader.feed(GGA) == [Fix(lat=48.1173, lon=11.516666666666667, satellites=8)]

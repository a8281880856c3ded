"""What mowers say of themselves on the air, and what anything else near may say."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.husqvarna_ble.advertised import MOWER_GROUP, Advertised, read_advertised, write_advertised
from integrations.husqvarna_ble.wire import Model

U8 = st.integers(0, 255)
SAID = st.builds(
    Advertised,
    serial=st.none() | st.integers(0, 0xFFFFFFFF),
    is_pairable=st.none() | st.booleans(),
    group=st.just(MOWER_GROUP) | U8,
    model=st.none() | st.builds(Model, device_type=U8, variant=U8),
)


@settings(max_examples=300)
@given(st.binary(max_size=254))
def test_any_bytes_are_read(data: bytes):
    said = read_advertised(data)
    assert said.serial is None or 0 <= said.serial <= 0xFFFFFFFF
    assert said.group is None or 0 <= said.group <= 255
    assert said.name is None or isinstance(said.name, str)


@settings(max_examples=200)
@given(SAID)
def test_what_is_written_is_read(said: Advertised):
    assert read_advertised(write_advertised(said)) == said


@settings(max_examples=200)
@given(SAID, st.integers(0, 40), st.binary(max_size=10))
def test_what_is_cut_off_or_followed_by_noise_says_less_and_never_something_else(
    said: Advertised, at: int, noise: bytes
):
    data = write_advertised(said)
    cut = read_advertised(data[:at])
    for name in ("serial", "is_pairable"):
        assert getattr(cut, name) in (None, getattr(said, name))
    followed = read_advertised(data + noise)
    for name in ("serial", "is_pairable", "group"):
        if getattr(said, name) is not None:
            assert getattr(followed, name) == getattr(said, name), "the first of two counts"

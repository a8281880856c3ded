"""When two names are the same, and what cannot be a name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.errors import InvalidInputError
from core.identity.names import EMAIL_MAX, NAME_MAX, fold, parse_email, parse_name, parse_username


@settings(max_examples=200)
@given(st.text(min_size=1, max_size=70))
def test_what_is_kept_signs_in_as_it_was_typed_and_as_it_is_shown(text: str) -> None:
    try:
        shown = parse_username(text)
    except InvalidInputError:
        return
    assert fold(text) == fold(shown) != ""
    assert parse_username(shown) == shown
    assert shown.isprintable()


@settings(max_examples=200)
@given(st.text(max_size=400))
def test_folding_takes_anything_and_nothing_invisible_folds_to_a_name(text: str) -> None:
    folded = fold(text)
    assert len(text) <= EMAIL_MAX or folded == ""
    folded.encode()


@pytest.mark.parametrize(("one", "other"), [("Ann", "aNN"), ("straße", "STRASSE"), ("ﬁnn", "FINN"), ("Ⅳan", "ivan")])
def test_names_that_look_the_same_are_the_same(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize("text", ["", "a", "a@", "@b", "a b@c.d", "a@b@c", "a@b..c", "a@b\x00c", "a" * 250 + "@b.cd"])
def test_addresses_that_cannot_be(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_email(text)


def test_names_of_accounts_keep_blanks_and_nothing_hidden() -> None:
    assert parse_name("  Green & Sons Ltd.  ", "account_name") == "Green & Sons Ltd."
    for text in ("", "   ", "a" * (NAME_MAX + 1), "a\u202eb", "a\tb", "x" * 1_000_000, " " * 1_000_000 + "a"):
        with pytest.raises(InvalidInputError) as caught:
            parse_name(text, "account_name")
        assert caught.value.mistakes[0].field == "account_name"

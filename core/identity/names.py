"""Names of people and accounts: what may be one, and when two are the same."""

from __future__ import annotations

import re
import unicodedata

from core.domain.errors import InvalidInputError

USERNAME_MIN = 3
USERNAME_MAX = 64
NAME_MAX = 80
EMAIL_MAX = 254

_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")


def fold(name: str) -> str:
    """The form in which login names are compared: compatible characters are one (NFKC), and case does not count.
    What no login name can be folds to the empty text, which nobody is called."""
    if len(name) > EMAIL_MAX or not all(map(_is_visible, name.strip())):
        return ""
    return _nfkc(_nfkc(name.strip()).casefold())


def parse_username(text: str) -> str:
    """A username as it is shown. InvalidInputError if it has blanks or invisible characters or a wrong length."""
    name = _nfkc(text.strip()) if len(text) <= EMAIL_MAX else ""
    if not USERNAME_MIN <= len(name) <= USERNAME_MAX or len(fold(name)) > USERNAME_MAX:
        raise InvalidInputError.of("username", f"must have {USERNAME_MIN} to {USERNAME_MAX} characters")
    if not all(map(_is_visible, name)) or " " in name:
        raise InvalidInputError.of("username", "must not hold blanks or invisible characters")
    return name


def parse_email(text: str) -> str:
    """An address as it is shown. InvalidInputError if it cannot be one."""
    email = text.strip()
    if len(email) > EMAIL_MAX or _EMAIL.fullmatch(email) is None or not all(map(_is_visible, email)):
        raise InvalidInputError.of("email", "is not an e-mail address")
    return email


def parse_name(text: str, field: str) -> str:
    """The name of an account or a token: 1 to 80 visible characters, blanks between them are fine."""
    name = unicodedata.normalize("NFC", text[: 4 * NAME_MAX].strip())
    if not 1 <= len(name) <= NAME_MAX or len(text) > 4 * NAME_MAX:
        raise InvalidInputError.of(field, f"must have 1 to {NAME_MAX} characters")
    if not all(map(_is_visible, name)):
        raise InvalidInputError.of(field, "must not hold invisible characters")
    return name


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _is_visible(character: str) -> bool:
    """No control, format, surrogate, private or unassigned characters, and no separator but the blank."""
    category = unicodedata.category(character)
    return character == " " or category[0] not in "CZ"

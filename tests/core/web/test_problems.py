"""Every error has a status, and every code a line in the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import core.domain.errors as tree
from core.domain.errors import (
    InvalidInputError,
    Mistake,
    MowdeckError,
    NotReadyError,
    RateLimitedError,
    TooManyBinsError,
)
from core.web.problems import HTTP_CODES, STATUSES, HttpError, problem_of, problem_response, status_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "problems.md"


def classes(root: type[MowdeckError] = MowdeckError) -> Iterator[type[MowdeckError]]:
    yield root
    for kind in root.__subclasses__():
        if kind.__module__ == tree.__name__:
            yield from classes(kind)


@pytest.mark.parametrize("kind", sorted(classes(), key=lambda k: k.__name__))
def test_every_error_class_has_a_status_of_its_own(kind: type[MowdeckError]) -> None:
    status, title = STATUSES[kind]
    assert 400 <= status < 600
    assert title


def test_codes_are_not_used_twice() -> None:
    codes = [kind.code for kind in classes()] + [code for code, _, _ in HTTP_CODES.values() if code != "not-found"]
    assert len(codes) == len(set(codes))


def test_the_document_lists_every_code_with_its_status_and_no_other() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+) \| (yes|no) \| \S", DOCUMENT.read_text(), re.MULTILINE)
    expected = {(kind.code, str(STATUSES[kind][0]), "yes" if kind.retryable else "no") for kind in classes()}
    expected |= {(code, str(status), "no") for status, (code, _, _) in HTTP_CODES.items() if status != 404}
    assert set(rows) == expected
    assert len(rows) == len(expected)


def test_a_class_that_is_not_listed_answers_like_its_ancestor() -> None:
    class NewError(tree.ConflictError):
        code = "new"

    assert status_of(NewError) == STATUSES[tree.ConflictError]


def test_extra_members_stand_only_where_they_belong() -> None:
    def body(err: Exception) -> dict[str, object]:
        return dict(msgspec.json.decode(msgspec.json.encode(problem_of(err, "c"))))

    plain = body(tree.ConflictError("x"))
    assert not {"mistakes", "fitting_step", "retry_after_s"} & plain.keys()
    assert body(TooManyBinsError("x", fitting_step="1m"))["fitting_step"] == "1m"
    assert body(RateLimitedError(retry_after_s=3))["retry_after_s"] == 3.0
    wrong = InvalidInputError(mistakes=(Mistake(field="a.b", reason="no"),))
    assert body(wrong)["mistakes"] == [{"field": "a.b", "reason": "no"}]


def test_an_unexpected_error_says_nothing_of_itself() -> None:
    text = msgspec.json.encode(problem_of(KeyError("secret"), "c")).decode()
    assert '"internal"' in text
    assert "secret" not in text


def test_headers_follow_the_problem() -> None:
    assert problem_response(problem_of(RateLimitedError(retry_after_s=0.1), "c")).headers["Retry-After"] == "1"
    assert "Retry-After" not in problem_response(problem_of(NotReadyError("x"), "c")).headers
    assert problem_response(problem_of(tree.UnauthenticatedError("x"), "c")).headers["WWW-Authenticate"] == "Bearer"


def test_mistakes_about_http_have_codes_of_their_own() -> None:
    problem = problem_of(HttpError(415, "no"), "c")
    assert (problem.status, problem.code, problem.retryable) == (415, "unsupported-media-type", False)

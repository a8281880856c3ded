"""No secret reaches a log."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest
import structlog

from core.settings.log import HIDDEN, configure_logging, redact


@pytest.fixture
def lines(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    configure_logging("info", "json")
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def test_both_loggers_redact(lines):
    structlog.get_logger("a").info("hello", password="x", nested={"refresh_token": "y", "name": "z"})
    logging.getLogger("b").warning("Authorization: Bearer abc.def got eyJabcdefghijk.abcdefghijk.abcdefghijk")
    first, second = lines()
    assert first["password"] == HIDDEN
    assert first["nested"] == {"refresh_token": HIDDEN, "name": "z"}
    assert "abc" not in second["event"]
    assert second["logger"] == "b"


def test_redact_keeps_the_harmless():
    assert redact({"pinned": 1, "spin": "x", "token_expires_at": "", "list": [{"pin": 1}]}) == {
        "pinned": 1,
        "spin": "x",
        "token_expires_at": "",
        "list": [{"pin": HIDDEN}],
    }


def test_a_secret_inside_a_sentence_is_hidden():
    text = redact("login failed: password=hunter2, user=anna; {'pin': '1234'} token: abc")
    assert "hunter2" not in text
    assert "1234" not in text
    assert "abc" not in text
    assert "anna" in text
    assert redact("the pin is spinning; tokens: none") == "the pin is spinning; tokens: none"


@pytest.mark.parametrize(
    "text", ["mdk_", "mdr_", "mdp_", "https://anna:", "Bearer "], ids=["service", "refresh", "reset", "url", "bearer"]
)
def test_our_own_secrets_and_those_of_urls_are_hidden_by_their_shape(text):
    tail = "@relay.example/x" if "://" in text else ""
    assert "aaaaaaaaaaaaaaaaaaaaaaaa" not in redact(f"see {text}{'a' * 24}{tail} there")


def test_requests_that_are_no_http_are_not_logged_and_real_errors_are(lines):
    from aiohttp.http_exceptions import BadHttpMessage

    server = logging.getLogger("aiohttp.server")
    for error in (BadHttpMessage("bad"), ValueError("a defect")):
        try:
            raise error
        except (BadHttpMessage, ValueError):
            server.exception("Error handling request")
    assert ["a defect" in line["exception"] for line in lines()] == [True]

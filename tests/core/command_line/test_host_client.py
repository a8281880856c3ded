"""Speaking to a host: tokens, and every failure as a MowdeckError."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from core.command_line.host_client import HostClient, error_of, may_have_arrived
from core.command_line.settings import ClientSettings
from core.command_line.sign_ins import SignIns
from core.domain import errors
from core.domain.errors import InvalidInputError, Mistake, MowdeckError, UnauthenticatedError, UnavailableError
from core.web.problems import problem_of, status_of
from tests.core.command_line.fake_host import FakeHost, problem
from tests.fakes.mosquitto import free_port

# -- tokens


def test_a_token_that_holds_is_used(host: FakeHost, tmp_path: Path):
    host.sign_in(tmp_path)
    with host.client(tmp_path) as client:
        assert client.get("/fleet/mowers")["items"]
    assert [name for name, _ in host.requests] == ["GET /fleet/mowers"]


def test_a_token_about_to_end_is_renewed_first_and_kept(host: FakeHost, tmp_path: Path):
    host.lifetime = timedelta(seconds=20)
    host.sign_in(tmp_path)
    host.lifetime = timedelta(minutes=10)
    with host.client(tmp_path) as client:
        client.get("/fleet/mowers")
        client.get("/fleet/mowers")
    assert [name.split()[0] for name, _ in host.requests] == ["POST", "GET", "GET"]
    kept = SignIns(tmp_path).get(host.url)
    assert kept is not None
    assert (kept.access_token, kept.refresh_token, kept.username) == ("access-2", "refresh-2", "anna")
    assert SignIns(tmp_path).last_host == host.url


def test_a_refused_token_is_renewed_once(host: FakeHost, tmp_path: Path):
    host.sign_in(tmp_path)
    host.valid = set()
    with host.client(tmp_path) as client:
        assert client.get("/fleet/mowers")["items"]
        host.answers["GET /never"] = (401, problem("unauthenticated", "not with any token"))
        before = len(host.requests)
        with pytest.raises(UnauthenticatedError, match="not with any token"):
            client.get("/never")
        assert [name for name, _ in host.requests[before:]] == [
            "GET /never",
            "POST /identity/session/refresh",
            "GET /never",
        ]


def test_an_ended_session_is_forgotten(host: FakeHost, tmp_path: Path):
    host.sign_in(tmp_path)
    host.valid, host.is_ended = set(), True
    with host.client(tmp_path) as client:
        with pytest.raises(UnauthenticatedError) as caught:
            client.get("/fleet/mowers")
        assert f"mowdeck sign-in {host.url}" in caught.value.advice
        assert SignIns(tmp_path).get(host.url) is None
        with pytest.raises(UnauthenticatedError, match="not signed in"):
            client.get("/fleet/mowers")


def test_many_commands_at_once_renew_only_once(host: FakeHost, tmp_path: Path):
    """A refresh token that is used twice looks stolen."""
    host.lifetime = timedelta(seconds=1)
    host.sign_in(tmp_path)
    host.lifetime = timedelta(minutes=10)
    failures: list[BaseException] = []

    def use() -> None:
        try:
            with host.client(tmp_path) as client:
                client.get("/fleet/mowers")
        except BaseException as err:  # noqa: BLE001  (for the assertion in the test's own thread)
            failures.append(err)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert failures == []
    assert len(host.asked("POST /identity/session/refresh")) == 1


def test_a_service_token_is_never_renewed(host: FakeHost, tmp_path: Path):
    host.valid = {"service"}
    with host.client(tmp_path, token="service") as client:
        client.get("/fleet/mowers")
        host.valid = set()
        with pytest.raises(UnauthenticatedError):
            client.get("/fleet/mowers")
    assert host.asked("POST /identity/session/refresh") == []
    assert list(tmp_path.iterdir()) == []


def test_signing_out_forgets_even_when_the_host_is_away(tmp_path: Path):
    url = f"http://127.0.0.1:{free_port()}"
    FakeHost(url).sign_in(tmp_path)
    with FakeHost(url).client(tmp_path) as client, pytest.raises(UnavailableError):
        client.forget()
    assert SignIns(tmp_path).get(url) is None


# -- which host


def settings(home: Path, host: str | None = None) -> ClientSettings:
    return ClientSettings(host=host, config_dir=home, token=None, password=None)


def test_the_option_goes_before_the_setting_and_that_before_the_last_sign_in(tmp_path: Path):
    with pytest.raises(UnauthenticatedError, match="no host is known"):
        HostClient(settings(tmp_path), None)
    FakeHost("http://last:1").sign_in(tmp_path)
    assert HostClient(settings(tmp_path), None).host == "http://last:1"
    assert HostClient(settings(tmp_path, "http://set:2"), None).host == "http://set:2"
    assert HostClient(settings(tmp_path, "http://set:2"), "http://option:3/").host == "http://option:3"


@pytest.mark.parametrize("address", ["127.0.0.1:8481", "ftp://box", "http://", "http://box:port", "box of mine"])
def test_an_address_that_is_none(tmp_path: Path, address: str):
    with pytest.raises(InvalidInputError) as caught:
        HostClient(settings(tmp_path), address)
    (mistake,) = caught.value.mistakes
    assert mistake.field == "host"
    assert "http://127.0.0.1:8481" in mistake.reason


# -- failures


def test_a_host_that_is_away(tmp_path: Path):
    url = f"http://127.0.0.1:{free_port()}"
    FakeHost(url).sign_in(tmp_path)
    with FakeHost(url).client(tmp_path) as client, pytest.raises(UnavailableError) as caught:
        client.get("/fleet/mowers")
    assert url in caught.value.detail
    assert not may_have_arrived(caught.value)


def test_an_answer_that_never_comes_may_have_been_a_command_that_arrived(host: FakeHost, tmp_path: Path):
    host.sign_in(tmp_path)
    host.answers["POST /x"] = (0, None)
    with host.client(tmp_path) as client, pytest.raises(UnavailableError) as caught:
        client.post("/x", {})
    assert may_have_arrived(caught.value)
    assert not may_have_arrived(UnavailableError("said the host itself"))


def test_somebody_elses_page_is_not_an_answer(host: FakeHost, tmp_path: Path):
    host.sign_in(tmp_path)
    host.answers["GET /fleet/mowers"] = (200, "<h1>Router</h1>")
    with host.client(tmp_path) as client:
        with pytest.raises(UnavailableError, match="not as Mowdeck does"):
            client.get("/fleet/mowers")
        with pytest.raises(UnavailableError, match="not as Mowdeck does"):
            client.keep({"token": "x"}, "anna", is_last=True)


def test_an_empty_answer_is_none(host: FakeHost, tmp_path: Path):
    host.sign_in(tmp_path)
    host.answers["DELETE /x"] = (204, None)
    with host.client(tmp_path) as client:
        assert client.request("DELETE", "/x") is None


def _tree(root: type[MowdeckError]) -> list[type[MowdeckError]]:
    return [root, *(one for child in root.__subclasses__() for one in _tree(child))]


def _make(kind: type[MowdeckError]) -> MowdeckError:
    if issubclass(kind, errors.RateLimitedError):
        return kind("why", retry_after_s=7.0)
    if issubclass(kind, errors.TooManyBinsError):
        return kind("why", fitting_step="1h")
    if issubclass(kind, errors.NotReadyError):
        return kind("why", retry_after_s=None)
    return kind("why", hint="do that")


DOMAIN_ERRORS = [kind for kind in _tree(MowdeckError) if kind.__module__ == "core.domain.errors"]


@pytest.mark.parametrize("kind", DOMAIN_ERRORS)
def test_every_error_of_a_host_arrives_as_its_own_class(kind: type[MowdeckError]):
    sent = _make(kind)
    body = msgspec.json.encode(problem_of(sent, "correlation"))
    found = error_of(httpx.Response(status_of(kind)[0], content=body))
    assert type(found) is kind
    assert (found.detail, found.advice, found.code) == (sent.detail, sent.advice, sent.code)
    if isinstance(found, errors.RateLimitedError):
        assert found.retry_after_s == 7.0
    if isinstance(found, errors.TooManyBinsError):
        assert found.fitting_step == "1h"


def test_mistakes_arrive_one_by_one():
    body = problem("invalid-input", "", mistakes=[{"field": "a.b", "reason": "wrong"}, "junk", {"field": "c"}])
    found = error_of(httpx.Response(422, json=body))
    assert isinstance(found, InvalidInputError)
    assert found.mistakes == (Mistake(field="a.b", reason="wrong"), Mistake(field="c", reason="None"))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, UnauthenticatedError),
        (403, errors.ForbiddenError),
        (404, errors.NotFoundError),
        (409, errors.ConflictError),
        (422, InvalidInputError),
        (429, errors.RateLimitedError),
        (500, MowdeckError),
        (502, UnavailableError),
        (503, UnavailableError),
        (302, MowdeckError),
    ],
)
@pytest.mark.parametrize("content", [b"<html>", b"", b"[]", b'{"code": 7, "mistakes": 7, "retry_after_s": "soon"}'])
def test_a_proxy_in_between_is_understood_by_its_status(status: int, kind: type[Any], content: bytes):
    found = error_of(httpx.Response(status, content=content))
    assert type(found) is kind
    assert str(status) in found.detail

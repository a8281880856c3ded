"""A host (box or relay) as the command line speaks to it: one API, tokens renewed by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

import httpx
import voluptuous as vol

from core.command_line.settings import ClientSettings
from core.command_line.sign_ins import SignIn, SignIns
from core.domain import errors
from core.domain.errors import InvalidInputError, Mistake, MowdeckError, UnauthenticatedError, UnavailableError
from core.settings import validators as v

DEADLINE_S = 20.0
RENEW_BEFORE = timedelta(seconds=30)


_BY_CODE: dict[str, type[MowdeckError]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MowdeckError)
}
_BY_STATUS: dict[int, type[MowdeckError]] = {
    400: InvalidInputError,
    401: UnauthenticatedError,
    403: errors.ForbiddenError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    422: InvalidInputError,
    429: errors.RateLimitedError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}
"""For answers without a code that we know: of a proxy in between, or of a newer host."""


def error_of(answer: httpx.Response) -> MowdeckError:
    """The error that an RFC 9457 answer tells of, of the same class as on the host where that is known."""
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {}
    text = str(problem.get("detail") or problem.get("title") or f"the host answered {answer.status_code}")
    kind = _BY_CODE.get(str(problem.get("code"))) or _BY_STATUS.get(answer.status_code, MowdeckError)
    error = _make(kind, text, problem)
    hint = problem.get("hint")
    if hint:
        error.advice = str(hint)
    return error


def _make(kind: type[MowdeckError], text: str, problem: dict[str, Any]) -> MowdeckError:
    if issubclass(kind, errors.RateLimitedError):
        wait_s = problem.get("retry_after_s")
        return kind(text, retry_after_s=float(wait_s) if isinstance(wait_s, int | float) else 1.0)
    if issubclass(kind, errors.TooManyBinsError):
        step = problem.get("fitting_step")
        return kind(text, fitting_step=step if isinstance(step, str) else None)
    if issubclass(kind, InvalidInputError):
        listed = problem.get("mistakes")
        mistakes = tuple(
            Mistake(field=str(m.get("field")), reason=str(m.get("reason")))
            for m in (listed if isinstance(listed, list) else [])
            if isinstance(m, dict)
        )
        return kind(text, mistakes=mistakes)
    return kind(text)


def may_have_arrived(err: UnavailableError) -> bool:
    """Whether a request that failed so may have reached the host all the same."""
    never = httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
    return isinstance(err.__cause__, httpx.TransportError) and not isinstance(err.__cause__, never)


class HostClient:
    """Requests to one host. Every failure is a MowdeckError."""

    def __init__(
        self, settings: ClientSettings, host: str | None, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._sign_ins = SignIns(settings.config_dir)
        self._service_token = settings.token
        chosen = host or settings.host or self._sign_ins.last_host
        if chosen is None:
            raise UnauthenticatedError(
                "no host is known", hint="Sign in first: mowdeck sign-in http://127.0.0.1:8481 (your box or relay)"
            )
        self.host = _address(chosen)
        self._http = httpx.Client(base_url=self.host, timeout=DEADLINE_S, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, **query: Any) -> Any:
        """The answer of a GET below `/api/v1`."""
        return self.request("GET", path, query={k: v for k, v in query.items() if v is not None})

    def post(self, path: str, body: Any) -> Any:
        """The answer of a POST below `/api/v1`."""
        return self.request("POST", path, body=body)

    def request(
        self, method: str, path: str, *, body: Any = None, query: dict[str, Any] | None = None, is_public: bool = False
    ) -> Any:
        """The decoded answer, or None when it is empty."""
        headers = {} if is_public else {"Authorization": f"Bearer {self.token()}"}
        answer = self._send(method, path, body=body, query=query, headers=headers)
        if answer.status_code == 401 and not is_public and self._service_token is None:
            headers = {"Authorization": f"Bearer {self.token(is_refused=True)}"}
            answer = self._send(method, path, body=body, query=query, headers=headers)
        return self._decoded(answer)

    @contextmanager
    def stream(self, path: str, query: dict[str, Any]) -> Iterator[Iterator[bytes]]:
        """The pieces of a file below `/api/v1`. UnavailableError when it breaks off before its end."""
        headers = {"Authorization": f"Bearer {self.token()}"}
        answer = self._begin(path, query, headers)
        if answer.status_code == 401 and self._service_token is None:
            answer.close()
            answer = self._begin(path, query, {"Authorization": f"Bearer {self.token(is_refused=True)}"})
        try:
            if not answer.is_success:
                answer.read()
                raise error_of(answer)
            yield answer.iter_bytes()
        except httpx.HTTPError as err:
            raise UnavailableError(f"{self.host} broke off: {err}", hint="Try again.") from err
        finally:
            answer.close()

    def _begin(self, path: str, query: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
        request = self._http.build_request("GET", f"/api/v1{path}", params=query, headers=headers)
        try:
            return self._http.send(request, stream=True)
        except httpx.HTTPError as err:
            raise self._silent(err) from err

    def token(self, *, is_refused: bool = False) -> str:
        """A token that holds; renewed when it is about to end, or when the host refused the last one."""
        if self._service_token is not None:
            return self._service_token
        sign_in = self._signed_in()
        if not is_refused and _holds(sign_in):
            return sign_in.access_token
        with self._sign_ins.locked():
            newest = self._signed_in()
            if newest.access_token != sign_in.access_token and _holds(newest):
                return newest.access_token  # another process has renewed it meanwhile
            return self._renew(newest)

    def _signed_in(self) -> SignIn:
        sign_in = self._sign_ins.get(self.host)
        if sign_in is None:
            raise UnauthenticatedError(
                f"not signed in at {self.host}", hint=f"Sign in first: mowdeck sign-in {self.host}"
            )
        return sign_in

    def _renew(self, sign_in: SignIn) -> str:
        answer = self._send("POST", "/identity/session/refresh", body={"refresh_token": sign_in.refresh_token})
        if answer.status_code in {400, 401, 403}:
            self._sign_ins.drop(self.host)
            raise UnauthenticatedError(
                f"the sign-in at {self.host} has ended", hint=f"Sign in again: mowdeck sign-in {self.host}"
            )
        return self.keep(self._decoded(answer), sign_in.username, is_last=False).access_token

    def keep(self, tokens: dict[str, Any], username: str, *, is_last: bool) -> SignIn:
        """Keeps the tokens of an identity answer."""
        try:
            sign_in = SignIn(
                host=self.host,
                username=username,
                access_token=tokens["access_token"],
                access_expires_at=datetime.fromisoformat(tokens["expires_at"]),
                refresh_token=tokens["refresh_token"],
            )
        except (KeyError, TypeError, ValueError) as err:
            raise self._foreign() from err
        self._sign_ins.put(sign_in, is_last=is_last)
        return sign_in

    def forget(self) -> None:
        """Ends the session here and on the host."""
        try:
            self.request("DELETE", "/identity/session")
        finally:
            self._sign_ins.drop(self.host)

    def _decoded(self, answer: httpx.Response) -> Any:
        if not answer.is_success:
            raise error_of(answer)
        try:
            return answer.json() if answer.content else None
        except ValueError as err:
            raise self._foreign() from err

    def _foreign(self) -> UnavailableError:
        return UnavailableError(
            f"{self.host} answers, but not as Mowdeck does", hint="Is the address that of a box or relay?"
        )

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        try:
            return self._http.request(method, f"/api/v1{path}", json=body, params=query, headers=headers)
        except httpx.HTTPError as err:
            raise self._silent(err) from err

    def _silent(self, err: httpx.HTTPError) -> UnavailableError:
        return UnavailableError(f"{self.host} does not answer: {err}", hint="Is it running, and is the address right?")


def _address(host: str) -> str:
    try:
        return str(v.http_url(host)).rstrip("/")
    except vol.Invalid as err:
        raise InvalidInputError.of("host", f"{host!r}: {err.msg} (e.g. http://127.0.0.1:8481)") from err


def _holds(sign_in: SignIn) -> bool:
    return datetime.now(UTC) < sign_in.access_expires_at - RENEW_BEFORE

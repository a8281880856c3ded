"""Errors as RFC 9457 problems: one status and one title per class of the error tree. `docs/problems.md` lists them."""

from __future__ import annotations

import math

import msgspec
from aiohttp import web

from core.domain import errors
from core.domain.errors import InvalidInputError, MowdeckError, TooManyBinsError

CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:mowdeck:problem:"

STATUSES: dict[type[MowdeckError], tuple[int, str]] = {
    MowdeckError: (500, "Something went wrong here"),
    errors.InvalidInputError: (422, "The input is wrong"),
    errors.SettingsError: (422, "The settings are wrong"),
    errors.TooManyBinsError: (422, "The step is too fine for the range"),
    errors.UnauthenticatedError: (401, "Not signed in"),
    errors.ForbiddenError: (403, "Not allowed"),
    errors.NotFoundError: (404, "Not found"),
    errors.NoTelemetryYetError: (404, "The mower has not reported yet"),
    errors.ConflictError: (409, "Not possible now"),
    errors.RateLimitedError: (429, "Too often"),
    errors.LimitExceededError: (409, "A limit is reached"),
    errors.UnavailableError: (503, "Not available right now"),
    errors.NotPublishedError: (503, "The command was not sent"),
    errors.IntegrationError: (502, "The integration failed"),
    errors.ManifestError: (502, "The integration's manifest is wrong"),
    errors.RequirementMissingError: (502, "The integration needs a package"),
    errors.IntegrationLoadError: (502, "The integration does not load"),
    errors.NotReadyError: (503, "Not ready yet"),
    errors.LinkLostError: (502, "The link to the mower was lost"),
    errors.LinkTimeoutError: (504, "The mower did not answer"),
    errors.FloodError: (503, "The link reports too much"),
    errors.AuthFailedError: (502, "The mower or its vendor refused the credentials"),
    errors.NeedsPairingError: (502, "The mower has to be paired with this box"),
    errors.EntryError: (502, "The entry cannot work as configured"),
    errors.WrongPinError: (502, "The mower refused the PIN"),
    errors.BluetoothError: (502, "Bluetooth failed"),
    errors.AdapterOffError: (502, "No Bluetooth adapter is on"),
    errors.OutOfRangeError: (502, "The mower is out of range"),
    errors.NoFreeSlotError: (502, "Every Bluetooth connection is in use"),
    errors.NotInPairingModeError: (502, "The mower is not in pairing mode"),
    errors.PairingRefusedError: (502, "The mower refused to pair"),
    errors.BondLostError: (502, "The mower has forgotten this box"),
    errors.PeerBusyError: (502, "The mower is connected to somebody else"),
    errors.InterferenceError: (502, "The radio is disturbed"),
    errors.RadioStuckError: (502, "Bluetooth is busy with an earlier attempt"),
    errors.ServicesChangedError: (502, "The mower's Bluetooth services have changed"),
    errors.StorageError: (503, "The database failed"),
    errors.DatabaseNewerError: (503, "The database is newer than the program"),
    errors.StorageFullError: (507, "No room left"),
    errors.SyncError: (502, "Box and relay do not understand each other"),
    errors.MalformedMessageError: (502, "A message between box and relay was malformed"),
    errors.SignatureError: (502, "A signature did not hold"),
}
"""Status and title of every error class (a test walks the tree). AuthFailedError is not a 401: the caller is
signed in, it is the vendor who refused."""

HTTP_CODES: dict[int, tuple[str, str, str]] = {
    400: ("malformed-request", "The request is malformed", "Send what the OpenAPI document describes."),
    404: ("not-found", "Not found", errors.NotFoundError.hint),
    405: ("method-not-allowed", "The path does not take this method", "Use a method named in the Allow header."),
    408: ("request-timeout", "The body took too long", "Send the request again."),
    413: ("payload-too-large", "The body is too large", "Send at most 1 MiB."),
    415: ("unsupported-media-type", "The content type is not taken", "Send application/json."),
}
"""Code, title and hint of what goes wrong before any handler: mistakes about HTTP itself."""


class MistakeItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with the input: where (a dotted path) and why."""

    field: str
    reason: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of every answer that is not a success."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    code: str
    retryable: bool
    correlation_id: str
    mistakes: tuple[MistakeItem, ...] = ()
    fitting_step: str | None = None
    retry_after_s: float | None = None


class HttpError(MowdeckError):
    """A mistake about HTTP itself; `status` is one of HTTP_CODES. Only this package raises it."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail, hint=HTTP_CODES[status][2])
        self.status = status


def status_of(kind: type[MowdeckError]) -> tuple[int, str]:
    """Status and title of an error class: its own or its nearest ancestor's."""
    for ancestor in kind.__mro__:
        if ancestor in STATUSES:
            return STATUSES[ancestor]
    raise TypeError(f"{kind.__name__} is not a MowdeckError")


def problem_of(err: Exception, correlation_id: str) -> Problem:
    """The problem for an error. An unexpected one says nothing of itself: its details stay in the log."""
    if isinstance(err, HttpError):
        code, title, _ = HTTP_CODES[err.status]
        return _problem(code, err.status, title, err, correlation_id)
    if not isinstance(err, MowdeckError):
        err = MowdeckError("an unexpected error; the log has the rest")
    status, title = status_of(type(err))
    return _problem(err.code, status, title, err, correlation_id)


def _problem(code: str, status: int, title: str, err: MowdeckError, correlation_id: str) -> Problem:
    mistakes = err.mistakes if isinstance(err, InvalidInputError) else ()
    retry_after_s = getattr(err, "retry_after_s", None)
    return Problem(
        type=TYPE_PREFIX + code,
        title=title,
        status=status,
        detail=err.detail or title,
        hint=err.advice,
        code=code,
        retryable=err.retryable,
        correlation_id=correlation_id,
        mistakes=tuple(MistakeItem(field=m.field, reason=m.reason) for m in mistakes),
        fitting_step=err.fitting_step if isinstance(err, TooManyBinsError) else None,
        retry_after_s=None if retry_after_s is None else float(retry_after_s),
    )


def problem_response(problem: Problem) -> web.Response:
    """The response for a problem, with the headers that its status asks for."""
    response = web.Response(status=problem.status, body=msgspec.json.encode(problem), content_type=CONTENT_TYPE)
    if problem.retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after_s)))
    if problem.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response

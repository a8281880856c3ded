"""aioesphomeapi's failures as the state of a proxy, with what a person can do. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from aioesphomeapi.core import (
    APIConnectionError,
    EncryptionPlaintextAPIError,
    InvalidAuthAPIError,
    InvalidEncryptionKeyAPIError,
    RequiresEncryptionAPIError,
    ResolveAPIError,
    TimeoutAPIError,
)

from edge_agent.proxies.record import ProxyState

KEY_HINT = "Copy the key under `api: encryption: key:` of the proxy's ESPHome configuration, remove the proxy and add it again."
NO_KEY_HINT = (
    "The proxy does not encrypt. Give it an `api: encryption: key:`, or remove it here and add it without a key."
)
OLD_API_HINT = "Passwords of the API are not supported; give the proxy an `api: encryption: key:` in their place."
NAME_HINT = "Give its IP address in place of its name, or see whether it is in the same network as the box."
SILENT_HINT = "Something is there but does not answer: restart the proxy. It may also have too many clients."
AWAY_HINT = "See whether the proxy has power and Wi-Fi. It is tried again by itself."


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a proxy is of no use now."""

    state: ProxyState
    reason: str
    hint: str
    is_for_a_person: bool = False
    """Whether trying again soon is pointless."""


def trouble_of(err: Exception) -> Trouble:
    """What the failure of a connection means. The reasons hold nothing that the proxy or the library has said of a key."""
    match err:
        case RequiresEncryptionAPIError():
            return _for_a_person("it wants an encryption key", KEY_HINT)
        case EncryptionPlaintextAPIError():
            return _for_a_person("it does not encrypt although there is a key for it", NO_KEY_HINT)
        case InvalidEncryptionKeyAPIError():
            return _for_a_person("it refuses the encryption key", KEY_HINT)
        case InvalidAuthAPIError():
            return _for_a_person("it wants a password", OLD_API_HINT)
        case ResolveAPIError():
            return Trouble(state="unreachable", reason="its name is not known in the network", hint=NAME_HINT)
        case TimeoutError() | TimeoutAPIError():
            return Trouble(state="unreachable", reason="it does not answer", hint=SILENT_HINT)
        case APIConnectionError() | OSError():
            return Trouble(state="unreachable", reason="it cannot be reached", hint=AWAY_HINT)
        case _:
            return Trouble(state="unreachable", reason=f"unexpected: {type(err).__name__}", hint=AWAY_HINT)


def _for_a_person(reason: str, hint: str) -> Trouble:
    return Trouble(state="wrong_key", reason=reason, hint=hint, is_for_a_person=True)

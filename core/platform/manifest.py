"""The manifest of an integration: what it is and needs, readable without importing a line of its code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from core.domain.errors import ManifestError
from core.domain.mower import LinkKind
from core.platform.integration import API_VERSION

MANIFEST_BYTES = 64 * 1024
DOMAIN = re.compile(r"[a-z][a-z0-9_]{0,39}")
_VERSION = re.compile(r"\d{1,4}(\.\d{1,6}){1,3}((a|b|rc|\.post|\.dev)\d{1,6})*(\+[a-z0-9.]{1,32})?")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?((==|>=|~=)[A-Za-z0-9.+!]+)?")
_EXTRA = re.compile(r"[a-z][a-z0-9-]{0,39}")

IotClass = Literal["local_push", "local_polling", "cloud_push", "cloud_polling", "calculated", "assumed_state"]


class BluetoothMatcher(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An advertisement that this integration wants to see; every given part has to match. `local_name` may end
    in `*` after three literal characters."""

    local_name: str | None = None
    service_uuid: str | None = None
    service_data_uuid: str | None = None
    manufacturer_id: int | None = None
    manufacturer_data_start: tuple[int, ...] = ()
    connectable: bool = True


class ZeroconfMatcher(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service on the local network, with lower-case globs for its name and properties."""

    type: str
    name: str | None = None
    properties: dict[str, str] = {}


class RequestLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the vendor allows one account: `burst` requests at once and `per_day` in the long run."""

    burst: int
    per_day: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`manifest.json`. `requirements` are what pip takes, `extra` the extra of `mowdeck` that installs them."""

    domain: str
    name: str
    version: str
    api: int
    iot_class: IotClass
    links: tuple[LinkKind, ...]
    codeowners: tuple[str, ...]
    licence: str
    requirements: tuple[str, ...] = ()
    extra: str | None = None
    bluetooth: tuple[BluetoothMatcher, ...] = ()
    zeroconf: tuple[ZeroconfMatcher, ...] = ()
    mqtt: tuple[str, ...] = ()
    """MQTT topic filters."""
    config_flow: bool = False
    documentation: str | None = None
    request_limit: RequestLimit | None = None


def read_manifest(path: Path) -> Manifest:
    """The manifest in the file `path` (or in the folder `path`); ManifestError names every mistake in it."""
    file = path / "manifest.json" if path.is_dir() else path
    try:
        with file.open("rb") as stream:
            data = stream.read(MANIFEST_BYTES + 1)
        if len(data) > MANIFEST_BYTES:
            raise ManifestError(f"{file}: larger than {MANIFEST_BYTES} bytes")
        tree = msgspec.json.decode(data)
    except OSError as err:
        raise ManifestError(f"{file}: cannot be read ({err.strerror})") from err
    except (msgspec.DecodeError, RecursionError) as err:
        raise ManifestError(f"{file}: not JSON ({err})") from err
    return check_manifest(tree, folder=file.parent.name, where=str(file))


def check_manifest(tree: Any, *, folder: str, where: str) -> Manifest:
    """The manifest in a decoded JSON value that was found in a folder of that name."""
    if not isinstance(tree, dict):
        raise ManifestError(f"{where}: must be an object")
    values, mistakes = _convert(tree)
    mistakes += _find_mistakes(values, folder)
    if mistakes:
        raise ManifestError(f"{where}: {'; '.join(mistakes)}")
    return Manifest(**values)


def _convert(tree: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Each key by itself, so that one mistake does not hide the next."""
    fields = {field.name: field for field in msgspec.structs.fields(Manifest)}
    values: dict[str, Any] = {}
    mistakes = [f"{key}: unknown key" for key in tree if key not in fields]
    for name, field in fields.items():
        if name not in tree:
            if field.required:
                mistakes.append(f"{name}: missing")
            continue
        try:
            values[name] = msgspec.convert(tree[name], field.type)
        except msgspec.ValidationError as err:
            mistakes.append(f"{name}: {err}")
    return values, mistakes


def _find_mistakes(values: Mapping[str, Any], folder: str) -> list[str]:
    """Mistakes in values that have the right shape."""
    found: list[str] = []

    def check(name: str, is_right: bool, reason: str) -> None:
        if name in values and values[name] is not None and not is_right:
            found.append(f"{name}: {reason}")

    domain = values.get("domain", "")
    check("domain", DOMAIN.fullmatch(domain) is not None, "must be a-z, 0-9 and _, at most 40, beginning with a letter")
    check("domain", domain == folder, f"must be the folder's name, {folder!r}")
    check("name", bool(values.get("name", "").strip()), "must not be empty")
    check("version", _VERSION.fullmatch(values.get("version", "")) is not None, "is not a version such as 1.2.0")
    check("api", values.get("api") == API_VERSION, f"this Mowdeck has plugin API {API_VERSION}")
    check("links", bool(values.get("links")), "must name at least one")
    check("licence", bool(values.get("licence", "").strip()), "must not be empty")
    check("extra", _EXTRA.fullmatch(values.get("extra") or "") is not None, "is not the name of an extra")
    for requirement in values.get("requirements", ()):
        check("requirements", _REQUIREMENT.fullmatch(requirement) is not None, f"{requirement!r} is not `name==1.2.3`")
    for matcher in values.get("bluetooth", ()):
        check("bluetooth", *_judge_bluetooth(matcher))
    for service in values.get("zeroconf", ()):
        is_local = service.type.endswith(".local.")
        check("zeroconf", is_local, f"{service.type!r} must end in '.local.'")
    limit = values.get("request_limit")
    check("request_limit", limit is None or (limit.burst > 0 and limit.per_day > 0), "both numbers must be above 0")
    return found


def _judge_bluetooth(matcher: BluetoothMatcher) -> tuple[bool, str]:
    """Whether a matcher is narrow enough to be asked for every advertisement."""
    name = matcher.local_name
    if name is not None and len(re.split(r"[*?\[]", name, maxsplit=1)[0]) < 3:
        return False, f"local_name {name!r} needs three literal characters before a wildcard"
    parts = (name, matcher.service_uuid, matcher.service_data_uuid, matcher.manufacturer_id)
    return any(part is not None for part in parts), "a matcher must name something to match"

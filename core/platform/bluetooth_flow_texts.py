"""Which texts the shared steps of Bluetooth mowers need in a folder's `strings.json`. Pure."""

from __future__ import annotations

from collections.abc import Collection

PASSKEY_ERRORS = ("invalid_passkey", "wrong_passkey")


def shared_texts(
    *,
    errors: Collection[str],
    credentials_step: str,
    needs_bond: bool,
    takes_passkey: bool,
    tells_serial: bool,
    options: Collection[str],
) -> frozenset[str]:
    """Dotted keys under `config`."""
    forms = {"confirm", credentials_step}
    data: dict[str, tuple[str, ...]] = {}
    menus: dict[str, tuple[str, ...]] = {}
    aborts = {"no_bluetooth", "not_a_mower", "already_configured", "already_in_progress", "reauth_successful"}
    aborts |= {"reconfigure_successful"}
    actions = {"signing_in"}
    if credentials_step == "pin":
        data |= {"user": ("address",), "pin": ("pin",), "options": tuple(options)}
        menus["reconfigure"] = ("options", "pin", *(("address",) if tells_serial else ()))
        errors = {*errors, "invalid_pin"}
    if needs_bond:
        forms.add("pair")
        menus["reauth"] = (credentials_step, "pair")
    if takes_passkey:
        data["passkey"] = ("passkey",)
    if needs_bond or takes_passkey:
        actions.add("pairing")
    if tells_serial:
        data["address"] = ("address",)
        aborts.add("another_mower")
    steps = {*forms, *data, *menus}
    return frozenset(
        [
            *(f"step.{step}.{part}" for step in steps for part in ("title", "description")),
            *(f"step.{step}.data.{name}" for step, names in data.items() for name in names),
            *(f"step.{step}.menu_options.{name}" for step, names in menus.items() for name in names),
            *(f"error.{key}" for key in errors),
            *(f"abort.{key}" for key in aborts),
            *(f"progress.{key}" for key in actions),
        ]
    )

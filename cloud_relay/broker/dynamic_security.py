"""Mosquitto's dynamic security plugin over its control topic: one client and one role per box."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from cloud_relay.broker.mosquitto_files import UP_BRANCHES
from core.domain.errors import UnavailableError
from core.domain.ids import EdgeId
from core.mqtt.session import MqttSession
from core.sync import topics

CONTROL = "$CONTROL/dynamic-security/v1"
_RESPONSE = f"{CONTROL}/response"
_EDGE_ROLE = "mowdeck-edge-"
_RELAY_ROLE = "mowdeck-relay"
ANSWER_S = 10.0
HINT = (
    "Enable the dynamic security plugin (plugin mosquitto_dynamic_security.so, plugin_opt_config_file ...; "
    "mosquitto_ctrl dynsec init) and give the relay an admin client of it; see docs/broker.md."
)

Command = dict[str, Any]


class DynamicSecurity:
    """Sends commands, each batch over a connection of its own. UnavailableError (with a hint) when nothing answers
    or a command fails."""

    def __init__(
        self, connect: Callable[[], AbstractAsyncContextManager[MqttSession]], *, answer_s: float = ANSWER_S
    ) -> None:
        self._connect = connect
        self._answer_s = answer_s

    async def set_up_relay(self, username: str) -> None:
        """Gives the relay's own user the right to all branches."""
        await self._ensure_role(_RELAY_ROLE, _relay_rights())
        if await self._has_relay_role(username):
            return
        try:
            await self._send([{"command": "addClientRole", "username": username, "rolename": _RELAY_ROLE}])
        except UnavailableError:
            # the plugin ends the sessions of a client whose roles change, and that is this one
            if not await self._has_relay_role(username):
                raise

    async def put_edge(self, edge_id: EdgeId, password: str) -> None:
        """Creates the box's client, or sets its password (which ends its sessions)."""
        role = _EDGE_ROLE + edge_id
        await self._ensure_role(role, _edge_rights(edge_id))
        create = {
            "command": "createClient",
            "username": edge_id,
            "password": password,
            "roles": [{"rolename": role}],
        }
        (error,) = await self._send([create], allow=("already exists",))
        if error is not None:
            await self._send(
                [
                    {"command": "modifyClient", "username": edge_id, "roles": [{"rolename": role}]},
                    {"command": "setClientPassword", "username": edge_id, "password": password},
                    {"command": "enableClient", "username": edge_id},
                ]
            )

    async def remove_edges(self, edge_ids: Sequence[EdgeId]) -> None:
        """Deletes the boxes' clients, which ends their sessions at once, and their roles."""
        commands: list[Command] = []
        for edge_id in edge_ids:
            commands.append({"command": "deleteClient", "username": edge_id})
            commands.append({"command": "deleteRole", "rolename": _EDGE_ROLE + edge_id})
        if commands:
            await self._send(commands, allow=("not found",))

    async def edges(self) -> frozenset[EdgeId]:
        """Boxes that have a client with their own role."""
        (answer,) = await self._ask([{"command": "listClients", "verbose": True, "count": -1, "offset": 0}])
        found = set()
        for client in _data(answer).get("clients", []):
            name = str(client.get("username"))
            if any(role.get("rolename") == _EDGE_ROLE + name for role in client.get("roles", [])):
                found.add(EdgeId(name))
        return frozenset(found)

    async def _has_relay_role(self, username: str) -> bool:
        (answer,) = await self._ask([{"command": "getClient", "username": username}])
        roles = _data(answer).get("client", {}).get("roles", [])
        return any(role.get("rolename") == _RELAY_ROLE for role in roles)

    async def _ensure_role(self, role: str, rights: list[Command]) -> None:
        """Changes an existing role only when it differs: a change may end the sessions of its clients."""
        (error,) = await self._send(
            [{"command": "createRole", "rolename": role, "acls": rights}], allow=("already exists",)
        )
        if error is not None:
            (answer,) = await self._ask([{"command": "getRole", "rolename": role}])
            if _summary(_data(answer).get("role", {}).get("acls", [])) != _summary(rights):
                await self._send([{"command": "modifyRole", "rolename": role, "acls": rights}])

    async def _send(self, commands: Sequence[Command], *, allow: tuple[str, ...] = ()) -> list[str | None]:
        """The error of each command, None without. Only errors with a word of `allow` are returned."""
        errors: list[str | None] = []
        for command, answer in zip(commands, await self._ask(commands), strict=True):
            error = answer.get("error")
            if error is not None and not any(word in str(error).lower() for word in allow):
                raise UnavailableError(f"the broker refused {command['command']}: {error}", hint=HINT)
            errors.append(None if error is None else str(error))
        return errors

    async def _ask(self, commands: Sequence[Command]) -> list[Mapping[str, Any]]:
        request = json.dumps({"commands": commands}).encode()
        async with self._connect() as session:
            await session.subscribe(_RESPONSE)
            await session.publish(CONTROL, request, qos=1)
            try:
                async with asyncio.timeout(self._answer_s):
                    message = await anext(session.messages())
            except TimeoutError as err:
                raise UnavailableError("the broker's dynamic security plugin does not answer", hint=HINT) from err
        try:
            answers = json.loads(message.payload)["responses"]
        except (ValueError, KeyError, TypeError) as err:
            raise UnavailableError("the broker's dynamic security plugin answers nonsense", hint=HINT) from err
        if not isinstance(answers, list) or len(answers) != len(commands):
            detail = answers[0].get("error", "") if isinstance(answers, list) and answers else ""
            raise UnavailableError(f"the broker refused its commands: {detail}", hint=HINT)
        return answers


def _data(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    data = answer.get("data")
    if not isinstance(data, dict):
        raise UnavailableError(f"the broker refused {answer.get('command')}: {answer.get('error')}", hint=HINT)
    return data


def _summary(rights: Sequence[Mapping[str, Any]]) -> set[tuple[object, object, object]]:
    return {(right.get("acltype"), right.get("topic"), right.get("allow")) for right in rights}


def _allow(kind: str, topic: str) -> Command:
    return {"acltype": kind, "topic": topic, "priority": 0, "allow": True}


def _edge_rights(edge_id: EdgeId) -> list[Command]:
    branches = [topics.topic_filter(branch, edge_id) for branch in UP_BRANCHES]
    down = f"{topics.ROOT}/{edge_id}/down/#"
    return [
        *(_allow("publishClientSend", branch) for branch in branches),
        _allow("publishClientReceive", down),
        _allow("subscribePattern", down),
        _allow("unsubscribePattern", down),
    ]


def _relay_rights() -> list[Command]:
    everything = f"{topics.ROOT}/#"
    return [
        _allow("publishClientSend", f"{topics.ROOT}/+/down/#"),
        _allow("publishClientSend", f"{topics.ROOT}/+/{topics.UP_STATUS}"),
        _allow("publishClientReceive", everything),
        _allow("subscribePattern", everything),
        _allow("unsubscribePattern", everything),
    ]

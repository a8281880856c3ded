"""Drive sessions over HTTP: who drives, and the end of it. They begin with a `manual_drive` command."""

from __future__ import annotations

import msgspec

from core.domain.access import ObjectType, Relation
from core.domain.drive import DriveSession
from core.domain.errors import NotFoundError, NotPublishedError
from core.domain.ids import CommandId, MowerId
from core.web.drive_desk import DrivingDesk
from core.web.route import OnObject, Request, Route


class DriveSessionList(msgspec.Struct, frozen=True, kw_only=True):
    """The open drive session of a mower, or none."""

    items: tuple[DriveSession, ...]


def drive_routes(desk: DrivingDesk) -> tuple[Route, ...]:
    """The routes over a host's desk."""

    async def list_sessions(request: Request) -> DriveSessionList:
        found = await desk.sessions(request.who, MowerId(request.path["mower_id"]))
        return DriveSessionList(items=tuple(found))

    async def end_session(request: Request) -> None:
        path = request.path
        await desk.end(request.who, MowerId(path["mower_id"]), CommandId(path["session_id"]))

    return (
        Route(
            method="GET",
            path="/fleet/mowers/{mower_id}/drive-sessions",
            guard=OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id"),
            handler=list_sessions,
            summary="Who drives a mower by hand",
            tag="commands",
            answer=DriveSessionList,
        ),
        Route(
            method="DELETE",
            path="/fleet/mowers/{mower_id}/drive-sessions/{session_id}",
            guard=OnObject(relation=Relation.CAN_EMERGENCY_STOP, type=ObjectType.MOWER, parameter="mower_id"),
            handler=end_session,
            summary="Ends a drive: the driver, or anybody who may stop the mower",
            tag="commands",
            status=204,
            errors=(NotFoundError, NotPublishedError),
        ),
    )

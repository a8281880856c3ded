"""What the household does with its mowers beyond commands: forget one."""

from __future__ import annotations

from core.domain.access import ObjectType, Relation
from core.domain.errors import ConflictError, NotFoundError
from core.domain.ids import MowerId
from core.web.route import Answer, OnObject, Request, Route
from edge_agent.household.mower_keeper import MowerKeeper


def household_routes(keeper: MowerKeeper) -> list[Route]:
    """The table."""

    async def remove(request: Request) -> Answer:
        await keeper.remove(MowerId(request.path["mower_id"]))
        return Answer(status=204)

    return [
        Route(
            method="DELETE",
            path="/fleet/mowers/{mower_id}",
            guard=OnObject(relation=Relation.CAN_MANAGE_MOWERS, type=ObjectType.MOWER, parameter="mower_id"),
            handler=remove,
            summary="Forget a mower that no integration reaches any more, with all its records",
            tag="mowers",
            status=204,
            errors=(ConflictError, NotFoundError),
        )
    ]

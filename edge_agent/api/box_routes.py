"""Routes about the box itself: how it is, its link to a relay, its diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from core.domain.access import Relation
from core.domain.errors import ConflictError, InvalidInputError, RateLimitedError, UnavailableError
from core.web.route import Answer, OnAccount, Request, Route
from edge_agent.box_status import BoxStatus
from edge_agent.linking.link_desk import LinkDesk, LinkView

MANAGE = OnAccount(relation=Relation.CAN_MANAGE_MOWERS)


class LinkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which relay the box is to be linked to."""

    relay_url: str


def box_routes(
    desk: LinkDesk, status: Callable[[], BoxStatus], diagnostics: Callable[[], dict[str, Any]]
) -> list[Route]:
    """The table. `status` and `diagnostics` are asked at each request."""

    async def show_status(_: Request) -> BoxStatus:
        return status()

    async def show_link(_: Request) -> LinkView:
        return desk.view()

    async def start_link(request: Request) -> LinkView:
        return await desk.start(request.body.relay_url)

    async def end_link(_: Request) -> Answer:
        await desk.end()
        return Answer(status=204)

    async def show_diagnostics(_: Request) -> dict[str, Any]:
        return diagnostics()

    return [
        Route(
            method="GET",
            path="/box/status",
            guard=OnAccount(relation=Relation.CAN_VIEW),
            handler=show_status,
            summary="How the box is: clock, disk, recorder, link, mowers",
            tag="box",
            answer=BoxStatus,
        ),
        Route(
            method="GET",
            path="/box/link",
            guard=MANAGE,
            handler=show_link,
            summary="The link to a relay",
            tag="box",
            answer=LinkView,
        ),
        Route(
            method="POST",
            path="/box/link",
            guard=MANAGE,
            handler=start_link,
            summary="Ask a relay for a code to link this box with",
            tag="box",
            body=LinkBody,
            answer=LinkView,
            errors=(InvalidInputError, ConflictError, UnavailableError, RateLimitedError),
        ),
        Route(
            method="DELETE",
            path="/box/link",
            guard=MANAGE,
            handler=end_link,
            summary="End the link, or stop waiting for one",
            tag="box",
            status=204,
        ),
        Route(
            method="GET",
            path="/box/diagnostics",
            guard=MANAGE,
            handler=show_diagnostics,
            summary="A redacted snapshot for a report",
            tag="box",
            answer=dict[str, Any],
        ),
    ]

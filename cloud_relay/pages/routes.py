"""Routes of the pages: a few files that ship with the package, each with an ETag and a strict policy."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import PurePath

from core.web.route import Answer, Public, Request, Route

PAGES = {"/": "home.html", "/link": "link.html"}
"""Pages by the path where people find them; `/link` is what a box shows and puts into its QR code."""
ASSETS = ("page.css", "home.js", "link.js", "relay.js", "texts.js", "words.js")
"""What pages load, below `/pages/`."""
CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Nothing inline and nothing from elsewhere: a box's name on the page comes from a stranger."""


def page_routes() -> tuple[Route, ...]:
    """The pages and what they load, read once."""
    return (
        *(_File(name).route(path, f"Page: {name}") for path, name in PAGES.items()),
        *(_File(name).route(f"/pages/{name}", f"Part of the pages: {name}") for name in ASSETS),
    )


class _File:
    """One file as it is served. Browsers keep it and ask each time whether it is still the same: after an upgrade
    no page runs with the scripts of the last version."""

    def __init__(self, name: str) -> None:
        self._content = resources.files(__package__).joinpath(name).read_bytes()
        self._content_type = CONTENT_TYPES[PurePath(name).suffix]
        self._etag = hashlib.sha256(self._content).hexdigest()[:32]
        self._headers = {
            "Cache-Control": "no-cache",
            "ETag": f'"{self._etag}"',
            "Content-Security-Policy": POLICY,
        }

    def route(self, path: str, summary: str) -> Route:
        return Route(
            method="GET",
            path=path,
            guard=Public(reason="a file of the product without any data; the page signs in by the API"),
            handler=self._send,
            summary=summary,
            tag="pages",
            is_absolute=True,
            is_page=True,
        )

    async def _send(self, request: Request) -> Answer:
        known = request.raw.if_none_match or ()
        if any(tag.value in {self._etag, "*"} for tag in known):
            return Answer(value=b"", status=304, headers=self._headers, content_type=self._content_type)
        return Answer(value=self._content, headers=self._headers, content_type=self._content_type)

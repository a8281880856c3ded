"""Virtual time for this folder: minutes of a mower's life pass at once."""

from __future__ import annotations

import pytest

from tests.fakes.warp_loop import WarpLoop


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, type[WarpLoop]]:
    return {"warp": WarpLoop}

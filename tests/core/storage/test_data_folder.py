"""One process per data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from core.domain.errors import StorageError
from core.storage.data_folder import open_data_folder


@pytest.mark.parametrize("host", ["box", "relay"])
def test_a_second_one_is_refused_and_a_later_one_is_not(tmp_path: Path, host: Literal["box", "relay"]) -> None:
    folder = tmp_path / "data"
    with open_data_folder(folder, host):
        assert folder.stat().st_mode & 0o777 == 0o700
        with pytest.raises(StorageError, match=f"another {host} runs on"), open_data_folder(folder, host):
            pass
    with open_data_folder(folder, host):
        pass


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot use"), open_data_folder(tmp_path / "file" / "data", "relay"):
        pass

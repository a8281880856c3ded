"""What the check of a folder has found, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Area = Literal["manifest", "import", "flow", "texts", "contract", "fault", "quality"]
FindingStatus = Literal["passed", "failed", "skipped", "claimed", "todo", "exempt"]
"""`skipped`: nothing to look at; `claimed`: said to be done, but only people can see it; `todo` and `exempt` as the
quality list says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report. `detail` is for the integration's author; a failed one always has it."""

    area: Area
    name: str
    status: FindingStatus
    detail: str = ""
    seconds: float = 0.0
    hint: str = ""
    """What its author can do about it; only for what is not yet good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderReport:
    """All findings about one folder."""

    domain: str
    findings: tuple[Finding, ...]

    @property
    def is_good(self) -> bool:
        """Whether nothing failed."""
        return all(finding.status != "failed" for finding in self.findings)

    def count(self, status: FindingStatus) -> int:
        """How many findings are so."""
        return sum(finding.status == status for finding in self.findings)

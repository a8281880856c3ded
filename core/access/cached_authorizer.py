"""Remembers decisions for a few seconds, and forgets them when rights change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from typing import Generic, TypeVar

from core.access.authorizer import Authorizer
from core.domain.access import ObjectRef, ObjectType, Relation
from core.domain.clock import Clock
from core.domain.limits import DECISION_TTL_S
from core.identity.principal import Principal

T = TypeVar("T")

SUBJECTS = 2_000
"""Subjects remembered; the one that asked longest ago is forgotten first."""
DECISIONS = 2_000
"""Decisions remembered per subject; all of the subject are forgotten when there are more."""


class CachedAuthorizer:
    """Implements `Authorizer` over another one. Subscribe `drop` to the notifier of changed grants."""

    def __init__(self, inner: Authorizer, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._bools: _Memory[bool] = _Memory(clock)
        self._lists: _Memory[frozenset[str]] = _Memory(clock)
        self._generation = 0

    async def check(self, who: Principal, relation: Relation, what: ObjectRef) -> bool:
        return (await self.check_many(who, relation, [what]))[0]

    async def check_many(self, who: Principal, relation: Relation, what: Sequence[ObjectRef]) -> Sequence[bool]:
        answers = {one: self._bools.recall(who, (relation, one)) for one in what}
        unknown = [one for one, answer in answers.items() if answer is None]
        if unknown:
            generation = self._generation
            fresh = await self._inner.check_many(who, relation, unknown)
            for one, answer in zip(unknown, fresh, strict=True):
                answers[one] = answer
                # What was read before a change that has since been told would outlive the telling.
                if generation == self._generation:
                    self._bools.keep(who, (relation, one), answer)
        return [bool(answers[one]) for one in what]

    async def list_objects(self, who: Principal, relation: Relation, kind: ObjectType) -> frozenset[str]:
        known = self._lists.recall(who, (relation, kind))
        if known is not None:
            return known
        generation = self._generation
        fresh = await self._inner.list_objects(who, relation, kind)
        if generation == self._generation:
            self._lists.keep(who, (relation, kind), fresh)
        return fresh

    async def ping(self) -> None:
        await self._inner.ping()

    def drop(self, subjects: Collection[str] | None) -> None:
        """Forgets what was decided for these subjects; None: for all."""
        self._generation += 1
        self._bools.drop(subjects)
        self._lists.drop(subjects)


class _Memory(Generic[T]):
    """Answers per subject, each with its end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: OrderedDict[str, dict[Hashable, tuple[T, float]]] = OrderedDict()

    def recall(self, who: Principal, question: Hashable) -> T | None:
        entry = self._of.get(who.subject, {}).get(_key(who, question))
        return entry[0] if entry is not None and self._clock.monotonic() < entry[1] else None

    def keep(self, who: Principal, question: Hashable, answer: T) -> None:
        entries = self._of.setdefault(who.subject, {})
        self._of.move_to_end(who.subject)
        if len(entries) >= DECISIONS:
            entries.clear()
        entries[_key(who, question)] = (answer, self._clock.monotonic() + DECISION_TTL_S)
        while len(self._of) > SUBJECTS:
            self._of.popitem(last=False)

    def drop(self, subjects: Collection[str] | None) -> None:
        if subjects is None:
            self._of.clear()
            return
        for subject in subjects:
            self._of.pop(subject, None)


def _key(who: Principal, question: Hashable) -> Hashable:
    """A person who has changed their password, or switched the account, is asked about anew."""
    return (who.account_id, who.must_change_password, question)

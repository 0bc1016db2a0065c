"""The revoked set: the tasks and leases that the revocation feed reported, and the age of that information."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_SLACK = 300.0  # seconds that an entry is kept longer than needed
LEEWAY = 5.0  # the accepted difference between ebb's clock and this server's


@dataclass(frozen=True)
class Event:
    """One event of the feed. lease_id "" means the whole task."""

    task_id: str
    lease_id: str
    at: float | None  # None = not known
    until: float  # the event may be dropped after this time


@dataclass(frozen=True)
class Page:
    """One answer of the feed."""

    events: tuple[Event, ...]
    cursor: str  # for the next call
    full: bool  # there may be more events now
    max_age: float  # ebb's limit for the staleness in seconds; 0 = none


class RevokedSet:
    """The revoked tasks and leases. It is safe for concurrent use.

    The lifetime of an entry is the difference of the two times in its event, which are of one clock. The monotonic
    clock measures it, so that a wall clock that jumps ahead drops nothing too early.
    """

    def __init__(
        self,
        most: int,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._now, self._monotonic = most, now, monotonic
        self._lock = threading.Lock()
        self._keep: dict[str, float] = {}
        self._fresh: tuple[float, float] | None = None  # both clocks at the request of the last complete answer
        self._floor = float("-inf")  # tokens issued until then are refused: their events were dropped
        self._bound = 0.0
        self._swept = monotonic()

    def clocks(self) -> tuple[float, float]:
        """Return the wall clock and the monotonic clock, for complete."""
        return self._now(), self._monotonic()

    def add(self, events: Iterable[Event]) -> None:
        with self._lock:
            steady = self._monotonic()
            for event in events:
                name = event.lease_id or event.task_id
                if not name:
                    continue
                begin = self._now() if event.at is None else event.at
                keep = steady + max(event.until - begin, 0.0) + _SLACK
                self._keep[name] = max(keep, self._keep.get(name, keep))
                if len(self._keep) > self._most:
                    self._sweep(steady)
                if len(self._keep) > self._most:
                    # The dropped entries concern tokens issued before now, because ebb issues none for a revoked task
                    # or lease. Refusing all such tokens loses no revocation.
                    self._floor = max(self._floor, self._now() + LEEWAY)
                    self._keep = {name: keep}
            if steady - self._swept > 60:
                self._sweep(steady)

    def _sweep(self, steady: float) -> None:
        self._keep = {name: keep for name, keep in self._keep.items() if keep > steady}
        self._swept = steady

    def complete(self, asked: tuple[float, float], bound: float) -> None:
        """Record that the feed was read to its end by an answer requested at asked."""
        with self._lock:
            self._fresh, self._bound = asked, bound

    def known(self, staleness: float) -> bool:
        """Report whether the set is recent enough to tell."""
        with self._lock:
            return self._known(staleness)

    def _known(self, staleness: float) -> bool:
        if self._fresh is None:
            return False
        if self._bound > 0:
            staleness = min(staleness, self._bound)
        # The monotonic clock stops while a machine is suspended; the wall clock can be set back. The larger age counts.
        age = max(self._now() - self._fresh[0], self._monotonic() - self._fresh[1])
        return 0 <= age <= staleness

    def revoked(self, names: Iterable[str], issued_at: float, staleness: float) -> bool | None:
        """Report whether a token with one of the ids is revoked; None = the set is too old to tell."""
        with self._lock:
            if not self._known(staleness):
                return None
            return issued_at <= self._floor or any(name in self._keep for name in names)

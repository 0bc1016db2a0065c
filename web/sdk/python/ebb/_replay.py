"""Used DPoP proofs (RFC 9449 section 11.1): a proof is accepted once."""

from __future__ import annotations

import bisect
import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import Protocol

from ._dpop import Memory, Proof


class Full(Exception):
    """No more proofs can be stored."""


class BusyKey(Exception):
    """One key has used its share of the memory."""


class Replay(Protocol):
    """A store of used proofs. Several processes or machines behind one URL must share one."""

    def claim(self, proof: Proof) -> bool:
        """Report whether this is the first proof with proof.replay_key, and store it until proof.until.

        Exactly one of several concurrent calls is the first. An exception means that the store could not tell; the
        request is then refused.
        """
        ...

    def memory(self) -> Memory:
        """Return the time since which the store remembers; Memory(None, "") if it never loses a proof."""
        ...


_SLICE = 16  # seconds of proof.until that one slot covers
_SLACK = 60.0  # seconds that a slot is kept longer


class _Slot:
    """The proofs that expire in one time slice. Dropping a whole slot has a constant cost."""

    __slots__ = ("keep", "keys", "seen")

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.keys: dict[bytes, int] = {}
        self.keep = 0.0


class MemoryReplay:
    """A Replay of fixed size in this process. It is safe for concurrent use.

    It stores at most max proofs (about 100 bytes each), a quarter of them per key, and never drops one that is still
    valid: beyond that it raises Full or BusyKey. It does not know proofs from before its start; claim is False for
    a proof that its memory does not cover.
    """

    def __init__(
        self,
        max: int = 500_000,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max, self._share, self._monotonic = max, (max + 3) // 4, monotonic
        self._memory = Memory(now(), secrets.token_urlsafe(18))
        self._lock = threading.Lock()
        self._slots: dict[int, _Slot] = {}
        self._count = 0
        self._dropped = _Spans()

    def memory(self) -> Memory:
        return self._memory

    def claim(self, proof: Proof) -> bool:
        # The signed time of a proof determines its slot, so that a replay is looked up in the same slot.
        number = int(proof.until // _SLICE)
        digest, key = _digest(proof.replay_key), _digest(proof.jkt)
        with self._lock:
            now = self._monotonic()
            self._drop(now)
            # A dropped slot may have contained the proof, if the wall clock was set back.
            if self._dropped.has(number) or not self._memory.covers(proof):
                return False
            slot = self._slots.get(number)
            if slot is not None and digest in slot.seen:
                return False
            if self._count >= self._max:
                raise Full
            if sum(s.keys.get(key, 0) for s in self._slots.values()) >= self._share:
                raise BusyKey
            if slot is None:
                slot = self._slots[number] = _Slot()
            slot.seen.add(digest)
            slot.keys[key] = slot.keys.get(key, 0) + 1
            # No replica accepts the proof for longer than this, regardless of the wall clock.
            slot.keep = max(slot.keep, now + proof.until - proof.begin + _SLACK)
            self._count += 1
            return True

    def _drop(self, now: float) -> None:
        for number, slot in list(self._slots.items()):
            if slot.keep <= now:
                self._count -= len(slot.seen)
                self._dropped.add(number)
                del self._slots[number]


def _digest(text: str) -> bytes:
    """Return 16 bytes: a collision can only cause a refusal, and only for the client that made it."""
    return hashlib.sha256(text.encode()).digest()[:16]


class _Spans:
    """A set of numbers as at most 64 spans. If there are more, the closest two are joined: it then has too many."""

    def __init__(self) -> None:
        self._from: list[int] = []
        self._to: list[int] = []

    def add(self, number: int) -> None:
        at = bisect.bisect_left(self._from, number)
        self._from.insert(at, number)
        self._to.insert(at, number)
        self._join(at, 1)
        self._join(at - 1, 1)
        if len(self._from) > 64:
            gaps = [start - end for start, end in zip(self._from[1:], self._to)]
            self._join(gaps.index(min(gaps)), min(gaps))

    def _join(self, at: int, gap: int) -> None:
        """Join the spans at and at+1 if the gap between them is at most gap."""
        if 0 <= at < len(self._from) - 1 and self._from[at + 1] - self._to[at] <= gap:
            self._to[at] = max(self._to[at], self._to.pop(at + 1))
            del self._from[at + 1]

    def has(self, number: int) -> bool:
        at = bisect.bisect_right(self._from, number) - 1
        return at >= 0 and number <= self._to[at]

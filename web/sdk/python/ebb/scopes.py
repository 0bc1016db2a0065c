"""The grammar of scopes and their order, as package scopes of ebb defines them.

One scope is provider:resource:action, such as orders:eu/42:read. In a resource, "*" is one segment and a last "**" is
one or more; "*" as the action is every action.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SCOPE = re.compile(
    r"(?P<provider>[a-z][a-z0-9-]{0,31}):(?P<resource>[^:]+):(?P<action>[a-z][a-z0-9_.-]{0,31}|\*)", re.ASCII
)
_SEGMENT = re.compile(r"[A-Za-z0-9._~@+=,-]{1,64}|\*", re.ASCII)
_MAX_BYTES, _MAX_SEGMENTS, _MAX_SCOPES = 512, 16, 64


class ScopeError(ValueError):
    """The text violates the grammar of scopes."""


class Scope:
    """One parsed scope."""

    __slots__ = ("_text", "action", "provider", "segments")

    def __init__(self, text: str) -> None:
        match = _SCOPE.fullmatch(text) if len(text) <= _MAX_BYTES else None
        segments = match["resource"].split("/") if match else []
        if match is None or not _valid(segments):
            raise ScopeError("a scope is provider:resource:action, such as orders:eu/42:read")
        self._text, self.provider, self.segments, self.action = text, match["provider"], segments, match["action"]

    def covers(self, other: Scope) -> bool:
        """Report whether everything that other matches, this scope matches too."""
        if self.provider != other.provider or self.action not in ("*", other.action):
            return False
        for mine, theirs in zip(self.segments, other.segments):
            if mine == "**":
                return True
            if theirs == "**" or mine not in ("*", theirs):
                return False
        return len(self.segments) == len(other.segments)

    def __str__(self) -> str:
        return self._text


def _valid(segments: list[str]) -> bool:
    if len(segments) > _MAX_SEGMENTS:
        return False
    if segments[-1] == "**":
        segments = segments[:-1]
    return all(_SEGMENT.fullmatch(s) and s not in (".", "..") for s in segments)


class ScopeSet:
    """A set of scopes, without members that another one covers. The empty set covers only the empty set."""

    __slots__ = ("_members",)

    def __init__(self, text: str = "") -> None:
        """Parse scopes separated by exactly one space (RFC 6749 section 3.3), at most 64."""
        tokens = text.split(" ") if text else []
        if len(tokens) > _MAX_SCOPES:
            raise ScopeError("a set has at most 64 scopes")
        parsed = {token: Scope(token) for token in tokens}.values()
        self._members = sorted(
            (m for m in parsed if not any(o is not m and o.covers(m) for o in parsed)), key=str
        )

    def covers(self, other: ScopeSet) -> bool:
        """Report whether each member of other is covered by one member of this set."""
        return all(any(m.covers(o) for m in self._members) for o in other)

    def __iter__(self) -> Iterator[Scope]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __str__(self) -> str:
        return " ".join(str(m) for m in self._members)

    def __repr__(self) -> str:
        return f"ScopeSet({str(self)!r})"

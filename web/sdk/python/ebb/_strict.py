"""Strict decoding of base64url, JSON and text. It accepts exactly what attest/jose of ebb accepts."""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections.abc import Collection
from typing import Any, NoReturn, TypeAlias


class Malformed(ValueError):
    """The input violates its format. The text never quotes the input."""


class Number:
    """The text of a JSON number, so that no number is rounded and no long one is converted."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


Members: TypeAlias = dict[str, Any]

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_MARKS = re.compile(r'["\\{}\[\]:]')
_SURROGATE = re.compile("[\ud800-\udfff]")


def b64url(data: bytes) -> str:
    """Return data as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def b64url_decode(text: str) -> bytes:
    """Decode base64url without padding. Unused bits of the last character must be zero (RFC 4648 section 3.5)."""
    if not _BASE64URL.fullmatch(text) or len(text) % 4 == 1:
        raise Malformed("not base64url")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if b64url(data) != text:
        raise Malformed("not canonical base64url")
    return data


def _pairs(pairs: list[tuple[str, Any]]) -> Members:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("duplicate members")
    return members


def _constant(_: str) -> NoReturn:
    raise Malformed("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=Number, parse_float=Number, parse_constant=_constant, strict=True
)


def decode_object(raw: bytes, depth: int = 16, members: int = 256) -> Members:
    """Decode exactly one JSON object (RFC 8259, RFC 7493).

    It must be valid UTF-8 without duplicate names at any level and without lone surrogates. Depth and number of
    members are checked before a value is built. Numbers become Number.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None
    _measure(text, depth, members)
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise Malformed("not one JSON object without duplicate members") from None
    if not isinstance(value, dict):
        raise Malformed("not one JSON object")
    if "\\u" in text:
        _no_surrogates(value)
    return value


def _measure(text: str, depth: int, members: int) -> None:
    """Count brackets and colons outside of strings. The decoder refuses text that is not JSON later."""
    level = names = 0
    quoted, skip = False, -1
    for mark in _MARKS.finditer(text):
        at, char = mark.start(), mark.group()
        if at == skip:
            continue
        if quoted and char == "\\":
            skip = at + 1
        elif char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in "{[":
            level += 1
            if level > depth:
                raise Malformed("nested too deeply")
        elif char in "}]":
            level -= 1
        elif char == ":":
            names += 1
            if names > members:
                raise Malformed("too many members")


def _no_surrogates(value: Any) -> None:
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            if _SURROGATE.search(item):
                raise Malformed("a lone surrogate")
        elif isinstance(item, dict):
            todo.extend(item.keys())
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)


def look_alike(members: Members, registered: Collection[str]) -> bool:
    """Report whether a name differs only in letter case from a registered name or from another member.

    A case-insensitive decoder in later code would confuse them, so that "AUD" overrides "aud".
    """
    if all(name.isascii() and name == name.lower() for name in members):
        return False
    known = {_fold(name): name for name in registered}
    seen = set()
    for name in members:
        folded = _fold(name)
        if known.get(folded, name) != name or folded in seen:
            return True
        seen.add(folded)
    return False


def _fold(name: str) -> str:
    """Apply Unicode simple case folding: one character stays one character, as in Go's strings.EqualFold."""
    return "".join(_fold_char(c) for c in name)


def _fold_char(char: str) -> str:
    for folded in (char.casefold(), char.lower()):
        if len(folded) == 1:
            return folded
    return char


_HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})


def plain(text: str) -> bool:
    """Report whether text has no control, format or bidirectional characters and no line separators."""
    if text.isascii():
        return text.isprintable()
    return all(unicodedata.category(c) not in _HIDDEN for c in text)


def shown(text: object, limit: int = 1000) -> str:
    """Return a text of the server for people: of limited length, and each hidden character as U+FFFD."""
    if not isinstance(text, str):
        return ""
    text = text[:limit]
    return text if plain(text) else "".join("\ufffd" if unicodedata.category(c) in _HIDDEN else c for c in text)


def word(text: object) -> bool:
    """Report whether text is one word of visible ASCII, as tokens and ebb's ids are."""
    return isinstance(text, str) and text != "" and all("!" <= c <= "~" for c in text)

"""Compact JWS (RFC 7515) with JWT claims (RFC 7519): strict parsing, checks and signing.

Parse reads every byte before anything is trusted; check compares the claims with a Profile; verify then checks the
signature.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from . import _jwk
from ._strict import Malformed, Members, Number, b64url, b64url_decode, decode_object, look_alike, plain

_HEADER_NAMES = (
    "alg", "typ", "kid", "crit", "b64", "zip", "jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256", "cty", "enc", "nonce",
)  # fmt: skip
# Parameters that would move trust or meaning out of the token (RFC 8725 sections 3.9 and 3.10).
_HEADER_REFUSED = ("crit", "b64", "zip", "enc", "jku", "x5u", "x5c", "cty")
_CLAIM_NAMES = (
    "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "client_id", "azp", "scope", "cnf", "act", "may_act",
    "authorization_details", "nonce", "htm", "htu", "ath", "task_id", "txn", "sid", "acr", "amr", "auth_time", "events",
    "status",
)  # fmt: skip
_TOKEN = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)", re.ASCII)
_MAX_NAME, _MAX_JTI, _MAX_AUDIENCES, _MAX_TYPE = 2048, 256, 64, 128
_MAX_DATE = 253402300799  # 9999-12-31T23:59:59Z
_MAX_LIFETIME = 24 * 3600.0


class TokenError(Exception):
    """The token is refused. sentence contains nothing from the token."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason, self.sentence = reason, sentence


@dataclass(frozen=True)
class Limits:
    """Bounds of the input of parse."""

    size: int = 16 << 10
    depth: int = 16
    members: int = 256
    embedded_key: bool = False  # allows jwk in the header: DPoP proofs only


@dataclass(frozen=True)
class Header:
    alg: str
    typ: str = ""  # in lower case without "application/"; "" when absent
    kid: str = ""
    key: _jwk.Key | None = None


@dataclass(frozen=True)
class Claims:
    """The claims of a token. Absent registered claims are "" or None."""

    members: Members
    payload: bytes = field(repr=False)
    issuer: str = ""
    subject: str = ""
    client_id: str = ""
    jti: str = ""
    audience: tuple[str, ...] = ()
    expiry: float | None = None
    not_before: float | None = None
    issued_at: float | None = None

    def text(self, name: str) -> str | None:
        """Return a claim that is a string, and None for every other one."""
        value = self.members.get(name)
        return value if isinstance(value, str) else None

    def confirmation(self) -> tuple[str, str]:
        """Return jkt and x5t#S256 of cnf (RFC 7800), of which one is "". Both are "" without cnf."""
        if "cnf" not in self.members:
            return "", ""
        cnf = self.members["cnf"]
        if isinstance(cnf, dict) and len(cnf) == 1:
            name, value = next(iter(cnf.items()))
            if name in ("jkt", "x5t#S256") and valid_digest(value):
                return (value, "") if name == "jkt" else ("", value)
        raise TokenError("claims", "the token is not bound to exactly one key")


@dataclass(frozen=True)
class Unverified:
    """A parsed token whose contents are not authenticated."""

    header: Header
    claims: Claims
    signing_input: bytes = field(repr=False)
    signature: bytes = field(repr=False)


@dataclass(frozen=True)
class Profile:
    """The requirements for one kind of token. None accepts any issuer or audience."""

    types: tuple[str, ...]
    algs: tuple[str, ...]
    issuer: str | None
    audience: str | None
    need_expiry: bool = True
    leeway: float = 0.0


def valid_digest(value: object) -> bool:
    """Report whether value is the base64url text of 32 bytes."""
    try:
        return isinstance(value, str) and len(b64url_decode(value)) == 32
    except Malformed:
        return False


def parse(token: str, limits: Limits = Limits()) -> Unverified:
    """Parse every byte of a compact JWS, without cryptography."""
    if len(token) > limits.size:
        raise TokenError("oversized", "the token is too large")
    parts = _TOKEN.fullmatch(token)
    try:
        if parts is None:
            raise Malformed("not three parts")
        head, payload, signature = (b64url_decode(part) for part in parts.groups())
    except Malformed:
        raise TokenError("malformed", "the token is not three base64url parts") from None
    header = _header(head, limits)
    try:
        members = decode_object(payload, limits.depth, limits.members)
    except Malformed:
        raise TokenError("malformed", "the payload of the token is not one strict JSON object") from None
    return Unverified(header, _claims(members, payload), token.rpartition(".")[0].encode("ascii"), signature)


def _header(raw: bytes, limits: Limits) -> Header:
    try:
        m = decode_object(raw, limits.depth, limits.members)
    except Malformed:
        raise TokenError("malformed", "the header of the token is not one strict JSON object") from None
    if look_alike(m, _HEADER_NAMES):
        raise TokenError("malformed", "the header of the token has look-alike members")
    if any(name in m for name in _HEADER_REFUSED) or ("jwk" in m and not limits.embedded_key):
        raise TokenError("header", "the header of the token has a parameter that is not accepted")
    alg = m.get("alg")
    if not isinstance(alg, str) or alg not in _jwk.ALGS:
        raise TokenError("algorithm", "the token has no accepted signature algorithm")
    typ = ""
    if "typ" in m:
        typ = _normal_type(m["typ"])
        if not typ:
            raise TokenError("type", "the type of the token is not a media type")
    if "kid" in m and not _jwk.valid_kid(m["kid"]):
        raise TokenError("header", "the key id of the token is not 1 to 256 printable characters")
    key = None
    if "jwk" in m:
        try:
            key = _jwk.parse_jwk(m["jwk"] if isinstance(m["jwk"], dict) else {})
        except Malformed:
            raise TokenError("key", "the key in the header is not an acceptable public key") from None
    return Header(alg, typ, m.get("kid", ""), key)


def _normal_type(typ: object) -> str:
    if not isinstance(typ, str) or len(typ.encode()) > _MAX_TYPE or not plain(typ):
        return ""
    return typ.lower().removeprefix("application/")


def _claims(m: Members, payload: bytes) -> Claims:
    if look_alike(m, _CLAIM_NAMES):
        raise TokenError("malformed", "the token has look-alike claims")
    names = {}
    for name, most in (("iss", _MAX_NAME), ("sub", _MAX_NAME), ("client_id", _MAX_NAME), ("jti", _MAX_JTI)):
        value = m.get(name, "")
        if name in m and not (isinstance(value, str) and 0 < len(value.encode()) <= most and plain(value)):
            raise TokenError("claims", "a name in the token (iss, sub, client_id, jti) is not a short plain string")
        names[name] = value
    return Claims(
        m, payload, names["iss"], names["sub"], names["client_id"], names["jti"], _audience(m),
        _date(m, "exp"), _date(m, "nbf"), _date(m, "iat"),
    )  # fmt: skip


def _date(m: Members, name: str) -> float | None:
    """Return a NumericDate (RFC 7519 section 2): a JSON number, never a string."""
    if name not in m:
        return None
    value = m[name]
    if isinstance(value, Number) and len(value.text) <= 32:
        seconds = float(value.text)
        if 0 < seconds <= _MAX_DATE:
            return seconds
    raise TokenError("claims", "a date in the token (exp, nbf, iat) is not a NumericDate")


def _audience(m: Members) -> tuple[str, ...]:
    if "aud" not in m:
        return ()
    value = m["aud"]
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not (isinstance(item, str) and 0 < len(item.encode()) <= _MAX_NAME and plain(item)):
            raise TokenError("audience", "the audience of the token is not a string or an array of strings")
    if not 0 < len(items) <= _MAX_AUDIENCES:
        raise TokenError("audience", "the audience of the token is not a string or an array of strings")
    return tuple(items)


def check(u: Unverified, p: Profile, now: float) -> None:
    """Do all checks that need no key. They are cheaper than the signature, and so come first."""
    c = u.claims
    if _jwk.canonical(u.header.alg) not in {_jwk.canonical(a) for a in p.algs}:
        raise TokenError("algorithm", "the signature algorithm of the token is not accepted here")
    if u.header.typ not in p.types:
        raise TokenError("type", "this type of token is not accepted here")
    if p.issuer is not None and c.issuer != p.issuer:
        raise TokenError("issuer", "the issuer of the token is not the expected one")
    if p.audience is not None and p.audience not in c.audience:
        raise TokenError("audience", "the token is meant for another audience")
    if p.audience is not None and len(c.audience) != 1:
        raise TokenError("audience", "the token has more than one audience")
    if c.expiry is None and p.need_expiry:
        raise TokenError("expired", "the token has no expiry")
    if c.expiry is not None and now >= c.expiry + p.leeway:
        raise TokenError("expired", "the token has expired")
    for start in (c.not_before, c.issued_at):
        if start is not None and now + p.leeway < start:
            raise TokenError("not_yet_valid", "the token is not valid yet; check the clock of its issuer")
    if c.expiry is not None:
        begin = next((t for t in (c.issued_at, c.not_before) if t is not None), now)
        if not 0 < c.expiry - begin <= _MAX_LIFETIME:
            raise TokenError("lifetime", "the lifetime of the token is not accepted; ask for a shorter one")


def verify(u: Unverified, p: Profile, find: Callable[[Header], _jwk.Key], now: float) -> Claims:
    """Check a parsed token against the profile and verify its signature. Only kid and alg may influence find."""
    check(u, p, now)
    key = find(u.header)
    if not key.allows(u.header.alg):
        raise TokenError("algorithm", "the signature algorithm of the token does not suit its key")
    if not _jwk.verify(key, u.header.alg, u.signing_input, u.signature):
        raise TokenError("signature", "the signature of the token is not valid")
    return u.claims


SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def sign(key: SigningKey, header: dict[str, Any], claims: dict[str, Any]) -> str:
    """Return a compact JWS by a P-256 or an Ed25519 key. header gets alg."""
    is_ec = isinstance(key, ec.EllipticCurvePrivateKey)
    head = {"alg": "ES256" if is_ec else "EdDSA", **header}
    parts = [b64url(json.dumps(part, separators=(",", ":")).encode()) for part in (head, claims)]
    signing_input = ".".join(parts).encode("ascii")
    if isinstance(key, ec.EllipticCurvePrivateKey):
        r, s = decode_dss_signature(key.sign(signing_input, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    else:
        signature = key.sign(signing_input)
    return ".".join([*parts, b64url(signature)])

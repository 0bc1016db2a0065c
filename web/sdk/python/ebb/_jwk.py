"""Public keys as JWK (RFC 7517), and signatures by them (RFC 7518, RFC 8037)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ._strict import Malformed, Members, b64url, b64url_decode, decode_object, look_alike

PublicKey: TypeAlias = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey

_CURVES: dict[str, tuple[ec.EllipticCurve, int, str]] = {
    "P-256": (ec.SECP256R1(), 32, "ES256"),
    "P-384": (ec.SECP384R1(), 48, "ES384"),
    "P-521": (ec.SECP521R1(), 66, "ES512"),
}
_HASHES: dict[str, hashes.HashAlgorithm] = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
_EDDSA = ("EdDSA", "Ed25519")
_RSA = ("RS256", "PS256", "RS384", "PS384", "RS512", "PS512")

# ALGS are the algorithms that this package verifies. "none" and HMAC are not among them.
ALGS = frozenset({"ES256", "ES384", "ES512", *_EDDSA, *_RSA})

_NAMES = (
    "kty", "crv", "x", "y", "n", "e", "d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv", "kid", "alg", "use", "key_ops",
)  # fmt: skip
_PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv")

_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 8192
_MAX_JWKS, _MAX_KEYS = 256 << 10, 100

# The field of edwards25519, and the y coordinates of all points whose order divides 8.
_P = 2**255 - 19
_Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset({0, 1, _P - 1, _Y8, _P - _Y8})


class PrivateMembers(Malformed):
    """The JWK has private or symmetric members."""


def canonical(alg: str) -> str:
    """Return EdDSA for Ed25519, its fully specified name (RFC 9864), and every other name unchanged."""
    return "EdDSA" if alg == "Ed25519" else alg


@dataclass(frozen=True)
class Key:
    """A public key with the algorithms that it may be used with."""

    public: PublicKey
    algs: tuple[str, ...]
    kid: str = ""

    def allows(self, alg: str) -> bool:
        return canonical(alg) in {canonical(a) for a in self.algs}

    def thumbprint(self) -> str:
        """Return the RFC 7638 thumbprint with SHA-256, the jkt of RFC 9449."""
        return thumbprint(self.public)


def valid_kid(kid: object) -> bool:
    """Report whether kid is 1 to 256 printable ASCII characters."""
    return isinstance(kid, str) and 0 < len(kid) <= 256 and all(" " <= c <= "~" for c in kid)


def public_members(key: PublicKey) -> dict[str, str]:
    """Return the required members of the JWK, sorted by name (RFC 7638 section 3)."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        crv, size = next((name, n) for name, (curve, n, _) in _CURVES.items() if curve.name == key.curve.name)
        numbers = key.public_numbers()
        x, y = (b64url(v.to_bytes(size, "big")) for v in (numbers.x, numbers.y))
        return {"crv": crv, "kty": "EC", "x": x, "y": y}
    if isinstance(key, ed25519.Ed25519PublicKey):
        return {"crv": "Ed25519", "kty": "OKP", "x": b64url(key.public_bytes(Encoding.Raw, PublicFormat.Raw))}
    rsa_numbers = key.public_numbers()
    e, n = (b64url(v.to_bytes((v.bit_length() + 7) // 8, "big")) for v in (rsa_numbers.e, rsa_numbers.n))
    return {"e": e, "kty": "RSA", "n": n}


def thumbprint(key: PublicKey) -> str:
    """Return the RFC 7638 thumbprint of a public key with SHA-256, base64url without padding."""
    text = "{" + ",".join(f'"{name}":"{value}"' for name, value in public_members(key).items()) + "}"
    return b64url(hashlib.sha256(text.encode("ascii")).digest())


def parse_jwk(m: Members) -> Key:
    """Return the public signature key in the members of a JWK.

    Private and symmetric keys, weak RSA keys, points that are not on their curve, Ed25519 keys of small order, and
    keys for other operations than signatures are refused.
    """
    if look_alike(m, _NAMES):
        raise Malformed("the JWK has look-alike members")
    if any(name in m for name in _PRIVATE):
        raise PrivateMembers("the JWK has private or symmetric members")
    key = _public(m)
    if "kid" in m:
        if not valid_kid(m["kid"]):
            raise Malformed("the kid of the JWK is not 1 to 256 printable characters")
        key = replace(key, kid=m["kid"])
    ops = m.get("key_ops", ["verify"])
    if m.get("use", "sig") != "sig" or not isinstance(ops, list) or "verify" not in ops:
        raise Malformed("the JWK is not for verifying signatures")
    if not all(isinstance(op, str) for op in ops):
        raise Malformed("key_ops of the JWK is not an array of strings")
    if "alg" in m:
        alg = m["alg"]
        if not isinstance(alg, str) or not key.allows(alg):
            raise Malformed("the JWK has an alg that its key type does not support")
        key = replace(key, algs=tuple(a for a in key.algs if canonical(a) == canonical(alg)))
    return key


def _public(m: Members) -> Key:
    kty, crv = m.get("kty"), m.get("crv")
    try:
        if kty == "EC" and isinstance(crv, str) and crv in _CURVES:
            curve, size, alg = _CURVES[crv]
            x, y = _octets(m, "x"), _octets(m, "y")
            if len(x) == size and len(y) == size:
                point = b"\x04" + x + y
                return Key(ec.EllipticCurvePublicKey.from_encoded_point(curve, point), (alg,))
        if kty == "OKP" and crv == "Ed25519":
            raw = _octets(m, "x")
            if _strong(raw):
                return Key(ed25519.Ed25519PublicKey.from_public_bytes(raw), _EDDSA)
        if kty == "RSA":
            n, e = _octets(m, "n"), _octets(m, "e")
            # Leading zeros would give one key several encodings (RFC 7518 section 2).
            if n[:1] not in (b"", b"\0") and e[:1] not in (b"", b"\0") and len(e) <= 4:
                return _rsa(int.from_bytes(n, "big"), int.from_bytes(e, "big"))
    except ValueError:
        pass
    raise Malformed("the public key is not P-256, P-384, P-521, Ed25519 or RSA of 2048 to 8192 bits")


def _rsa(n: int, e: int) -> Key:
    if not (_MIN_RSA_BITS <= n.bit_length() <= _MAX_RSA_BITS and n & 1 and e & 1 and 3 <= e < 1 << 31):
        raise Malformed("the RSA key is not of 2048 to 8192 bits")
    return Key(rsa.RSAPublicNumbers(e, n).public_key(), _RSA)


def _octets(m: Members, name: str) -> bytes:
    value = m.get(name)
    if not isinstance(value, str) or len(value) > 2 * _MAX_RSA_BITS // 8:
        raise Malformed("the JWK lacks a member")
    return b64url_decode(value)


def _strong(raw: bytes) -> bool:
    """Report whether raw is a canonical Ed25519 key that is not of small order (RFC 8032 section 5.1.3).

    For a key of small order, a signature can be made without a private key.
    """
    y = int.from_bytes(raw, "little") & ~(1 << 255)
    return len(raw) == 32 and y < _P and y not in _SMALL_ORDER


def verify(key: Key, alg: str, signing_input: bytes, signature: bytes) -> bool:
    """Report whether signature is one of the key by the algorithm. The algorithm must belong to the key."""
    if not key.allows(alg):
        return False
    public = key.public
    try:
        if isinstance(public, ec.EllipticCurvePublicKey):
            half = (public.curve.key_size + 7) // 8
            if len(signature) != 2 * half:  # such as DER instead of r || s (RFC 7518 section 3.4)
                return False
            r, s = int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
            public.verify(encode_dss_signature(r, s), signing_input, ec.ECDSA(_HASHES[alg[2:]]))
        elif isinstance(public, ed25519.Ed25519PublicKey):
            public.verify(signature, signing_input)
        else:
            digest = _HASHES[alg[2:]]
            scheme: padding.AsymmetricPadding = padding.PKCS1v15()
            if alg.startswith("PS"):  # the salt is as long as the hash (RFC 7518 section 3.5)
                scheme = padding.PSS(mgf=padding.MGF1(digest), salt_length=digest.digest_size)
            public.verify(signature, signing_input, scheme, digest)
    except (InvalidSignature, ValueError):
        return False
    return True


def parse_jwks(raw: bytes) -> tuple[Key, ...]:
    """Return the keys of a JWK Set (RFC 7517 section 5).

    Keys that parse_jwk refuses are left out, as the RFC requires. A private or symmetric key makes the whole set
    invalid, because its publisher has disclosed a secret. Two keys with one kid are an error.
    """
    if len(raw) > _MAX_JWKS:
        raise Malformed("the JWK set is larger than 256 KiB")
    m = decode_object(raw, depth=6, members=32 * _MAX_KEYS)
    items = m.get("keys")
    if look_alike(m, ("keys",)) or not isinstance(items, list) or len(items) > _MAX_KEYS:
        raise Malformed("the JWK set has no array of at most 100 keys")
    keys: list[Key] = []
    for item in items:
        try:
            keys.append(parse_jwk(item if isinstance(item, dict) else {}))
        except PrivateMembers:
            raise
        except Malformed:
            continue
    kids = [key.kid for key in keys if key.kid]
    if len(kids) != len(set(kids)):
        raise Malformed("two keys of the set have the same kid")
    return tuple(keys)


def find_keys(keys: tuple[Key, ...], alg: str, kid: str) -> list[Key]:
    """Return the keys that fit a header. kid "" fits every key; a token is only verified if exactly one fits."""
    return [key for key in keys if key.allows(alg) and kid in ("", key.kid)]

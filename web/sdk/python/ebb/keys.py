"""Private keys of sandboxes, runners and resource servers: P-256 or Ed25519, in files of mode 0600."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from typing import TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from ._jwk import public_members, thumbprint
from ._strict import Malformed, b64url_decode
from .errors import UsageError

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_MAX_FILE = 64 << 10


def new_key(alg: str = "ES256") -> PrivateKey:
    """Generate a key: ES256 or EdDSA."""
    if alg == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if alg in ("EdDSA", "Ed25519"):
        return ed25519.Ed25519PrivateKey.generate()
    raise UsageError(f"cannot generate a key for {alg!r}", "choose ES256 or EdDSA")


def save_key(path: str | os.PathLike[str], key: PrivateKey) -> None:
    """Write a key as PKCS#8 PEM to a new file of mode 0600. An existing file raises FileExistsError."""
    pem = _accepted(key).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    # The file is complete before it gets its name, so that another process never reads a part.
    fd, temporary = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)))  # of mode 0600
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    finally:
        os.unlink(temporary)


def load_key(path: str | os.PathLike[str]) -> PrivateKey:
    """Read a private key: PKCS#8 PEM or a private JWK. A file that others can access is refused."""
    with open(path, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if os.name == "posix" and (not stat.S_ISREG(mode) or mode & 0o077):
            raise UsageError(f"the key file {os.fspath(path)!r} can be accessed by others", f"chmod 600 {os.fspath(path)}")
        text = file.read(_MAX_FILE)
    return parse_key(text)


def load_or_create_key(path: str | os.PathLike[str], alg: str = "ES256") -> PrivateKey:
    """Return the key of a file, which is created with a new key when it does not exist."""
    try:
        return load_key(path)
    except FileNotFoundError:
        key = new_key(alg)
        try:
            save_key(path, key)
        except FileExistsError:  # another process was faster
            return load_key(path)
        return key


def parse_key(text: bytes) -> PrivateKey:
    """Parse a key as load_key does, from memory. Errors never quote the key."""
    if text.lstrip().startswith(b"{"):
        return _parse_jwk(text)
    try:
        key: object = load_pem_private_key(text[max(text.find(b"-----BEGIN"), 0) :], password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if key is None:  # raised here, so that no traceback shows an error about the key's bytes
        raise UsageError("the key is neither PKCS#8 PEM nor a JWK", "convert it with: openssl pkcs8 -topk8 -nocrypt")
    return _accepted(key)


def _accepted(key: object) -> PrivateKey:
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key
    raise UsageError("the key is neither P-256 nor Ed25519", "make one with new_key()")


def _parse_jwk(text: bytes) -> PrivateKey:
    try:
        jwk = json.loads(text)
        d = b64url_decode(jwk["d"])
        if len(d) != 32:
            raise Malformed("not 32 bytes")
        key: PrivateKey
        if (jwk["kty"], jwk["crv"]) == ("EC", "P-256"):
            key = ec.derive_private_key(int.from_bytes(d, "big"), ec.SECP256R1())
        elif (jwk["kty"], jwk["crv"]) == ("OKP", "Ed25519"):
            key = ed25519.Ed25519PrivateKey.from_private_bytes(d)
        else:
            raise Malformed("another type of key")
        # A signature by a key with a wrong public half could not be verified.
        if any(jwk[name] != value for name, value in public_members(key.public_key()).items()):
            raise Malformed("the public key does not belong to the private key")
    except (ValueError, KeyError, TypeError):
        pass
    else:
        return key
    raise UsageError("the JWK is not a private P-256 or Ed25519 key", "make one with new_key() and save_key()")


def jkt(key: PrivateKey) -> str:
    """Return the RFC 7638 thumbprint of the public key, which ebb's tokens and audit log name."""
    return thumbprint(key.public_key())


def public_jwk(key: PrivateKey) -> str:
    """Return the public key as a JWK with its thumbprint as kid, for `keys` of a principal in ebb's configuration."""
    return json.dumps({**public_members(key.public_key()), "kid": jkt(key), "use": "sig"}, sort_keys=True)

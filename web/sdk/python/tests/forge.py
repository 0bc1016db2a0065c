"""Tokens and proofs of a test's own issuer and sandbox, also invalid ones."""

from __future__ import annotations

import json
import secrets
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from ebb import jkt, new_key
from ebb._jwk import public_members
from ebb._strict import b64url

ISSUER = "https://ebb.test"
RESOURCE = "https://orders.test/api"


def signed(key: Any, header: Any, payload: Any, salt: int = 32) -> str:
    """Sign header and payload, which are bytes or values, by the algorithm that the header names."""
    parts = [p if isinstance(p, bytes) else json.dumps(p).encode() for p in (header, payload)]
    text = ".".join(b64url(p) for p in parts).encode()
    alg = header["alg"] if isinstance(header, dict) else "ES256"
    if isinstance(key, ed25519.Ed25519PrivateKey):
        signature = key.sign(text)
    elif isinstance(key, rsa.RSAPrivateKey):
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), salt)
        signature = key.sign(text, pss if alg.startswith("PS") else padding.PKCS1v15(), hashes.SHA256())
    else:
        size = (key.curve.key_size + 7) // 8
        digest = hashes.SHA256() if size == 32 else hashes.SHA384()
        r, s = decode_dss_signature(key.sign(text, ec.ECDSA(digest)))
        signature = r.to_bytes(size, "big") + s.to_bytes(size, "big")
    return text.decode() + "." + b64url(signature)


class Forge:
    """An issuer with one key, k1, and a sandbox with one key. All times are relative to now."""

    def __init__(self, now: float) -> None:
        self.now = int(now)
        self.issuer, self.holder = new_key(), new_key()

    def jwks(self) -> dict[str, Any]:
        return {"keys": [{**public_members(self.issuer.public_key()), "kid": "k1", "use": "sig", "alg": "ES256"}]}

    def claims(self, **change: Any) -> dict[str, Any]:
        claims = {
            "iss": ISSUER, "aud": RESOURCE, "sub": "ann", "client_id": "sbx_1", "jti": "lse_" + secrets.token_hex(4),
            "iat": self.now, "exp": self.now + 600, "scope": "orders:eu/*:read", "cnf": {"jkt": jkt(self.holder)},
            ISSUER + "/claims/task_id": "tsk_1", "txn": "txn_1", **change,
        }  # fmt: skip
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, **change: Any) -> str:
        return signed(self.issuer, {"alg": "ES256", "typ": "at+jwt", "kid": "k1"}, self.claims(**change))

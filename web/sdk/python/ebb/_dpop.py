"""DPoP proofs (RFC 9449): making one for a request, and checking one of a request."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any

from . import _jws
from ._jwk import public_members
from ._strict import b64url
from .errors import UsageError
from .keys import PrivateKey

DEFAULT_ALGS = ("ES256", "EdDSA", "Ed25519")
_LIMITS = _jws.Limits(size=8 << 10, depth=8, members=64, embedded_key=True)
# Clocks of earlier and later processes of one server may differ by this many seconds.
_APART = 60.0


class ProofError(Exception):
    """The proof is refused. sentence contains nothing from the proof."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


@dataclass(frozen=True)
class Proof:
    """An accepted proof."""

    jkt: str  # the thumbprint of its key
    replay_key: str  # the hash of jkt, htu and jti: the same for both valid forms of an ECDSA signature
    begin: float  # the earliest time at which a replica accepts the proof
    until: float  # from then on every replica refuses it, so that replay_key may be forgotten
    nonce: str  # "" = none


@dataclass(frozen=True)
class Memory:
    """The time since which a server remembers used proofs. began None means always."""

    began: float | None
    nonce: str  # random, made when the memory began: a proof that contains it was made after that

    def covers(self, proof: Proof) -> bool:
        """Report whether the memory would contain an earlier use of the proof.

        The client chooses iat, which may be ahead, so that only the nonce shows that such a proof is new.
        """
        if self.began is None or proof.begin > self.began + _APART:
            return True
        return self.nonce != "" and hmac.compare_digest(proof.nonce, self.nonce)

    def young(self, now: float, window: float) -> bool:
        """Report whether proofs that arrive at now may need the nonce."""
        return self.began is not None and now < self.began + 2 * _APART + 2 * window


def new_proof(key: PrivateKey, method: str, url: str, now: float, access_token: str = "", nonce: str = "") -> str:
    """Return a proof for one request. Query and fragment of the URL are left out (RFC 9449 section 4.2)."""
    htu = normal_htu(url)
    if htu is None:
        raise UsageError("the URL of the request is not an absolute http or https URL", "write it like https://host/path")
    claims: dict[str, Any] = {"jti": secrets.token_urlsafe(18), "htm": method, "htu": htu, "iat": int(now)}
    if access_token:
        claims["ath"] = access_token_hash(access_token)
    if nonce:
        claims["nonce"] = nonce
    return _jws.sign(key, {"typ": "dpop+jwt", "jwk": public_members(key.public_key())}, claims)


def access_token_hash(token: str) -> str:
    """Return the ath of an access token (RFC 9449 section 4.2)."""
    return b64url(hashlib.sha256(token.encode()).digest())


def check(
    header: list[str], method: str, url: str, access_token: str, now: float, algs: tuple[str, ...], window: float
) -> Proof:
    """Check the values of the DPoP header of one request with an access token (RFC 9449 section 4.3).

    url is the public URL of the resource, never from the header Host. The caller must store replay_key until until,
    and compare jkt with the key of the access token.
    """
    if len(header) != 1:
        raise ProofError("send exactly one DPoP header" if header else "a DPoP proof is required")
    malformed = ProofError("the DPoP proof is not a well-formed, signed proof")
    try:
        u = _jws.parse(header[0], _LIMITS)
    except _jws.TokenError:
        raise malformed from None
    jti, issued, nonce = _claims(u.claims, method, url, access_token, now, window)
    key = u.header.key
    if key is None:
        raise ProofError("the DPoP proof does not carry its public key")
    own = key  # never None, also in the function below
    profile = _jws.Profile(("dpop+jwt",), algs, None, None, need_expiry=False, leeway=window)
    try:
        _jws.verify(u, profile, lambda _: own, now)
    except _jws.TokenError:
        raise malformed from None
    jkt = own.thumbprint()
    digest = hashlib.sha256("\0".join((jkt, normal_htu(url) or "", jti)).encode()).digest()
    return Proof(jkt, b64url(digest), issued - window, issued + window + 1, nonce)


def _claims(
    c: _jws.Claims, method: str, url: str, access_token: str, now: float, window: float
) -> tuple[str, float, str]:
    """Compare the claims with the request. It is much cheaper than the signature, and so comes first."""
    htm, htu = c.text("htm"), c.text("htu")
    if htm is None or htu is None or not c.jti or c.issued_at is None:
        raise ProofError("the DPoP proof lacks jti, htm, htu or iat")
    if htm != method or not htm:
        raise ProofError("the DPoP proof is for another method")
    want = normal_htu(url)
    if want is None or normal_htu(htu) != want:
        raise ProofError("the DPoP proof is for another URL")
    if abs(now - c.issued_at) > window:
        raise ProofError("the DPoP proof is too old or from the future; check the clock")
    ath = c.text("ath") or ""
    if not hmac.compare_digest(ath.encode(), access_token_hash(access_token).encode()):
        raise ProofError("the DPoP proof is for another access token")
    nonce = ""
    if "nonce" in c.members:
        nonce = c.text("nonce") or ""
        if not valid_nonce(nonce):
            raise ProofError("the nonce of the DPoP proof has characters that are not allowed in nonces")
    return c.jti, c.issued_at, nonce


def valid_nonce(nonce: str) -> bool:
    """Report whether nonce is 1*NQCHAR (RFC 9449 section 8.1) of at most 512 characters."""
    return 0 < len(nonce) <= 512 and all("!" <= c <= "~" and c not in '"\\' for c in nonce)


def normal_htu(raw: str) -> str | None:
    """Return the form in which htu is compared (RFC 9449 section 4.3, step 9); None = no absolute http(s) URL.

    Scheme and host become lower case; the default port, query and fragment are dropped; an empty path becomes "/".
    The rest of the path is unchanged: "%2e" is not ".", and "//" is not "/".
    """
    if len(raw) > 4096 or not all("!" <= c <= "~" and c != "\\" for c in raw):
        return None
    scheme, found, rest = raw.partition("#")[0].partition("?")[0].partition("://")
    scheme = scheme.lower()
    if not found or scheme not in ("http", "https"):
        return None
    host, _, path = rest.partition("/")
    port = ":80" if scheme == "http" else ":443"
    host = host.lower().removesuffix(port)
    if not host or "@" in host or host.endswith(port):
        return None
    return f"{scheme}://{host}/{path}"

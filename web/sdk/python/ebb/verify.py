"""The verifier of a resource server: it accepts ebb's access tokens offline and follows ebb's revocation feed.

    verifier = Verifier(
        issuer="https://ebb.example.com",
        resource="https://orders.example.com",
        client_id="orders-api",
        key=load_key("orders.key"),
        require_scopes=lambda request: "orders:eu/42:read",
    )
    application = WSGIMiddleware(application, verifier)   # of ebb.wsgi, or ASGIMiddleware of ebb.asgi

The steps for one request, the cheapest first: the token from the header Authorization only; its form, claims and
signature (RFC 9068); the DPoP proof (RFC 9449) or client certificate (RFC 8705); one use of each proof; the
revoked set and its age; the scopes.

A revoked token is refused at most max_staleness after ebb has acknowledged its revocation. When the feed or the keys
cannot be read for that long, every request is refused with 503.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import unquote_plus, urlsplit

from . import _dpop, _jwk, _jws
from ._dpop import Memory, Proof
from ._http import base_url, check_url
from ._issuer import Feed, Follower, HTTPFeed, KeySource, Unavailable, log
from ._peer import Peer
from ._replay import BusyKey, MemoryReplay, Replay
from ._revoked import LEEWAY, RevokedSet
from ._strict import b64url
from .errors import UsageError
from .keys import PrivateKey, new_key
from .scopes import ScopeError, ScopeSet

__all__ = ["BusyKey", "Memory", "MemoryReplay", "Proof", "Refusal", "Replay", "Request", "Token", "Verifier"]

_MAX_TOKEN = 8 << 10
_NEEDLESS = re.compile(r"%(2[DEde]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])")  # encoded unreserved characters
_WELL_KNOWN = "/.well-known/oauth-protected-resource"  # RFC 9728 section 3
_TOKEN68 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/")


@dataclass(frozen=True)
class Request:
    """The parts of a request that the verifier reads."""

    method: str
    path: str  # percent-encoded, as the client sent it, without query
    query: str
    authorization: tuple[str, ...] = field(repr=False)  # the values of the header, of which one is allowed
    dpop: tuple[str, ...] = field(repr=False)
    raw: object = field(default=None, repr=False)  # the environ of WSGI, the scope of ASGI: it has the token, too


@dataclass(frozen=True)
class Token:
    """A verified access token."""

    lease_id: str  # jti: its id in ebb's audit log
    task_id: str  # it ends with this task
    ancestors: tuple[str, ...]  # and with each of these tasks, which delegated to it
    parents: tuple[str, ...]  # and with each of these leases, from which it was narrowed
    subject: str  # the owner of the task
    client_id: str  # the sandbox that holds it
    scope: ScopeSet
    jkt: str  # bound to this DPoP key, or ""
    x5t: str  # bound to this client certificate, or ""
    txn: str  # joins request, approval, token and use; "" without one
    issued_at: float
    expires_at: float
    payload: bytes = field(repr=False)  # all claims as JSON


class Refusal(Exception):
    """The reason for refusing a request. sentence contains nothing from the request."""

    def __init__(
        self, status: int, code: str, sentence: str, *, scope: str = "", retry_after: int = 0, bearer: bool = False
    ) -> None:
        super().__init__(f"{status} {code}: {sentence}")
        self.status = status
        self.code = code  # of the challenge (RFC 6750 section 3.1, RFC 9449 section 7.1), or ""
        self.sentence = sentence
        self.scope = scope  # with insufficient_scope: the required scopes
        self.retry_after = retry_after
        self.bearer = bearer  # the challenge uses the scheme Bearer


def _invalid_token(sentence: str) -> Refusal:
    return Refusal(401, "invalid_token", sentence)


def _doubt(sentence: str) -> Refusal:
    """Return the refusal when the token can be neither accepted nor rejected."""
    return Refusal(503, "", sentence, retry_after=2)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


class Verifier:
    """Verifies requests. It is safe for concurrent use. Without start, or before it has read the feed, all get 503."""

    def __init__(
        self,
        *,
        issuer: str,
        resource: str,
        client_id: str = "",
        key: PrivateKey | None = None,
        require_scopes: Callable[[Request], str] | None = None,
        any_scope: bool = False,
        kid: str = "",
        issuer_url: str = "",
        public_url: str = "",
        scopes: str = "",
        max_staleness: float = 10.0,
        max_revoked: int = 200_000,
        algs: tuple[str, ...] = ("ES256", "EdDSA"),
        dpop_algs: tuple[str, ...] = _dpop.DEFAULT_ALGS,
        dpop_window: float = 60.0,
        keys_every: float = 300.0,
        replay: Replay | None = None,
        client_cert: Callable[[Request], bytes | None] | None = None,
        feed: Feed | None = None,
        ssl_context: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the configuration. No request is made before start.

        issuer is ebb's public base URL, as in the iss of its tokens; issuer_url the address to connect to when it
        differs. resource is the only aud that is accepted. public_url is this server's base URL for clients, which
        proofs must contain; "" = scheme and host of resource. The header Host is never used. client_id and key
        authenticate this server at the feed, as a principal with the role resource_server.

        require_scopes returns the scopes that a request needs; "" denies. any_scope accepts every valid token.
        client_cert returns the DER of the client certificate that the server or a trusted proxy authenticated.
        scopes are published to clients.
        """
        for name, url in (("issuer", issuer), ("issuer_url", issuer_url or issuer)):
            base_url(name, url)
        check_url(resource)
        if "#" in resource:
            raise UsageError("resource must have no fragment (RFC 8707 section 2)")
        if (require_scopes is None) != any_scope:
            raise UsageError("exactly one of require_scopes and any_scope is required")
        if feed is None and not (client_id and key):
            raise UsageError("the revocation feed needs client_id and key", "register a principal with the role resource_server")
        if max_staleness < 3 or max_revoked < 1 or dpop_window <= 0 or keys_every <= 0:
            raise UsageError("max_staleness must be at least 3 seconds, and no limit negative or 0")
        for alg in (*algs, *dpop_algs):
            if alg not in _jwk.ALGS:
                raise UsageError(f"the algorithm {alg!r} is not supported", "supported: " + ", ".join(sorted(_jwk.ALGS)))
        self._issuer, self._resource, self._now = issuer, resource, now
        self._public = base_url("public_url", public_url) if public_url else _origin(resource)
        self._require, self._scopes = require_scopes, str(ScopeSet(scopes))
        self._staleness, self._keys_every = max_staleness, keys_every
        self._profile = _jws.Profile(("at+jwt",), algs, issuer, resource, leeway=LEEWAY)
        self._dpop_algs, self._window = dpop_algs, dpop_window
        self._replay: Replay = replay if replay is not None else MemoryReplay(now=now, monotonic=monotonic)
        self._client_cert = client_cert
        peer = Peer(issuer, key or new_key(), issuer_url, ssl_context=ssl_context, now=now)
        self._keys = KeySource(peer.base + "/.well-known/jwks.json", peer.transport, now)
        self._revoked = RevokedSet(max_revoked, now, monotonic)
        self._follower = Follower(feed or HTTPFeed(peer, client_id, kid, resource), self._revoked, max_staleness)
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None
        self._process = 0  # that the threads run in; a fork does not copy them
        self._read = threading.Event()

    def start(self, wait: float = 3.0) -> Verifier:
        """Start the two threads that keep the revoked set and the keys current, in this process.

        It waits up to wait seconds until they have been read. A second call does nothing. The threads are daemons, and
        end with close.
        """
        with self._lock:
            if self._stop is not None and self._process == os.getpid():
                return self
            self._stop, self._process = threading.Event(), os.getpid()
            for name, step in (("feed", self._follower.step), ("keys", self._refresh_keys)):
                threading.Thread(target=self._loop, args=(self._stop, step), name=f"ebb-{name}", daemon=True).start()
        self._read.wait(wait)
        return self

    def _loop(self, stop: threading.Event, step: Callable[[], float]) -> None:
        pause = 0.0
        while not stop.wait(pause):
            pause = step()
            if self.ready():
                self._read.set()

    def close(self) -> None:
        """Stop the threads. Every request is refused once the revoked set is too old."""
        with self._lock:
            if self._stop is not None:
                self._stop.set()
                self._stop = None

    def __enter__(self) -> Verifier:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def ready(self) -> bool:
        """Report whether requests can be accepted: keys and feed have been read within the staleness."""
        return self._keys.loaded() and self._revoked.known(self._staleness)

    def _refresh_keys(self) -> float:
        error = self._keys.refresh(1.0)
        if error is not None:
            log.warning("keys of the issuer: %s", error)
        if not self._keys.loaded():
            return 1.0
        return self._keys_every if error is None else min(self._keys_every, 10.0)

    def verify(self, request: Request) -> Token:
        """Return the token of a request, or raise Refusal. It may wait up to 3 s for new keys of the issuer."""
        raw, dpop = _presented(request)
        token = self._token(raw)
        self._possession(request, raw, dpop, token)
        # As late as possible, so that revocations received while the proof was checked count.
        names = (token.task_id, token.lease_id, *token.ancestors, *token.parents)
        revoked = self._revoked.revoked(names, token.issued_at, self._staleness)
        if revoked is None:
            raise _doubt("The revocation state of the access token is not known at the moment. Try again in 2 s.")
        if revoked:
            raise _invalid_token("The access token was revoked or its task is complete.")
        self._covered(request, token, bearer=not dpop)
        return token

    def _token(self, raw: str) -> Token:
        now = self._now()
        try:
            u = _jws.parse(raw, _jws.Limits(size=_MAX_TOKEN))
            token = self._claims(_jws.verify(u, self._profile, self._keys.find, now))
        except _jws.TokenError as e:
            raise _invalid_token(_sentence(e.sentence)) from None
        except Unavailable as e:
            log.warning("keys of the issuer: %s", e.__cause__)
            raise _doubt("The keys of the issuer are not available at the moment. Try again in 2 s.") from None
        # The leeway applies to times in the future. No token is accepted after exp.
        if now >= token.expires_at:
            raise _invalid_token("The access token has expired.")
        return token

    def _claims(self, c: _jws.Claims) -> Token:
        """Require all claims of RFC 9068 section 2.2, one confirmation method (RFC 7800), and the task."""
        missing = _jws.TokenError("claims", "the access token lacks a claim that it must have")
        jkt, x5t = c.confirmation()
        own = {}
        for name in ("task_id", "ancestors", "parents"):
            claim = f"{self._issuer}/claims/{name}"
            value = c.text(claim)
            if value is None and claim in c.members:
                raise missing
            own[name] = value or ""
        scope = c.members.get("scope", "")
        try:
            permits = ScopeSet(scope) if isinstance(scope, str) else None
        except ScopeError:
            permits = None
        if permits is None or c.issued_at is None or c.expiry is None:
            raise missing
        if not all((c.jti, c.subject, c.client_id, own["task_id"], jkt or x5t)):
            raise missing
        return Token(
            c.jti, own["task_id"], tuple(own["ancestors"].split()), tuple(own["parents"].split()), c.subject,
            c.client_id, permits, jkt, x5t, c.text("txn") or "", c.issued_at, c.expiry, c.payload,
        )  # fmt: skip

    def _possession(self, request: Request, raw: str, dpop: bool, token: Token) -> None:
        """Refuse a request without proof of possession of the token's key."""
        if token.x5t:
            return self._certificate(request, dpop, token)
        if not dpop:
            raise _invalid_token("The access token is bound to a DPoP key: send it with the scheme DPoP and a proof.")
        url = self._public + request.path
        if request.path and not request.path.startswith("/"):  # it would continue the host name
            raise Refusal(401, "invalid_dpop_proof", "The target of the request is not a path.")
        try:
            proof = _dpop.check(
                list(request.dpop), request.method, url, raw, self._now(), self._dpop_algs, self._window
            )
        except _dpop.ProofError as e:
            raise Refusal(401, "invalid_dpop_proof", _sentence(e.sentence)) from None
        # Before the claim: an attacker must not use up a proof that the holder still needs.
        if not hmac.compare_digest(proof.jkt, token.jkt):
            raise _invalid_token("The access token is bound to another key than that of the DPoP proof.")
        unknown = _doubt("Replayed DPoP proofs cannot be detected at the moment. Try again in 2 s.")
        try:
            memory = self._replay.memory()
            covered = memory.covers(proof)
            first = covered and self._replay.claim(proof)
        except BusyKey:
            raise Refusal(429, "", "Too many requests with one key. Slow down.", retry_after=10) from None
        except Exception as e:
            log.warning("replay store: %r", e)
            raise unknown from None
        if not covered and not memory.nonce:
            raise unknown
        if not covered:
            raise Refusal(
                401, "use_dpop_nonce",
                "This server has just started or lost its list of used DPoP proofs. "
                "Make a new proof with the nonce of the DPoP-Nonce header.",
            )  # fmt: skip
        if not first:
            raise Refusal(401, "invalid_dpop_proof", "The DPoP proof was used before. Make a new one for each request.")
        return None

    def _certificate(self, request: Request, dpop: bool, token: Token) -> None:
        """Check a certificate-bound token (RFC 8705 section 3), which uses the scheme Bearer."""
        bound = "The access token is bound to "
        der = self._client_cert(request) if self._client_cert is not None else None
        if dpop:
            problem = bound + "a client certificate: send it with the scheme Bearer."
        elif not der:
            problem = bound + "a client certificate, and none was sent."
        elif not hmac.compare_digest(b64url(hashlib.sha256(der).digest()), token.x5t):
            problem = bound + "another client certificate."
        else:
            return
        raise Refusal(401, "invalid_token", problem, bearer=True)

    def _covered(self, request: Request, token: Token, bearer: bool) -> None:
        if self._require is None:
            return
        if _NEEDLESS.search(request.path):  # a framework routes by the decoded path
            raise Refusal(400, "invalid_request", "The path encodes characters that need no encoding (RFC 3986 section 2.3).")
        try:
            need = ScopeSet(self._require(request))
        except Exception as e:
            log.error("require_scopes: %r", e)
            raise Refusal(500, "", "The scopes that this request needs could not be determined.") from None
        if len(need) == 0 or not token.scope.covers(need):
            raise Refusal(
                403, "insufficient_scope", "The scope of the access token does not cover this request.",
                scope=str(need), bearer=bearer,
            )  # fmt: skip

    def nonce(self) -> str:
        """Return the nonce to send in the header DPoP-Nonce of every answer; "" = none."""
        try:
            memory = self._replay.memory()
        except Exception as e:
            log.warning("replay store: %r", e)
            return ""
        return memory.nonce if memory.young(self._now(), self._window) else ""

    def challenge(self, refusal: Refusal) -> str:
        """Return the value of WWW-Authenticate; "" for a status without a challenge."""
        if refusal.status not in (400, 401, 403):
            return ""
        scheme = "Bearer" if refusal.bearer else "DPoP"
        attributes = [("realm", self._resource)]
        if refusal.code:
            attributes += [("error", refusal.code), ("error_description", refusal.sentence)]
        attributes.append(("scope", self._scopes if refusal.status == 401 else refusal.scope))
        if not refusal.bearer:
            attributes.append(("algs", " ".join(self._dpop_algs)))
        attributes.append(("resource_metadata", _origin(self._resource) + self.metadata_path()))
        return scheme + " " + ", ".join(f'{name}="{value}"' for name, value in attributes if value)

    def answer(self, refusal: Refusal) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return status, headers and body (RFC 9457) for a refused request."""
        headers = [("Content-Type", "application/problem+json"), ("Cache-Control", "no-store")]
        for name, value in (
            ("WWW-Authenticate", self.challenge(refusal)),
            ("DPoP-Nonce", self.nonce()),
            ("Retry-After", str(refusal.retry_after) if refusal.retry_after else ""),
        ):
            if value:
                headers.append((name, value))
        title = HTTPStatus(refusal.status).phrase
        problem = {"type": "about:blank", "title": title, "status": refusal.status, "detail": refusal.sentence}
        return refusal.status, headers, json.dumps(problem).encode()

    def metadata_path(self) -> str:
        """Return the path of the metadata (RFC 9728 section 3.1)."""
        return _WELL_KNOWN + urlsplit(self._resource).path.rstrip("/")

    def metadata(self) -> bytes:
        """Return the protected resource metadata (RFC 9728 section 2), by which a client finds the issuer."""
        document = {
            "resource": self._resource,
            "authorization_servers": [self._issuer],
            **({"scopes_supported": self._scopes.split()} if self._scopes else {}),
            "bearer_methods_supported": ["header"],
            "dpop_signing_alg_values_supported": list(self._dpop_algs),
            "tls_client_certificate_bound_access_tokens": self._client_cert is not None,
        }
        return json.dumps(document).encode()


def _origin(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return scheme + "://" + rest.partition("/")[0].partition("?")[0]


def _presented(request: Request) -> tuple[str, bool]:
    """Return the token of the header Authorization, and whether its scheme is DPoP.

    It is not read from the query, which is logged (RFC 6750 section 2.3). Two headers are an error, because libraries
    disagree on which one counts (RFC 9449 section 7.2).
    """
    if any(unquote_plus(pair.partition("=")[0]) == "access_token" for pair in request.query.split("&")):
        raise Refusal(400, "invalid_request", "Send the access token in the Authorization header, never in the URL.")
    if not request.authorization:
        raise Refusal(401, "", "Send an access token.")
    if len(request.authorization) > 1:
        raise Refusal(400, "invalid_request", "Send one Authorization header.")
    scheme, _, token = request.authorization[0].partition(" ")
    token = token.strip(" ")
    if scheme.lower() not in ("dpop", "bearer"):
        raise Refusal(401, "", "Send an access token with the scheme DPoP.")
    body = token.rstrip("=")
    if not body or not _TOKEN68.issuperset(body):
        raise Refusal(400, "invalid_request", "The Authorization header is not one scheme and one token.")
    return token, scheme.lower() == "dpop"

"""Calls of ebb's API: proof, nonce, client authentication, and the errors of both parts of the API."""

from __future__ import annotations

import json
import re
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode

from . import _dpop, _jws
from ._http import Answer, Transport, base_url, loopback_url
from ._strict import shown, word
from .errors import Advice, BadAnswer, Pending, Problem, UsageError
from .keys import PrivateKey
from .scopes import ScopeError, ScopeSet

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_MAX_ANSWER, _MAX_SECONDS = 16 << 20, 7 * 24 * 3600


@dataclass(frozen=True)
class Call:
    """One request to ebb. form or document is its body."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    form: Mapping[str, str] | None = None
    document: Mapping[str, Any] | None = None
    token: str = ""
    scheme: str = "DPoP"
    wait: float = 0.0  # seconds that ebb may take beside the timeout


class Peer:
    """The connection settings of a client and the last nonces of ebb. It is safe for concurrent use."""

    def __init__(
        self,
        issuer: str,
        key: PrivateKey,
        url: str = "",
        timeout: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = base_url("issuer", issuer)
        self.base = base_url("url", url) if url else self.issuer
        self.key, self.timeout, self.now = key, timeout, now
        self.transport = Transport(ssl_context)
        self._lock = threading.Lock()
        self._nonces: dict[bool, str] = {}  # of /oauth2 and of the rest (RFC 9449 section 8.2)

    def send(self, call: Call) -> Answer:
        """Make the call, once more when ebb requires a nonce. An answer without success raises Problem."""
        slot = call.path.startswith("/oauth2/")
        for attempt in range(2):
            with self._lock:
                nonce = self._nonces.get(slot, "")
            answer = self._once(call, nonce)
            fresh = answer.header("DPoP-Nonce")
            if _dpop.valid_nonce(fresh):
                with self._lock:
                    self._nonces[slot] = fresh
            if 200 <= answer.status < 300:
                return answer
            problem = problem_of(answer, self.issuer, self.now())
            if problem.code != "use_dpop_nonce" or fresh in ("", nonce) or attempt == 1:
                break
        raise problem

    def json(self, call: Call) -> dict[str, Any]:
        """Make the call and return the JSON object of the answer."""
        answer = self.send(call)
        if answer.media_type() != "application/json":
            raise BadAnswer("the answer of ebb is not JSON")
        try:
            value = json.loads(answer.body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise BadAnswer("the answer of ebb cannot be parsed")
        return value

    def _once(self, call: Call, nonce: str) -> Answer:
        headers = {"Accept": "application/json", "User-Agent": "ebb-python"}
        body = None
        if call.form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            # Empty parameters are the same as absent ones (RFC 6749 section 3.2).
            body = urlencode({name: value for name, value in call.form.items() if value}).encode("ascii")
        elif call.document is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(call.document).encode("ascii")
        elif call.method == "POST":
            body = b""
        if call.token:
            headers["Authorization"] = f"{call.scheme} {call.token}"
        headers["DPoP"] = _dpop.new_proof(
            self.key, call.method, self.issuer + call.path, self.now(), call.token, nonce
        )
        query = "?" + urlencode(call.query) if call.query else ""
        url = self.base + call.path + query
        return self.transport.send(call.method, url, headers, body, self.timeout + call.wait, _MAX_ANSWER)

    def assertion(self, client_id: str, kid: str = "") -> dict[str, str]:
        """Return the parameters of private_key_jwt (RFC 7523 section 2.2). Each assertion is used once."""
        if not word(client_id):
            raise UsageError("the client id is empty or has characters that are not allowed in ids")
        now = int(self.now())
        claims = {
            "iss": client_id, "sub": client_id, "aud": self.issuer, "jti": secrets.token_urlsafe(18),
            "iat": now, "exp": now + 60,
        }  # fmt: skip
        header = {"typ": "client-authentication+jwt", **({"kid": kid} if kid else {})}
        return {
            "client_id": client_id,
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": _jws.sign(self.key, header, claims),
        }


def usable_token(answer: Mapping[str, Any]) -> bool:
    """Report whether a token answer has a token that can be sent or printed safely."""
    scope, kind, token = answer.get("scope", ""), answer.get("token_type"), answer.get("access_token")
    if seconds(answer.get("expires_in")) <= 0 or not isinstance(scope, str):
        return False
    if not all(" " <= c <= "~" and c not in '"\\' for c in scope):
        return False
    if kind == "N_A":  # RFC 8693 section 2.2.1: not usable in an Authorization header
        return isinstance(token, str) and token != "" and shown(token, len(token)) == token
    return kind in ("DPoP", "Bearer") and word(token)


class Principal:
    """Calls /v1 as a principal of ebb's configuration, with tokens that it renews. It is safe for concurrent use."""

    def __init__(self, peer: Peer, client_id: str, kid: str = "") -> None:
        self._peer, self._client_id, self._kid = peer, client_id, kid
        self._lock = threading.Lock()
        self._access, self._expires, self._ends_only = "", 0.0, False

    def json(self, call: Call) -> dict[str, Any]:
        """Make the call. If ebb refuses the token, repeat the call once with a new token.

        The refused call had no effect. ebb refuses a token with 401, or with 503 if the token can only end tasks.
        """
        token = self._token("")
        try:
            return self._peer.json(replace(call, token=token))
        except Problem as e:
            refused = e.status == 401 and e.code not in ("use_dpop_nonce", "invalid_dpop_proof")
            if not refused and not (e.status == 503 and self._ends_only):
                raise
        return self._peer.json(replace(call, token=self._token(token)))

    def _token(self, refused: str) -> str:
        """Return a token for /v1 other than refused."""
        with self._lock:
            if self._access == refused or self._peer.now() >= self._expires:
                self._renew()
            return self._access

    def _renew(self) -> None:
        now = self._peer.now()
        form = {
            "grant_type": "client_credentials", "resource": self._peer.issuer + "/v1",
            **self._peer.assertion(self._client_id, self._kid),
        }  # fmt: skip
        answer = self._peer.json(Call("POST", "/oauth2/token", form=form))
        if not usable_token(answer) or answer["token_type"] != "DPoP":
            raise BadAnswer("the answer of ebb contains no DPoP-bound token")
        # Renewed early, so that a token does not expire while a request is under way. A token with the scope "ends"
        # can only end tasks, because a store of ebb did not answer in time: the next call fetches a new one.
        self._ends_only = "ends" in str(answer.get("scope", "")).split()
        life = 0.0 if self._ends_only else seconds(answer["expires_in"])
        self._access, self._expires = answer["access_token"], now + life - min(30.0, life / 5)


def rfc3339(text: object) -> float:
    """Return the Unix time of an RFC 3339 text."""
    match = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BadAnswer("a time in the answer of ebb is not RFC 3339")
    try:
        whole = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00"))
        # Year 1 is Go's zero time, which timestamp() of some platforms does not accept.
        stamp = (whole - datetime.fromisoformat("1970-01-01T00:00:00+00:00")).total_seconds()
    except (ValueError, OverflowError):
        raise BadAnswer("a time in the answer of ebb is not RFC 3339") from None
    return stamp + float(match[2] or 0)


def path_id(value: str) -> str:
    """Return an id as one segment of a path."""
    if value in ("", ".", ".."):
        raise UsageError("the id is empty")
    return quote(value, safe="")


def seconds(value: object) -> float:
    """Return a number of an answer, between 0 and 7 days; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return 0.0
    return float(max(0, min(value, _MAX_SECONDS)))


def problem_of(answer: Answer, issuer: str, now: float) -> Problem:
    """Return the Problem of an answer without success: RFC 9457 of /v1, RFC 6749 section 5.2 of /oauth2."""
    retry = _retry_after(answer.header("Retry-After"), now)
    if 300 <= answer.status < 400:
        return Problem(answer.status, "not_ebb", "the server answered with a redirect, which is never followed")
    document: Any = None
    if answer.media_type() in ("application/json", "application/problem+json") and len(answer.body) <= 64 << 10:
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            pass
    if not isinstance(document, dict) or not isinstance(document.get("error", document.get("type")), str):
        if answer.status == 503:
            return Problem(503, "temporarily_unavailable", "a proxy cannot reach ebb", retry_after=retry)
        return Problem(answer.status, "not_ebb", f"the answer with status {answer.status} is not from ebb")
    oauth = "error" in document
    code = _kind(document["error"], answer.status) if oauth else document["type"].rpartition("/")[2]
    next_steps = document.get("next")
    return Problem(
        answer.status,
        shown(code, 64),
        shown(document.get("error_description" if oauth else "detail")) or f"ebb answered with status {answer.status}",
        tuple(shown(step) for step in next_steps[:5]) if isinstance(next_steps, list) else (),
        retry_after=retry,
        pending=_pending(document, issuer),
        advice=_advice(document.get("advice")),
        instance=shown(document.get("instance"), 128),
    )


def _kind(code: str, status: int) -> str:
    """Return the kind of an error code of /oauth2, where the registered code differs from the kind's name."""
    if status == 429 and code != "slow_down":
        return "too_many_requests"
    names = {"interaction_required": "approval_required", "unauthorized_client": "forbidden", "server_error": "internal"}
    return names.get(code, code)


def _pending(document: Mapping[str, Any], issuer: str) -> Pending | None:
    code = document.get("deferral_code")
    if not word(code):
        return None
    request = document.get("request_id")
    request = request if isinstance(request, str) and word(request) else ""
    # On loopback the console has a host name that is a secret.
    link = "" if not request or loopback_url(issuer) else f"{issuer}/requests/{path_id(request)}"
    return Pending(
        request, shown(document.get("match_code"), 32), link,
        seconds(document.get("expires_in")), seconds(document.get("interval")), str(code),
    )  # fmt: skip


def _advice(a: object) -> Advice | None:
    if not isinstance(a, dict):
        return None
    would_allow = shown(a.get("would_allow"), 40 << 10)
    try:
        ScopeSet(would_allow)  # programs use it as the next request, so it must be a scope
    except ScopeError:
        return None
    return Advice(
        shown(a.get("decision"), 64), shown(a.get("code"), 64), shown(a.get("note")), would_allow,
        seconds(a.get("retry_after_s")), a.get("do_not_retry_same") is True,
    )  # fmt: skip


def _retry_after(value: str, now: float) -> float:
    """Return the seconds of both forms of Retry-After (RFC 9110 section 10.2.3)."""
    if value.isascii() and value.strip().isdigit():
        return seconds(int(value[:10]))
    try:
        return seconds(parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0

"""The client of a sandbox: enrolment, credentials and their use."""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _dpop
from ._http import Answer, check_url, origin
from ._peer import Call, Peer, rfc3339, seconds, usable_token
from ._strict import word
from .errors import BadAnswer, NotDecided, Pending, Problem, Unreachable, UsageError
from .keys import PrivateKey

_TASK_TOKEN = "urn:ebb:params:oauth:token-type:task"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_MOST_ORIGINS = 1000
_DEFERRED = "urn:ietf:params:oauth:grant-type:deferred"
_POLL, _STEP, _LONGEST, _RETRY = 5.0, 5.0, 300.0, 2.0  # seconds; RFC 8628 section 3.5
_MAX_BODY = 16 << 20


@dataclass(frozen=True)
class Enrolment:
    """The identity of an enrolled sandbox. Keep task_token as secret as the key."""

    task_id: str
    client_id: str
    expires_at: float  # Unix time
    task_token: str = field(repr=False)


@dataclass(frozen=True)
class Credential:
    """An issued credential."""

    token: str = field(repr=False)
    type: str  # "DPoP" or "Bearer"; "N_A" when it is not an access token
    format: str  # the type of a token with type N_A
    expires_at: float  # Unix time
    scope: str  # as granted, which may be narrower than requested
    resource: str  # for which it was requested; "" = chosen by ebb
    lease_id: str  # its id in the audit log
    details: Sequence[Mapping[str, Any]] = ()


class Sandbox:
    """Requests credentials for one task. It is safe for concurrent use."""

    def __init__(
        self,
        issuer: str,
        key: PrivateKey,
        *,
        url: str = "",
        client_id: str = "",
        task_token: str = "",
        timeout: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """issuer is ebb's public base URL; url the address to connect to when it differs.

        client_id and task_token are those of an earlier enrolment with the same key. timeout is in seconds, for one
        call.
        """
        self._peer = Peer(issuer, key, url, timeout, ssl_context, now)
        self._sleep = sleep
        self._who = Enrolment("", client_id, 0.0, task_token)
        self._lock = threading.Lock()
        self._origins: dict[bytes, tuple[str, float]] = {}  # of credentials without a resource, by hash, until they expire
        self._nonces: dict[str, str] = {}  # of resource servers, by origin

    def enrol(self, ticket: str) -> Enrolment:
        """Redeem a ticket, which works once. token can be called afterwards."""
        return self._enrol({"ticket": ticket})

    def enrol_evidence(self, task_id: str, evidence: str = "", attestor: str = "") -> Enrolment:
        """Enrol with evidence of the environment, such as a JWT of an identity provider.

        evidence is "" when the connection itself is the evidence; attestor "" means the one that the runner registered.
        """
        body = {"task_id": task_id, "evidence": evidence, "attestor": attestor}
        return self._enrol({name: value for name, value in body.items() if value})

    def challenge(self, task_id: str, attestor: str = "") -> str:
        """Return the challenge that evidence of some attestors must answer. Enrol with the same key."""
        body = {"task_id": task_id, "attestor": attestor}
        answer = self._peer.json(Call("POST", "/v1/challenge", document={n: v for n, v in body.items() if v}))
        nonce = answer.get("nonce")
        if not isinstance(nonce, str) or not word(nonce):
            raise BadAnswer("the answer of ebb contains no challenge")
        return nonce

    def _enrol(self, body: dict[str, str]) -> Enrolment:
        a = self._peer.json(Call("POST", "/v1/enroll", document=body))
        if not all(word(a.get(name)) for name in ("task_token", "client_id", "task_id")) or a.get("token_type") != "DPoP":
            raise BadAnswer("the answer of ebb contains no task token")
        self._who = Enrolment(a["task_id"], a["client_id"], rfc3339(a.get("expires_at")), a["task_token"])
        return self._who

    def token(
        self,
        scope: str = "",
        *,
        resource: str = "",
        reason: str = "",
        tool: str = "",
        ttl: float = 0.0,
        details: Sequence[Mapping[str, Any]] = (),
        delivery: str = "",
        content: str = "",
        public_key: str = "",
        wait: bool = False,
        wait_timeout: float | None = None,
        pending: Callable[[Pending], None] | None = None,
    ) -> Credential:
        """Request one credential (RFC 8693), bound to this sandbox's key (RFC 9449).

        scope, or details (RFC 9396), names the permissions; reason is shown to approvers. Without wait, a request that
        a person must approve raises Problem with the code approval_required. With it, pending is called once and
        the call returns after the decision, or raises NotDecided after wait_timeout seconds. The same request made
        again, also after a restart, finds the same approval. content is the id ("cnt_...") that a refusal of the egress
        proxy names: the credential is then for that request alone.
        """
        if not scope and not details:
            raise UsageError("scope or details is required", "write it like orders:eu/42:read")
        form = {
            **self._authenticated(),
            "scope": scope,
            "resource": resource,
            "reason": reason,
            "tool": tool,
            "requested_expiry": str(max(int(ttl), 1)) if ttl > 0 else "",
            "authorization_details": json.dumps([{**d, "type": "ebb_credential"} for d in details]) if details else "",
            "delivery": delivery,
            "content": content,
            "public_key": public_key,
            "completion_mode": "deferred" if wait else "",
        }
        try:
            return self._ask(form, resource)
        except Problem as e:
            if e.code != "authorization_pending" or e.pending is None:
                raise
            waiting = e.pending
        if pending is not None:
            pending(waiting)
        return self.poll(waiting, resource=resource, public_key=public_key, wait_timeout=wait_timeout)

    def poll(
        self, pending: Pending, *, resource: str = "", public_key: str = "", wait_timeout: float | None = None
    ) -> Credential:
        """Wait for the decision on a request, at the interval that ebb requires.

        While ebb cannot be reached, it keeps trying until the request has expired or wait_timeout has passed.
        """
        begin = time.monotonic()
        # One interval of grace, so that ebb and not the local clock reports the expiry.
        interval = pending.interval or _POLL
        life = pending.expires_in + interval if pending.expires_in else float("inf")
        pause, trouble = interval, 0.0
        form = {"grant_type": _DEFERRED, "deferral_code": pending.code, "public_key": public_key}
        while True:
            if wait_timeout is not None and time.monotonic() - begin + pause > wait_timeout:
                raise NotDecided(pending)
            self._sleep(min(pause, _LONGEST))
            try:
                return self._ask(form, resource)
            except (Problem, Unreachable) as e:
                problem = e if isinstance(e, Problem) else None
                if time.monotonic() - begin > life:
                    raise
                if problem is not None and problem.code == "authorization_pending":
                    trouble = 0.0
                elif problem is not None and problem.code == "slow_down":
                    interval, trouble = interval + _STEP, 0.0
                    if problem.pending is not None:
                        interval = max(interval, problem.pending.interval)
                elif problem is None or _passing(problem):
                    trouble = min(max(2 * trouble, _RETRY), _LONGEST)
                else:
                    raise
                pause = max(interval, trouble, problem.retry_after if problem is not None else 0.0)

    def _ask(self, form: Mapping[str, str], resource: str) -> Credential:
        now = self._peer.now()
        a = self._peer.json(Call("POST", "/oauth2/token", form=form))
        if not usable_token(a):
            raise BadAnswer("the answer of ebb contains no token that this client can use")
        details = a.get("authorization_details")
        return Credential(
            a["access_token"], a["token_type"], str(a.get("issued_token_type", "")), now + seconds(a["expires_in"]),
            a.get("scope", ""), resource, str(a.get("lease_id", "")), tuple(details) if isinstance(details, list) else (),
        )  # fmt: skip

    def _authenticated(self) -> dict[str, str]:
        who = self._who
        if who.task_token:
            return {"grant_type": _EXCHANGE, "subject_token": who.task_token, "subject_token_type": _TASK_TOKEN}
        if who.client_id:
            return {"grant_type": "client_credentials", **self._peer.assertion(who.client_id)}
        raise UsageError("the sandbox is not enrolled", "redeem a ticket with enrol(ticket) first", code="not_enrolled")

    def revoke(self, credential: Credential | Pending | str) -> None:
        """Revoke a credential of this sandbox, by itself or its lease id, or withdraw a pending request (RFC 7009).

        One that is unknown or already revoked is not an error.
        """
        token = credential.token if isinstance(credential, Credential) else credential
        form = {"token": token.code if isinstance(token, Pending) else token}
        who = self._who
        if who.task_token:
            self._peer.send(Call("POST", "/oauth2/revoke", form=form, token=who.task_token))
        else:
            self._authenticated()
            self._peer.send(Call("POST", "/oauth2/revoke", form={**form, **self._peer.assertion(who.client_id)}))

    def _place(self, credential: Credential, first: str) -> str:
        """Return the origin to which a credential without a resource is bound, with the lock held."""
        name = hashlib.sha256(credential.token.encode()).digest()
        if name not in self._origins:
            now = time.time()
            self._origins = {n: p for n, p in self._origins.items() if p[1] > now}
            if len(self._origins) >= _MOST_ORIGINS:
                raise UsageError(
                    f"more than {_MOST_ORIGINS} live credentials were requested without a resource",
                    "request each for its resource",
                    code="origin",
                )
            self._origins[name] = (first, credential.expires_at)
        return self._origins[name][0]

    def headers(self, credential: Credential, method: str, url: str, nonce: str = "") -> dict[str, str]:
        """Return the two headers that use a credential for exactly one request (RFC 9449 section 7.1).

        nonce is the last DPoP-Nonce of that server. A URL of another server than that of the credential is refused.
        """
        check_url(url)
        if credential.type not in ("DPoP", "Bearer"):
            raise UsageError(f"a credential of type {credential.type} cannot be sent in an Authorization header")
        with self._lock:
            # A credential without a resource belongs to the server that it is first sent to.
            if credential.resource:
                place = origin(credential.resource)
            else:
                place = self._place(credential, origin(url))
        if place != origin(url):
            raise UsageError(
                f"the credential is for {place} and not for {origin(url)}",
                "request one for that resource",
                code="origin",
            )
        headers = {"Authorization": f"{credential.type} {credential.token}"}
        if credential.type == "DPoP":
            headers["DPoP"] = _dpop.new_proof(
                self._peer.key, method, url, self._peer.now(), credential.token, nonce
            )
        return headers

    def request(
        self,
        credential: Credential,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Make one request with a credential, once more with the nonce when the server requires one.

        Redirects are not followed. The answer is of any status, and of at most 16 MiB.
        """
        place = origin(url) if url.startswith(("http://", "https://")) else ""
        for attempt in range(2):
            with self._lock:
                nonce = self._nonces.get(place, "")
            sent = {**(headers or {}), **self.headers(credential, method, url, nonce)}
            answer = self._peer.transport.send(method, url, sent, body, self._peer.timeout, _MAX_BODY)
            fresh = answer.header("DPoP-Nonce")
            if _dpop.valid_nonce(fresh):
                with self._lock:
                    self._nonces[place] = fresh
            challenges = answer.headers.get_all("WWW-Authenticate") or []
            asked = answer.status == 401 and any('"use_dpop_nonce"' in c for c in challenges)
            if not asked or fresh in ("", nonce) or attempt == 1:
                break
        return answer


def _passing(problem: Problem) -> bool:
    """Report whether a problem is temporary."""
    return problem.code in ("temporarily_unavailable", "too_many_requests") or problem.status in (502, 504)

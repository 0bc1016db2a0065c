"""Holds the conversations of a runner, a sandbox, an approver and a resource server with a live ebb.

It reads its instructions from JOB (JSON), as web/api/sdk_python_test.go writes them, and ends with "done" only if every
answer was as expected.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ebb import NotDecided, Pending, Problem, Runner, Sandbox, UsageError, load_or_create_key, new_key, parse_key
from ebb._peer import Call, Peer, Principal
from ebb._issuer import HTTPFeed
from ebb._revoked import Page
from ebb.verify import Refusal, Request, Verifier
from ebb.wsgi import WSGIMiddleware

JOB = json.loads(os.environ["JOB"])
TLS = ssl.create_default_context(cafile=JOB["ca"])
URL = JOB["resource"] + "/" + JOB["read"].split(":")[1]


def step(name: str) -> None:
    print("ok", name, flush=True)


def key_of(who: str) -> Any:
    return parse_key(JOB["keys"][JOB[who]].encode())


class Approver:
    """Approves as a person with the role approver does, over the API."""

    def __init__(self) -> None:
        self.principal = Principal(Peer(JOB["issuer"], key_of("approver"), ssl_context=TLS), JOB["approver"])

    def decide(self, pending: Pending, verb: str, **more: Any) -> None:
        path = f"/v1/requests/{pending.request_id}"
        digest = self.principal.json(Call("GET", path))["digest"]
        self.principal.json(Call("POST", f"{path}/{verb}", document={"digest": digest, **more}))


def refused(v: Verifier, request: Request) -> str:
    try:
        v.verify(request)
    except Refusal as e:
        return f"{e.status} {e.code}"
    return "200"


class Heard:
    """ebb's revocation feed, which tells when the verifier has read a page."""

    def __init__(self, feed: HTTPFeed) -> None:
        self.feed, self.turn = feed, threading.Condition()

    def next(self, cursor: str, wait: float, timeout: float) -> Page:
        with self.turn:
            self.turn.notify_all()  # the verifier has added the previous page
        return self.feed.next(cursor, wait, timeout)

    def until(self, condition: Callable[[], bool]) -> None:
        with self.turn:
            assert self.turn.wait_for(condition, 60), "it did not happen"


def main() -> None:
    runner = Runner(JOB["issuer"], JOB["runner"], key_of("runner"), ssl_context=TLS)
    if JOB["enrolled"]:  # before ebb was restarted
        task_id, key = JOB["enrolled"]["task"], parse_key(JOB["enrolled"]["key"].encode())
        sandbox = Sandbox(JOB["issuer"], key, ssl_context=TLS, task_token=JOB["enrolled"]["task_token"])
    else:
        task_id, sandbox = enrol(runner)

    credential = sandbox.token(JOB["read"], resource=JOB["resource"], reason="read it")
    assert credential.type == "DPoP" and credential.scope == JOB["read"] and credential.expires_at > time.time()
    step("a credential without approval")

    peer = Peer(JOB["issuer"], key_of("server"), ssl_context=TLS)
    feed = Heard(HTTPFeed(peer, JOB["server"], "", JOB["resource"]))
    verifier = Verifier(
        issuer=JOB["issuer"], resource=JOB["resource"], feed=feed, require_scopes=lambda _: JOB["read"], ssl_context=TLS
    ).start(wait=60)
    assert verifier.ready()
    use(verifier, sandbox, credential)

    told: list[Pending] = []
    approver = Approver()

    def approve(pending: Pending) -> None:
        told.append(pending)
        approver.decide(pending, "approve")

    try:
        sandbox.token(JOB["read"], resource=JOB["resource"], content="cnt_" + "0" * 32)  # its provider reads no bodies
        raise AssertionError("a content at a provider that reads no bodies")
    except Problem as e:
        assert e.code == "invalid_request", e.code
    try:
        sandbox.token(JOB["write"], resource=JOB["resource"])
        raise AssertionError("issued without an approval")
    except Problem as e:
        assert e.code == "approval_required", e.code
    try:
        sandbox.token(JOB["write"], resource=JOB["resource"], wait=True, wait_timeout=0)
        raise AssertionError("decided by nobody")
    except NotDecided as e:
        first = e.pending
    written = sandbox.token(JOB["write"], resource=JOB["resource"], wait=True, pending=approve)
    assert re.fullmatch("[A-Z]+-[0-9]{2}", told[0].match_code)
    assert written.scope == JOB["write"] and told[0].request_id == first.request_id and told[0].interval == 1
    step("an approval, after which the request that was given up goes on")

    revoke(feed, verifier, sandbox, written)
    done = runner.complete_task(task_id, wait=5)
    assert done.task.state == "closed" and done.revoked == 1 and runner.complete_task(task_id).already_complete
    feed.until(lambda: refused(verifier, request_of(sandbox, credential, verifier.nonce())) == "401 invalid_token")
    try:
        sandbox.token(JOB["read"])
        raise AssertionError("a credential of a closed task")
    except Problem as e:
        assert e.status == 400, e
    step("the end of the task ends its credential")
    verifier.close()
    print("done")


def enrol(runner: Runner) -> tuple[str, Sandbox]:
    task, ticket = runner.open_task(name="live", kind=JOB["kind"], ceiling=JOB["ceiling"], ttl=600, owner=JOB["owner"])
    assert task.state == "open" and ticket is not None
    step("a runner opens a task")
    with tempfile.TemporaryDirectory() as directory:
        key = load_or_create_key(Path(directory) / "sandbox.key")
    sandbox = Sandbox(JOB["issuer"], key, ssl_context=TLS)
    assert sandbox.enrol(ticket.ticket).task_id == task.id
    try:
        Sandbox(JOB["issuer"], new_key(), ssl_context=TLS).enrol(ticket.ticket)
        raise AssertionError("the ticket was accepted again")
    except Problem as e:
        assert e.code == "invalid_evidence", e.code
    step("a sandbox enrols, and the ticket works once")
    return task.id, sandbox


def request_of(sandbox: Sandbox, credential: Any, nonce: str = "", url: str = URL) -> Request:
    h = sandbox.headers(credential, "GET", url, nonce)
    return Request("GET", URL[URL.index("/", 8) :], "", (h["Authorization"],), (h["DPoP"],))


def use(verifier: Verifier, sandbox: Sandbox, credential: Any) -> None:
    """Use a credential through the middleware; a replayed proof and a stolen token are refused."""
    application = WSGIMiddleware(lambda environ, start: (start("200 OK", []), [environ["ebb.token"].task_id.encode()])[1], verifier)

    def get(nonce: str) -> tuple[str, dict[str, str]]:
        got: list[Any] = []
        r = request_of(sandbox, credential, nonce)
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": r.path, "HTTP_AUTHORIZATION": r.authorization[0], "HTTP_DPOP": r.dpop[0]}
        list(application(environ, lambda status, headers, exc_info=None: got.extend((status, dict(headers)))))
        return got[0], got[1]

    status, headers = get("")
    assert status.startswith("401") and "use_dpop_nonce" in headers["WWW-Authenticate"], status
    status, _ = get(headers["DPoP-Nonce"])
    assert status.startswith("200"), status
    r = request_of(sandbox, credential, verifier.nonce())
    assert [refused(verifier, r), refused(verifier, r)] == ["200", "401 invalid_dpop_proof"]
    thief = Sandbox(JOB["issuer"], new_key(), ssl_context=TLS)
    assert refused(verifier, request_of(thief, credential, verifier.nonce())) == "401 invalid_token"
    try:
        sandbox.headers(credential, "GET", "https://evil.test/")
        raise AssertionError("the credential left for another server")
    except UsageError:
        pass
    step("a resource server accepts it once, and only with its key")


def revoke(feed: Heard, verifier: Verifier, sandbox: Sandbox, written: Any) -> None:
    sandbox.revoke(written)
    feed.until(lambda: refused(verifier, request_of(sandbox, written, verifier.nonce())) == "401 invalid_token")
    step("a revoked credential is refused")


if __name__ == "__main__":
    main()

"""The clients of sandbox and runner, against an ebb that misbehaves."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import socket
import ssl
import tempfile
import threading
import time
import traceback
import unittest
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from ebb import (
    BadAnswer, Credential, EbbError, NotDecided, Pending, Problem, Runner, Sandbox, Unreachable, UsageError, jkt, new_key,
    save_key,
)  # fmt: skip
from ebb import _dpop, _jws

from .issuer import Reply, Server, json_reply

TOKEN = {"access_token": "at-secret", "token_type": "DPoP", "expires_in": 300, "scope": "orders:eu/42:read", "lease_id": "lse_1"}
ENROLLED = {"task_token": "tt-secret", "token_type": "DPoP", "expires_at": "2030-01-01T00:00:00Z", "task_id": "tsk_1", "client_id": "sbx_1"}
PENDING = {
    "error": "authorization_pending", "error_description": "A person must approve.", "deferral_code": "dc-secret",
    "request_id": "req_1", "match_code": "AMBER-42", "expires_in": 600, "interval": 7,
}  # fmt: skip
TASK = {"id": "tsk_1", "state": "open", "name": "fix", "ceiling": "orders:**:*", "deadline": "2030-01-01T00:00:00Z"}


class Ebb(unittest.TestCase):
    """Answers each path with the next reply of its list; the last one repeats."""

    def setUp(self) -> None:
        self.replies: dict[str, list[Reply]] = {"/v1/enroll": [json_reply(ENROLLED)], "/oauth2/token": [json_reply(TOKEN)]}
        self.seen: list[tuple[str, Any, bytes]] = []
        self.server = Server(self.answer)
        self.addCleanup(self.server.close)
        self.key, self.slept = new_key(), []

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> Reply:
        path = handler.path.partition("?")[0]
        self.seen.append((handler.path, handler.headers, body))
        replies = self.replies[path]
        return replies.pop(0) if len(replies) > 1 else replies[0]

    def sandbox(self, **change: Any) -> Sandbox:
        return Sandbox(self.server.url, self.key, sleep=self.slept.append, **change)

    def enrolled(self) -> Sandbox:
        s = self.sandbox()
        s.enrol("tkt-secret")
        return s

    def form(self, index: int = -1) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.seen[index][2].decode()).items()}

    def proof(self, index: int = -1) -> dict[str, Any]:
        u = _jws.parse(self.seen[index][1]["DPoP"], _dpop._LIMITS)
        assert u.header.key is not None and u.header.typ == "dpop+jwt"
        self.assertEqual(u.header.key.thumbprint(), jkt(self.key))
        return json.loads(u.claims.payload)

    def raises(self, kind: type[EbbError], call: Any) -> Any:
        """Return the error, whose text and traceback contain no secret."""
        with self.assertRaises(kind) as raised:
            call()
        text = "".join(traceback.format_exception(raised.exception)) + repr(raised.exception)
        self.assertNotIn("-secret", text)
        return raised.exception


class SandboxTest(Ebb):
    def test_enrol_and_ask(self) -> None:
        s = self.sandbox()
        e = s.enrol("tkt-secret")
        self.assertEqual((e.task_id, e.client_id, e.expires_at), ("tsk_1", "sbx_1", 1893456000))
        self.assertEqual(json.loads(self.seen[-1][2]), {"ticket": "tkt-secret"})
        self.assertEqual((self.proof()["htm"], self.proof()["htu"]), ("POST", self.server.url + "/v1/enroll"))
        c = s.token("orders:eu/42:read", resource="https://orders.test", reason="read it", ttl=60)
        self.assertEqual((c.token, c.type, c.lease_id), ("at-secret", "DPoP", "lse_1"))
        self.assertEqual(self.form(), {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "tt-secret",
            "subject_token_type": "urn:ebb:params:oauth:token-type:task", "scope": "orders:eu/42:read",
            "resource": "https://orders.test", "reason": "read it", "requested_expiry": "60",
        })  # fmt: skip
        self.assertNotIn("-secret", repr((e, c)))

    def test_readme(self) -> None:
        """The lines from nothing to a used credential work as the README shows them."""
        self.replies["/eu/42"] = [(200, {}, b"order 42")]
        code = (Path(__file__).parents[1] / "README.md").read_text("utf-8").split("```python\n")[1].split("```")[0]
        self.assertLessEqual(len([line for line in code.splitlines() if line]), 10)
        for place in ("https://ebb.example.com", "https://orders.example.com"):
            code = code.replace(place, self.server.url)
        out, before = io.StringIO(), os.getcwd()
        with tempfile.TemporaryDirectory() as directory, mock.patch.dict(os.environ, EBB_TICKET="tkt-secret"):
            os.chdir(directory)
            self.addCleanup(os.chdir, before)
            with contextlib.redirect_stdout(out):
                exec(code, {})
            os.chdir(before)
        self.assertEqual(out.getvalue(), "200 order 42\n")

    def test_evidence_and_challenge(self) -> None:
        s = self.sandbox()
        self.replies["/v1/challenge"] = [json_reply({"nonce": "n1"})]
        self.assertEqual(s.challenge("tsk_1"), "n1")
        s.enrol_evidence("tsk_1", "jwt")
        self.assertEqual(json.loads(self.seen[-1][2]), {"task_id": "tsk_1", "evidence": "jwt"})

    def test_known_by_client_id(self) -> None:
        """After a restart with the key alone, the sandbox authenticates by private_key_jwt."""
        self.sandbox(client_id="sbx_1").token("orders:eu/42:read")
        form = self.form()
        u = _jws.parse(form["client_assertion"])
        self.assertEqual(u.header.typ, "client-authentication+jwt")
        self.assertEqual((u.claims.issuer, u.claims.subject, u.claims.audience), ("sbx_1", "sbx_1", (self.server.url,)))
        self.assertEqual(u.claims.expiry - u.claims.issued_at, 60)
        self.raises(UsageError, lambda: self.sandbox().token("orders:eu/42:read"))

    def test_nonce(self) -> None:
        asks = json_reply({"error": "use_dpop_nonce"}, 400, {"DPoP-Nonce": "n1"})
        self.replies["/oauth2/token"] = [asks, json_reply(TOKEN, headers={"DPoP-Nonce": "n2"}), json_reply(TOKEN)]
        s = self.enrolled()
        s.token("orders:eu/42:read")
        self.assertEqual(self.proof()["nonce"], "n1")
        s.token("orders:eu/42:read")
        self.assertEqual(self.proof()["nonce"], "n2")
        self.assertNotEqual(self.proof()["jti"], self.proof(-2)["jti"])
        self.replies["/oauth2/token"] = [asks]
        self.assertEqual(self.raises(Problem, lambda: s.token("orders:eu/42:read")).code, "use_dpop_nonce")

    def test_wait_for_an_approval(self) -> None:
        slow = json_reply({"error": "slow_down", "interval": 20}, 400)
        down = json_reply({"error": "temporarily_unavailable"}, 503, {"Retry-After": "30"})
        pending = json_reply(PENDING, 400)
        self.replies["/oauth2/token"] = [pending, pending, slow, None, down, json_reply(TOKEN)]
        told: list[Pending] = []
        c = self.enrolled().token("orders:eu/42:write", wait=True, pending=told.append)
        self.assertEqual(c.token, "at-secret")
        self.assertEqual([(p.request_id, p.match_code, p.link) for p in told], [("req_1", "AMBER-42", "")])  # loopback has no link
        self.assertNotIn("-secret", repr(told))
        self.assertEqual(self.slept, [7, 7, 12, 12, 30])
        self.assertEqual(self.form(), {"grant_type": "urn:ietf:params:oauth:grant-type:deferred", "deferral_code": "dc-secret"})

    def test_link(self) -> None:
        self.replies["/oauth2/token"] = [json_reply(PENDING, 400)]
        s = Sandbox("https://ebb.test", self.key, url=self.server.url, task_token="tt", sleep=self.slept.append)
        e = self.raises(NotDecided, lambda: s.token("orders:eu/42:write", wait=True, wait_timeout=0))
        self.assertEqual(e.pending.link, "https://ebb.test/requests/req_1")
        self.assertEqual((self.proof()["htu"], self.slept), ("https://ebb.test/oauth2/token", []))

    def test_denied(self) -> None:
        advice = {"decision": "denied", "code": "too_broad", "note": "use\x1b[31m a branch", "would_allow": "orders:eu/42:read",
                  "retry_after_s": 900, "do_not_retry_same": True}  # fmt: skip
        self.replies["/oauth2/token"] = [
            json_reply({"error": "access_denied", "error_description": "No\u202e.", "advice": advice, "next": ["ask less"]}, 400),
            json_reply({"error": "access_denied", "advice": {**advice, "would_allow": "; rm -rf /"}}, 400),
            json_reply({"error": "interaction_required"}, 400),
        ]  # fmt: skip
        s = self.enrolled()
        e = self.raises(Problem, lambda: s.token("orders:**:*"))
        self.assertEqual((e.code, e.sentence, e.next), ("access_denied", "No\ufffd.", ("ask less",)))
        self.assertEqual(str(e), "access_denied: No\ufffd.\n-> ask less")
        self.assertEqual((e.advice.note, e.advice.would_allow, e.advice.retry_after), ("use\ufffd[31m a branch", "orders:eu/42:read", 900))
        self.assertIsNone(self.raises(Problem, lambda: s.token("orders:**:*")).advice)
        self.assertEqual(self.raises(Problem, lambda: s.token("orders:**:*")).code, "approval_required")

    def test_answers_that_are_none(self) -> None:
        s = self.enrolled()
        for name, reply, kind, code in (
            ("closed", None, Unreachable, "unreachable"),
            ("redirect", (307, {"Location": "https://evil.test/"}, b""), Problem, "not_ebb"),
            ("HTML", (200, {"Content-Type": "text/html"}, b"<html>"), BadAnswer, "not_ebb"),
            ("not JSON", (200, {"Content-Type": "application/json"}, b'{"access_token":"at-secret'), BadAnswer, "not_ebb"),
            ("deep", (200, {"Content-Type": "application/json"}, b"[" * 100_000), BadAnswer, "not_ebb"),
            ("cut off", (200, {"Content-Type": "application/json", "Content-Length": "999"}, b"{}"), Unreachable, "unreachable"),
            ("HTML error", (502, {"Content-Type": "text/html"}, b"at-secret"), Problem, "not_ebb"),
            ("proxy", (503, {}, b""), Problem, "temporarily_unavailable"),
            ("array", json_reply([]), BadAnswer, "not_ebb"),
            ("no token", json_reply({**TOKEN, "access_token": ""}), BadAnswer, "not_ebb"),
            ("header", json_reply({**TOKEN, "access_token": "at-secret\r\nX: y"}), BadAnswer, "not_ebb"),
            ("type", json_reply({**TOKEN, "token_type": "mac"}), BadAnswer, "not_ebb"),
            ("expired", json_reply({**TOKEN, "expires_in": -1}), BadAnswer, "not_ebb"),
            ("scope", json_reply({**TOKEN, "scope": "a\x1b"}), BadAnswer, "not_ebb"),
        ):  # fmt: skip
            with self.subTest(name):
                self.replies["/oauth2/token"] = [reply]
                e = self.raises(kind, lambda: s.token("orders:eu/42:read"))
                self.assertEqual((e.code, bool(e.sentence)), (code, True))
        self.replies["/v1/enroll"] = [json_reply({**ENROLLED, "task_token": "tt-secret\n"})]
        self.raises(BadAnswer, lambda: s.enrol("tkt-secret"))

    def test_revoke(self) -> None:
        self.replies["/oauth2/revoke"] = [(200, {}, b"")]
        s = self.enrolled()
        s.revoke(s.token("orders:eu/42:read"))
        self.assertEqual((self.form(), self.seen[-1][1]["Authorization"]), ({"token": "at-secret"}, "DPoP tt-secret"))
        self.sandbox(client_id="sbx_1").revoke("lse_1")
        self.assertEqual((self.form()["token"], self.form()["client_id"]), ("lse_1", "sbx_1"))


class UseTest(Ebb):
    def credential(self, **change: Any) -> Credential:
        return Credential(**{"token": "at-secret", "type": "DPoP", "format": "", "expires_at": 0, "scope": "", "resource": "", "lease_id": "", **change})

    def test_headers(self) -> None:
        s, url = self.sandbox(), "https://orders.test/eu/42?q=1"
        h = s.headers(self.credential(resource="https://orders.test"), "GET", url, "n1")
        self.assertEqual(h["Authorization"], "DPoP at-secret")
        proof = _dpop.check([h["DPoP"]], "GET", url, "at-secret", time.time(), _dpop.DEFAULT_ALGS, 60)
        self.assertEqual((proof.jkt, proof.nonce), (jkt(self.key), "n1"))
        self.assertNotIn("DPoP", s.headers(self.credential(type="Bearer"), "GET", url))

    def test_never_to_another_server(self) -> None:
        s, c = self.sandbox(), self.credential(resource="https://orders.test/api")
        for url in ("https://evil.test/", "https://orders.test:444/", "http://orders.test/", "https://orders.test@evil.test/", "https://orders.test.evil.test/",
                    "https://evil.test\\@orders.test/", "ftp://orders.test/", "/eu/42", "https:///x", "https://orders.test/\r\nX: y", "https://[::1/"):  # fmt: skip
            with self.subTest(url):
                self.raises(UsageError, lambda: s.headers(c, "GET", url))
        self.raises(UsageError, lambda: s.headers(self.credential(), "GET", "http://orders.test/"))
        bound = self.credential(resource="")
        s.headers(bound, "GET", "https://orders.test/1")  # the first server keeps it
        s.headers(bound, "GET", "https://orders.test/2")
        self.raises(UsageError, lambda: s.headers(bound, "GET", "https://evil.test/"))
        s, later = self.sandbox(), time.time() + 60
        live = self.credential(token="live", expires_at=later)
        s.headers(live, "GET", "https://orders.test/1")
        for i in range(2000):  # the memory fills up earlier, and it forgets no live credential
            try:
                s.headers(self.credential(token=f"t{i}", expires_at=later), "GET", "https://orders.test/1")
            except UsageError:
                self.assertGreater(i, 900)
                break
        else:
            self.fail("every credential was accepted")
        self.raises(UsageError, lambda: s.headers(live, "GET", "https://evil.test/"))
        s = self.sandbox()
        self.raises(UsageError, lambda: s.headers(self.credential(type="N_A"), "GET", "https://orders.test/"))
        self.raises(Unreachable, lambda: s.request(self.credential(token="at-secret\r\nX: y"), "GET", self.server.url + "/x"))
        for issuer in ("http://ebb.test", "ebb.test", "https://ebb.test?x", "https://ann@ebb.test", "https://ann:pw-secret@ebb.test", "https://ebb.test#x", ""):
            with self.subTest(issuer):
                self.raises(UsageError, lambda: Sandbox(issuer, self.key))

    def test_text_of_a_server_that_is_none(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def answer() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(b"\x1b[2J\r\n\r\n")

            threading.Thread(target=answer, daemon=True).start()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            e = self.raises(Unreachable, lambda: Sandbox(url, self.key).enrol("tkt-secret"))
        self.assertNotIn("\x1b", e.sentence)

    def test_request_with_nonce(self) -> None:
        asks = (401, {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": "n1"}, b"")
        self.replies["/eu/42"] = [asks, (200, {"DPoP-Nonce": "n2"}, b"order"), (200, {}, b"order")]
        s, url = self.sandbox(), self.server.url + "/eu/42"
        self.assertEqual(s.request(self.credential(), "POST", url, b"body", {"Content-Type": "text/plain"}).body, b"order")
        self.assertEqual((self.seen[-1][2], self.proof()["nonce"]), (b"body", "n1"))
        s.request(self.credential(), "GET", url)
        self.assertEqual(self.proof()["nonce"], "n2")
        self.replies["/eu/42"] = [asks]
        self.assertEqual(s.request(self.credential(), "GET", url).status, 401)

    def test_bounds(self) -> None:
        self.replies["/eu/42"] = [(302, {"Location": "https://evil.test/"}, b""), (200, {}, b"x" * ((16 << 20) + 1))]
        s, url = self.sandbox(), self.server.url + "/eu/42"
        self.assertEqual(s.request(self.credential(), "GET", url).status, 302)
        self.raises(BadAnswer, lambda: s.request(self.credential(), "GET", url))

    def test_certificates_are_verified(self) -> None:
        self.replies["/eu/42"] = [(200, {}, b"order")]
        with tempfile.TemporaryDirectory() as directory:
            path = self_signed(Path(directory), "localhost")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(path)
            self.server._http.socket = context.wrap_socket(self.server._http.socket, server_side=True)
            trusting = ssl.create_default_context(cafile=str(path))
        url = self.server.url.replace("http://127.0.0.1", "https://localhost") + "/eu/42"
        self.assertEqual(self.sandbox(ssl_context=trusting).request(self.credential(), "GET", url).body, b"order")
        e = self.raises(Unreachable, lambda: self.sandbox().request(self.credential(), "GET", url))
        self.assertIn("CERTIFICATE_VERIFY_FAILED", str(e))
        self.raises(Unreachable, lambda: self.sandbox(ssl_context=trusting).request(self.credential(), "GET", url.replace("localhost", "127.0.0.1")))
        for change in ("check_hostname", "verify_mode"):
            context = ssl.create_default_context()
            context.check_hostname = False
            if change == "verify_mode":
                context.verify_mode = ssl.CERT_NONE
            self.raises(UsageError, lambda: self.sandbox(ssl_context=context))


def self_signed(directory: Path, name: str) -> Path:
    key, subject = new_key(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())  # type: ignore[arg-type]
    )  # fmt: skip
    path = directory / "server.pem"
    save_key(path, key)
    with open(path, "ab") as file:
        file.write(certificate.public_bytes(Encoding.PEM))
    return path


class RunnerTest(Ebb):
    def runner(self) -> Runner:
        return Runner(self.server.url, "ci", self.key)

    def test_open_and_complete(self) -> None:
        ticket = {"ticket": "tkt-secret", "ticket_expires_at": "2026-01-01T00:01:00.123456789Z"}
        self.replies["/v1/tasks"] = [json_reply({"task": TASK, **ticket})]
        self.replies["/v1/tasks/tsk_1/ticket"] = [json_reply(ticket)]
        done = {"task": {**TASK, "state": "closed", "cause": "completed"}, "revoked": 2, "pending_revocations": 1}
        self.replies["/v1/tasks/tsk_1/complete"] = [json_reply(done)]
        r = self.runner()
        task, opened = r.open_task(name="fix", kind="bugfix", ceiling="orders:**:*", ttl=600, owner="ann")
        assert opened is not None
        self.assertEqual((task.id, opened.ticket, opened.expires_at), ("tsk_1", "tkt-secret", 1767225660.123456789))
        self.assertNotIn("-secret", repr(opened))
        spec = json.loads(self.seen[-1][2])
        self.assertEqual((spec["ttl_seconds"], spec["sandbox_expected"]["attestor"], spec["ticket"]), (600, "enroll", True))
        self.assertEqual((self.seen[-1][1]["Authorization"], "ath" in self.proof()), ("DPoP at-secret", True))
        self.assertEqual(r.new_ticket("tsk_1").ticket, "tkt-secret")
        c = r.complete_task("tsk_1", wait=5)
        self.assertEqual((c.task.state, c.revoked, c.pending_revocations, c.already_complete), ("closed", 2, 1, False))
        self.assertEqual(self.seen[-1][0], "/v1/tasks/tsk_1/complete?wait_seconds=5")
        self.assertEqual([path for path, _, _ in self.seen].count("/oauth2/token"), 1)
        self.assertEqual(self.form(0)["grant_type"], "client_credentials")

    def test_a_refused_token_is_renewed_once(self) -> None:
        refused = json_reply({"type": "x/problems/invalid_token", "detail": "expired"}, 401)
        self.replies["/v1/tasks/tsk_1"] = [refused, json_reply(TASK)]
        r = self.runner()
        self.assertEqual(r.task("tsk_1").state, "open")
        self.replies["/v1/tasks/tsk_1"] = [refused]
        self.assertEqual(self.raises(Problem, lambda: r.task("tsk_1")).status, 401)

    def test_a_token_that_permits_only_ends_is_replaced(self) -> None:
        unavailable = json_reply({"type": "x/problems/temporarily_unavailable", "detail": "down"}, 503)
        ends = json_reply({**TOKEN, "scope": "ends runner"})
        self.replies["/oauth2/token"] = [ends, json_reply(TOKEN)]
        self.replies["/v1/tasks/tsk_1"] = [unavailable, json_reply(TASK)]
        self.assertEqual(self.runner().task("tsk_1").state, "open")
        self.replies["/oauth2/token"], self.replies["/v1/tasks/tsk_1"] = [ends], [unavailable]
        self.seen.clear()
        self.assertEqual(self.raises(Problem, lambda: self.runner().task("tsk_1")).status, 503)
        self.assertEqual([path for path, _, _ in self.seen].count("/oauth2/token"), 2)

    def test_ids_are_one_segment(self) -> None:
        self.replies["/v1/tasks/..%2Frequests%2Freq_1%3Fx"] = [json_reply(TASK)]
        self.runner().task("../requests/req_1?x")
        self.raises(UsageError, lambda: self.runner().task(".."))


if __name__ == "__main__":
    unittest.main()

"""The verifier with its threads and middleware, against an issuer over HTTP."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ebb import UsageError, jkt, new_key
from ebb import verify
from ebb._dpop import Memory, Proof, new_proof
from ebb._replay import BusyKey, MemoryReplay
from ebb._strict import b64url
from ebb.asgi import ASGIMiddleware
from ebb.verify import Refusal, Request, Verifier
from ebb.wsgi import WSGIMiddleware, request_of

from .forge import ISSUER, RESOURCE, Forge
from .issuer import Reply, Server, json_reply

BASE, PATH = "https://orders.test", "/api/eu/42"
TAIL = ', algs="ES256 EdDSA Ed25519", resource_metadata="https://orders.test/.well-known/oauth-protected-resource/api"'


class World(unittest.TestCase):
    """An issuer with a feed, and a verifier whose replay memory began an hour ago."""

    def setUp(self) -> None:
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.forge = Forge(time.time())
        self.events: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self.heard = 0  # events that the verifier has read, and asked for more after
        self.hits: list[str] = []
        self.server = Server(self.answer)
        self.addCleanup(self.server.close)
        self.addCleanup(self.wake)

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> Reply:
        url = urlsplit(handler.path)
        self.hits.append(url.path)
        if url.path == "/.well-known/jwks.json":
            return json_reply(self.forge.jwks())
        if url.path == "/oauth2/token":
            form = parse_qs(body.decode())
            if form["grant_type"] != ["client_credentials"] or form["resource"] != [ISSUER + "/v1"]:
                return json_reply({"error": "invalid_request"}, 400)
            return json_reply({"access_token": "feed-token", "token_type": "DPoP", "expires_in": 600})
        query = parse_qs(url.query)
        if handler.headers["Authorization"] != "DPoP feed-token" or handler.headers["DPoP"] is None:
            return json_reply({"type": ISSUER + "/problems/invalid_token"}, 401)
        start = int(query.get("cursor", ["0"])[0])
        with self.changed:
            self.heard = start
            self.changed.notify_all()
            if start == len(self.events):
                self.changed.wait(float(query.get("wait_seconds", ["0"])[0]))
            events = self.events[start:]
        return json_reply({"events": events, "cursor": str(start + len(events)), "max_age_seconds": 10})

    def kill(self, task: str, lease: str = "") -> None:
        """Revoke, and wait until the verifier has read it."""
        with self.changed:
            at = {"at": "2026-01-01T00:00:00Z", "until": "2026-01-01T01:00:00.5Z"}
            self.events.append({"task_id": task, "lease_id": lease, **at})
            self.changed.notify_all()
            self.assertTrue(self.changed.wait_for(lambda: self.heard == len(self.events), 60))

    def verifier(self, **change: Any) -> Verifier:
        config: dict[str, Any] = {
            "issuer": ISSUER, "issuer_url": self.server.url, "resource": RESOURCE, "client_id": "orders", "key": new_key(),
            "require_scopes": lambda _: "orders:eu/42:read", "replay": MemoryReplay(now=lambda: time.time() - 3600), **change,
        }  # fmt: skip
        v = Verifier(**config)
        self.addCleanup(v.close)
        return v

    def running(self, **change: Any) -> Verifier:
        v = self.verifier(**change).start(wait=60)
        self.assertTrue(v.ready())
        return v

    def request(self, token: str, **change: Any) -> Request:
        proof = new_proof(self.forge.holder, "GET", BASE + PATH, time.time(), token, change.pop("nonce", ""))
        return Request(**{
            "method": "GET", "path": PATH, "query": "", "authorization": ("DPoP " + token,), "dpop": (proof,), **change,
        })  # fmt: skip

    def verdict(self, v: Verifier, request: Request) -> str:
        try:
            v.verify(request)
        except Refusal as e:
            return f"{e.status} {e.code}".strip()
        return "200"


class VerifyTest(World):
    def test_good(self) -> None:
        v = self.running()
        t = v.verify(self.request(self.forge.token(jti="lse_1")))
        self.assertEqual((t.subject, t.task_id, t.lease_id, t.jkt), ("ann", "tsk_1", "lse_1", jkt(self.forge.holder)))
        self.assertEqual(json.loads(t.payload)["txn"], t.txn)

    def test_a_request_does_not_show_its_token(self) -> None:
        token = self.forge.token()
        self.assertNotIn(token, repr(self.request(token, raw={"HTTP_AUTHORIZATION": "DPoP " + token})))

    def test_target_that_continues_the_host_name(self) -> None:
        token = self.forge.token()
        proof = new_proof(self.forge.holder, "GET", BASE + ".evil.test/x", time.time(), token)
        self.assertEqual(self.verdict(self.running(), self.request(token, path=".evil.test/x", dpop=(proof,))), "401 invalid_dpop_proof")

    def test_not_started(self) -> None:
        v = self.verifier()
        self.assertFalse(v.ready())
        self.assertEqual(self.verdict(v, self.request(self.forge.token())), "503")

    def test_revocation(self) -> None:
        v = self.running()
        names = {"tsk_2": {f"{ISSUER}/claims/task_id": "tsk_2"}, "lse_a": {"jti": "lse_a"}, "other": {},
                 "parents": {f"{ISSUER}/claims/parents": "lse_0 lse_a"}, "ancestors": {f"{ISSUER}/claims/ancestors": "tsk_0 tsk_2"}}  # fmt: skip
        tokens = {name: self.forge.token(**change) for name, change in names.items()}
        for name, token in tokens.items():
            self.assertEqual(self.verdict(v, self.request(token)), "200", name)
        self.kill("tsk_2")
        self.kill("tsk_1", "lse_a")
        for name, token in tokens.items():
            want = "200" if name == "other" else "401 invalid_token"
            self.assertEqual(self.verdict(v, self.request(token)), want, name)

    def test_revoked_again_after_close(self) -> None:
        clock = [time.time(), 0.0]
        v = self.running(now=lambda: clock[0], monotonic=lambda: clock[1], replay=MemoryReplay(now=lambda: clock[0] - 3600))
        token = self.forge.token()
        v.close()
        clock[1] += 11
        self.assertEqual(self.verdict(v, self.request(token)), "503")

    def test_one_winner(self) -> None:
        """Of 16 threads that send one request, one is accepted."""
        v = self.running()
        request, barrier, got = self.request(self.forge.token()), threading.Barrier(16), []

        def send() -> None:
            barrier.wait()
            got.append(self.verdict(v, request))

        threads = [threading.Thread(target=send) for _ in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(got), ["200"] + ["401 invalid_dpop_proof"] * 15)

    def test_replay_store(self) -> None:
        """A store that fails refuses, and a stolen token uses nothing up."""

        class Store:
            error: Exception | None = None
            claims = 0

            def claim(self, proof: Proof) -> bool:
                self.claims += 1
                if self.error:
                    raise self.error
                return True

            def memory(self) -> Memory:
                return Memory(None, "")

        store = Store()
        v = self.running(replay=store)
        token = self.forge.token(cnf={"jkt": jkt(new_key())})
        self.assertEqual((self.verdict(v, self.request(token)), store.claims), ("401 invalid_token", 0))
        for error, want in ((ConnectionError("redis is down"), "503"), (BusyKey(), "429")):
            store.error = error
            self.assertEqual(self.verdict(v, self.request(self.forge.token())), want)

    def test_scopes(self) -> None:
        def fails(_: Request) -> str:
            raise KeyError("secret cause")

        for need, have, want in (
            (lambda _: "orders:eu/42:read", "orders:eu/**:*", "200"), (lambda _: "", "orders:**:*", "403 insufficient_scope"),
            (lambda _: "no scope", "orders:**:*", "500"), (fails, "orders:**:*", "500"), (None, "orders:x:read", "200"),
            (lambda r: f"orders:{r.path[5:]}:read", "orders:eu/42:read", "200"),
        ):  # fmt: skip
            v = self.running(require_scopes=need, any_scope=need is None)
            self.assertEqual(self.verdict(v, self.request(self.forge.token(scope=have))), want, have)

    def test_needless_encoding(self) -> None:
        """A framework routes by the decoded path, so that /%61dmin must not be judged as another path than /admin."""
        for code in (*range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B), *b"-._~"):
            for path in (f"/%{code:02x}", f"/%{code:02X}"):
                self.assertIsNotNone(verify._NEEDLESS.search(path), path)
        for path in ("/%20", "/%2F", "/%25", "/%C3%A9", "/a"):
            self.assertIsNone(verify._NEEDLESS.search(path), path)

    def test_client_certificate(self) -> None:
        token = self.forge.token(cnf={"x5t#S256": b64url(hashlib.sha256(b"mine").digest())})
        for cert, scheme, want in ((b"mine", "Bearer", "200"), (b"other", "Bearer", "401 invalid_token"),
                                   (None, "Bearer", "401 invalid_token"), (b"mine", "DPoP", "401 invalid_token")):  # fmt: skip
            v = self.running(client_cert=lambda _: cert)
            self.assertEqual(self.verdict(v, self.request(token, authorization=(f"{scheme} {token}",))), want)
        self.assertEqual(self.verdict(self.running(), self.request(token, authorization=(f"Bearer {token}",))), "401 invalid_token")

    def test_unknown_kids_cause_one_fetch(self) -> None:
        v = self.running()
        before = self.hits.count("/.well-known/jwks.json")
        stranger = Forge(time.time())
        for _ in range(20):
            self.assertEqual(self.verdict(v, self.request(stranger.token())), "401 invalid_token")
        token = self.forge.token().split(".")
        header = base64.urlsafe_b64encode(b'{"alg":"ES256","typ":"at+jwt","kid":"k9"}').rstrip(b"=").decode()
        for _ in range(20):
            self.assertEqual(self.verdict(v, self.request(".".join([header, *token[1:]]))), "401 invalid_token")
        self.assertLessEqual(self.hits.count("/.well-known/jwks.json") - before, 1)

    def test_configuration(self) -> None:
        for name, change in {
            "plain issuer": {"issuer": "http://ebb.test"}, "issuer query": {"issuer": "https://ebb.test?x"}, "no issuer": {"issuer": ""},
            "fragment": {"resource": RESOURCE + "#x"}, "user": {"resource": "https://ann@orders.test"}, "no scopes": {"require_scopes": None},
            "both": {"any_scope": True}, "no key": {"key": None}, "no id": {"client_id": ""}, "staleness": {"max_staleness": 1},
            "limit": {"max_revoked": 0}, "alg": {"algs": ("none",)}, "proof alg": {"dpop_algs": ("HS256",)},
            "plain public URL": {"public_url": "http://orders.test"}, "plain issuer URL": {"issuer_url": "http://10.0.0.1"},
        }.items():  # fmt: skip
            with self.subTest(name), self.assertRaises(UsageError):
                self.verifier(**change)


class MiddlewareTest(World):
    def wsgi(self, application: WSGIMiddleware, request: Request, **environ: Any) -> tuple[int, dict[str, str], bytes]:
        got: list[Any] = []
        env = {
            "REQUEST_METHOD": request.method, "SCRIPT_NAME": "", "PATH_INFO": request.path, "QUERY_STRING": request.query,
            **{name: value[0] for name, value in (("HTTP_AUTHORIZATION", request.authorization), ("HTTP_DPOP", request.dpop)) if value},
            **environ,
        }  # fmt: skip
        body = b"".join(application(env, lambda status, headers, exc_info=None: got.extend((status, headers))))
        return int(got[0].split()[0]), dict(got[1]), body

    def asgi(self, application: ASGIMiddleware, request: Request, **scope: Any) -> tuple[int, dict[str, str], bytes]:
        sent: list[Any] = []
        headers = [(b"authorization", v.encode()) for v in request.authorization] + [(b"dpop", v.encode()) for v in request.dpop]

        async def receive() -> Any:
            return {"type": "http.request"}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(application({
            "type": "http", "method": request.method, "path": request.path, "raw_path": request.path.encode(),
            "query_string": request.query.encode(), "headers": headers, **scope,
        }, receive, send))  # fmt: skip
        if sent[0]["type"] != "http.response.start":
            return sent[0]["code"], {}, b""
        names = {n.decode(): v.decode() for n, v in sent[0]["headers"]}
        return sent[0]["status"], names, b"".join(m["body"] for m in sent[1:])

    def applications(self, v: Verifier) -> tuple[Any, Any]:
        def wsgi(environ: Any, start_response: Any) -> list[bytes]:
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [environ["ebb.token"].task_id.encode()]

        async def asgi(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": scope["ebb.token"].task_id.encode()})

        return WSGIMiddleware(wsgi, v), ASGIMiddleware(asgi, v)

    def both(self, v: Verifier, make: Any) -> Any:
        wsgi, asgi = self.applications(v)
        yield "WSGI", self.wsgi(wsgi, make())
        status, headers, body = self.asgi(asgi, make())
        yield "ASGI", (status, {name.title().replace("Dpop", "DPoP").replace("Www-", "WWW-"): value for name, value in headers.items()}, body)

    def test_accepts_and_starts_itself(self) -> None:
        for name, (status, headers, body) in self.both(self.verifier(), lambda: self.request(self.forge.token())):
            self.assertEqual((status, body), (200, b"tsk_1"), name)
            self.assertNotIn("DPoP-Nonce", headers)

    def test_challenges(self) -> None:
        """The same as those of web/verify."""
        v, raw = self.running(), self.forge.token()
        realm = f'DPoP realm="{RESOURCE}"'
        for make, status, want in (
            (lambda: Request("GET", PATH, "", (), ()), 401, realm),
            (lambda: self.request("abc"), 401, realm + ', error="invalid_token", error_description="The token is not three base64url parts."'),
            (lambda: self.request(raw, dpop=()), 401, realm + ', error="invalid_dpop_proof", error_description="A DPoP proof is required."'),
            (lambda: self.request(self.forge.token(scope="orders:eu/43:read")), 403, realm + ', error="insufficient_scope", error_description='
             '"The scope of the access token does not cover this request.", scope="orders:eu/42:read"'),
        ):  # fmt: skip
            for name, (got, headers, body) in self.both(v, make):
                self.assertEqual((got, headers["WWW-Authenticate"]), (status, want + TAIL), name)
                self.assertEqual((json.loads(body)["status"], headers["Cache-Control"]), (status, "no-store"))

    def test_stale(self) -> None:
        v = self.verifier(issuer_url="http://127.0.0.1:1")
        v.start(wait=0)
        for name, (status, headers, _) in self.both(v, lambda: self.request(self.forge.token())):
            self.assertEqual((status, headers["Retry-After"], "WWW-Authenticate" in headers), (503, "2", False), name)

    def test_nonce_after_a_start(self) -> None:
        v, raw = self.running(replay=None), self.forge.token()
        nonce = ""
        for name, (status, headers, _) in self.both(v, lambda: self.request(raw)):
            self.assertEqual((status, 'error="use_dpop_nonce"' in headers["WWW-Authenticate"]), (401, True), name)
            nonce = headers["DPoP-Nonce"]
        for name, (status, headers, _) in self.both(v, lambda: self.request(raw, nonce=nonce)):
            self.assertEqual((status, headers["DPoP-Nonce"]), (200, nonce), name)

    def test_metadata(self) -> None:
        v = self.verifier(scopes="orders:eu/**:read")
        make = lambda: Request("GET", v.metadata_path(), "", (), ())  # noqa: E731
        for name, (status, headers, body) in self.both(v, make):
            document = json.loads(body)
            self.assertEqual((status, headers["Content-Type"]), (200, "application/json"), name)
            self.assertEqual((document["resource"], document["authorization_servers"]), (RESOURCE, [ISSUER]))
            self.assertEqual(document["scopes_supported"], ["orders:eu/**:read"])

    def test_several_headers(self) -> None:
        wsgi, asgi = self.applications(self.running())
        r = self.request(self.forge.token())
        self.assertEqual(self.asgi(asgi, Request("GET", PATH, "", r.authorization * 2, r.dpop))[0], 400)
        joined = ",".join(r.authorization * 2)
        self.assertEqual(self.wsgi(wsgi, r, HTTP_AUTHORIZATION=joined)[0], 400)
        self.assertEqual(self.wsgi(wsgi, r, HTTP_DPOP=",".join(r.dpop * 2))[0], 401)

    def test_websockets_are_refused(self) -> None:
        _, asgi = self.applications(self.running())
        self.assertEqual(self.asgi(asgi, self.request(self.forge.token()), type="websocket")[0], 1008)

    def test_path_as_sent(self) -> None:
        def path(info: str, **more: str) -> str:
            return request_of({"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": info, **more}).path

        self.assertEqual(path("/a/b", RAW_URI="/a%2Fb?q=1"), "/a%2Fb")
        self.assertEqual(path("/a/b", REQUEST_URI="/a%2fb"), "/a%2fb")
        self.assertEqual(path("/a/b", RAW_URI="/admin"), "/a/b")  # rewritten: the path that the application sees
        self.assertEqual(path("/a/b", REQUEST_URI="https://evil.test/a/b"), "/a/b")
        self.assertEqual(path("/\xc3\xa9;v=1 ?", SCRIPT_NAME="/api"), "/api/%C3%A9;v=1%20%3F")


if __name__ == "__main__":
    unittest.main()

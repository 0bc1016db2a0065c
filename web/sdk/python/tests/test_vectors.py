"""The shared vectors of web/verify/testdata/vectors: Python gives the verdict of Go for each."""

from __future__ import annotations

import json
import logging
import os
import ssl
import unittest
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ebb import new_key
from ebb._replay import MemoryReplay
from ebb.verify import Refusal, Request, Verifier

from .issuer import Reply, Server, json_reply

DIRECTORY = Path(os.environ.get("EBB_VECTORS") or Path(__file__).parents[3] / "verify/testdata/vectors")
CONTEXT = ssl.create_default_context()


class Rehearsal:
    """Runs one vector: it is the issuer, and holds the clock. No thread reads the feed: each step is one call."""

    def __init__(self, test: unittest.TestCase, server: Server, document: Any, vector: Any) -> None:
        config = document["config"]
        self.test, self.now = test, float(config["now"])
        self.sets = [document["jwks"][name] for name in vector.get("jwks") or ["issuer"]]
        self.feed: Any = {"cursor": "", "status": 200, "body": config["feed"]}
        server.answer = self.answer
        began = self.now - vector.get("up_seconds", config["up_seconds"])
        self.verifier = Verifier(
            issuer=config["issuer"], issuer_url=server.url, resource=config["resource"], client_id="orders",
            key=new_key(), require_scopes=lambda _: config["scope"], max_staleness=config["max_staleness_seconds"],
            replay=MemoryReplay(now=lambda: began, monotonic=lambda: self.now),
            now=lambda: self.now, monotonic=lambda: self.now, ssl_context=CONTEXT,
        )  # fmt: skip
        self.verifier._keys.refresh(1.0)
        if not vector.get("unread"):
            self.verifier._follower.step()

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> Reply:
        url = urlsplit(handler.path)
        if url.path == "/.well-known/jwks.json":
            text = self.sets[0]
            self.sets = self.sets[1:] or self.sets
            return (200 if text else 503), {}, text.encode()
        if url.path == "/oauth2/token":
            return json_reply({"access_token": "feed-token", "token_type": "DPoP", "expires_in": 36000})
        if url.path != "/v1/revocations":
            return 404, {}, b""
        self.test.assertEqual(parse_qs(url.query).get("cursor", [""])[0], self.feed["cursor"])
        if self.feed["status"] == 0:
            return None
        kind = self.feed.get("content_type") or "application/json"
        return self.feed["status"], {"Content-Type": kind}, self.feed["body"].encode()

    def run(self, steps: list[Any]) -> None:
        for number, step in enumerate(steps):
            if "feed" in step:
                self.feed = step["feed"]
                self.verifier._follower.step()
            elif "request" in step:
                self.test.assertEqual(self.verdict(step["request"]), step["want"], f"step {number}")
            else:
                self.now += step["advance_seconds"]

    def verdict(self, request: Any) -> Any:
        url = request["url"].partition("://")[2]
        path, _, query = url[url.index("/") :].partition("?")
        values: dict[str, list[str]] = {"authorization": [], "dpop": []}
        for name, value in request["headers"]:
            values.setdefault(name.lower(), []).append(value)
        r = Request(request["method"], path, query, tuple(values["authorization"]), tuple(values["dpop"]))
        try:
            t = self.verifier.verify(r)
        except Refusal as refusal:
            return {"status": refusal.status, **({"error": refusal.code} if refusal.code else {})}
        return {
            "allow": {
                "subject": t.subject, "client_id": t.client_id, "scope": str(t.scope), "task_id": t.task_id,
                "lease_id": t.lease_id, "jkt": t.jkt,
            }
        }  # fmt: skip


class Vectors(unittest.TestCase):
    def test_all(self) -> None:
        paths = sorted(DIRECTORY.glob("*.json"))
        server, count = Server(lambda *_: None), 0
        self.addCleanup(server.close)
        logging.disable(logging.CRITICAL)  # the warnings that the vectors cause
        self.addCleanup(logging.disable, logging.NOTSET)
        for path in paths:
            document = json.loads(path.read_text("utf-8"))
            for vector in document["vectors"]:
                count += 1
                with self.subTest(vector["name"]):
                    Rehearsal(self, server, document, vector).run(vector["steps"])
        self.assertGreaterEqual(count, 200, DIRECTORY)
        print(f"{count} vectors")

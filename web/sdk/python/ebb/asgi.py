"""Middleware for ASGI 3: Starlette, FastAPI, Quart, Django and others, on a server that uses asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import quote

from .verify import Refusal, Request, Verifier

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class ASGIMiddleware:
    """Calls the application only for requests that the verifier accepts; scope["ebb.token"] is the Token.

    It must be the outermost middleware, so that it sees the path as the client sent it. It also serves the metadata of
    the resource. WebSockets are refused. The first request in a process starts the verifier, unless start was called
    before, and waits up to 3 s for it.
    """

    def __init__(self, application: Application, verifier: Verifier) -> None:
        self._application, self._verifier = application, verifier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._application(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        request = request_of(scope)
        if request.path == self._verifier.metadata_path() and request.method in ("GET", "HEAD"):
            headers = [("Content-Type", "application/json"), ("Cache-Control", "max-age=300")]
            return await _send(scope, send, 200, headers, self._verifier.metadata())
        try:
            # In a thread, because it computes and may wait for new keys.
            token = await asyncio.to_thread(lambda: self._verifier.start().verify(request))
        except Refusal as refusal:
            return await _send(scope, send, *self._verifier.answer(refusal))
        nonce = self._verifier.nonce().encode("ascii")

        async def send_with_nonce(message: Message) -> None:
            # Offered before the client needs it (RFC 9449 section 8.2).
            if nonce and message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"dpop-nonce", nonce)]}
            await send(message)

        await self._application({**scope, "ebb.token": token}, receive, send_with_nonce)


async def _send(scope: Scope, send: Send, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
    pairs = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers]
    pairs.append((b"content-length", str(len(body)).encode("ascii")))
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def request_of(scope: Scope) -> Request:
    """Return the Request of a scope of type http."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw else quote(scope["path"], safe="/:@!$&'()*+,;=~[]")
    values: dict[bytes, list[str]] = {b"authorization": [], b"dpop": []}
    for name, value in scope["headers"]:
        if name.lower() in values:
            values[name.lower()].append(value.decode("latin-1"))
    return Request(
        scope["method"], path.partition("?")[0], scope.get("query_string", b"").decode("latin-1"),
        tuple(values[b"authorization"]), tuple(values[b"dpop"]), scope,
    )  # fmt: skip

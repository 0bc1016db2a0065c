"""Middleware for WSGI (PEP 3333): Flask, Django, Pyramid, Bottle and others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from .verify import Refusal, Request, Verifier

Environ: TypeAlias = dict[str, Any]
Application: TypeAlias = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class WSGIMiddleware:
    """Calls the application only for requests that the verifier accepts; environ["ebb.token"] is the Token.

    It must be the outermost middleware, so that it sees the path as the client sent it. It also serves the metadata of
    the resource. The first request in a process starts the verifier, unless start was called before, and
    waits up to 3 s for it.
    """

    def __init__(self, application: Application, verifier: Verifier) -> None:
        self._application, self._verifier = application, verifier

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = request_of(environ)
        if request.path == self._verifier.metadata_path() and request.method in ("GET", "HEAD"):
            headers = [("Content-Type", "application/json"), ("Cache-Control", "max-age=300")]
            return _send(environ, start_response, 200, headers, self._verifier.metadata())
        self._verifier.start()
        try:
            token = self._verifier.verify(request)
        except Refusal as refusal:
            return _send(environ, start_response, *self._verifier.answer(refusal))
        nonce = self._verifier.nonce()

        def start_with_nonce(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            # Offered before the client needs it (RFC 9449 section 8.2).
            return start_response(status, [*headers, ("DPoP-Nonce", nonce)] if nonce else headers, *exc_info)

        return self._application({**environ, "ebb.token": token}, start_with_nonce)


def _send(
    environ: Environ, start_response: Callable[..., Any], status: int, headers: list[tuple[str, str]], body: bytes
) -> list[bytes]:
    start_response(f"{status} {HTTPStatus(status).phrase}", [*headers, ("Content-Length", str(len(body)))])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def request_of(environ: Environ) -> Request:
    """Return the Request of an environ.

    WSGI has the decoded path only. Servers that also have the encoded one name it RAW_URI (gunicorn) or REQUEST_URI
    (uWSGI, Werkzeug, mod_wsgi). It is used when it decodes to the same path.
    """
    decoded = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1")
    path = quote(decoded, safe="/:@!$&'()*+,;=~[]")
    for name in ("RAW_URI", "REQUEST_URI"):
        encoded = str(environ.get(name, "")).partition("?")[0]
        if encoded.startswith("/") and unquote_to_bytes(encoded) == decoded:
            path = encoded
            break
    # Servers join repeated headers with a comma. No token and no proof has one, so that the verifier refuses them.
    authorization, dpop = environ.get("HTTP_AUTHORIZATION"), environ.get("HTTP_DPOP")
    return Request(
        environ["REQUEST_METHOD"], path, environ.get("QUERY_STRING", ""),
        () if authorization is None else (authorization,), () if dpop is None else (dpop,), environ,
    )  # fmt: skip

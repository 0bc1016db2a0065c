"""HTTP with bounds: certificates are verified, redirects are never followed, time and size are limited."""

from __future__ import annotations

import http.client
import ipaddress
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from urllib.parse import urlsplit

from ._strict import shown
from .errors import BadAnswer, Unreachable, UsageError

_CHUNK = 64 << 10


@dataclass(frozen=True)
class Answer:
    """A complete answer of any status."""

    status: int
    headers: Message
    body: bytes

    def header(self, name: str) -> str:
        return self.headers.get(name) or ""

    def media_type(self) -> str:
        return self.header("Content-Type").partition(";")[0].strip().lower()


class Transport:
    """Makes requests over new connections. It is safe for concurrent use.

    A proxy of the environment (HTTPS_PROXY, NO_PROXY) is used for https only, whose content it cannot read.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        context = context or ssl.create_default_context()
        if context.verify_mode != ssl.CERT_REQUIRED or not context.check_hostname:
            raise UsageError("the SSL context does not verify certificates and host names", "use ssl.create_default_context()")
        # Without HTTPErrorProcessor and HTTPRedirectHandler every status is an answer, and no redirect is followed.
        self._secure = _opener(urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler())
        self._plain = _opener(urllib.request.HTTPHandler())

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float, limit: int
    ) -> Answer:
        """Return the answer to one request, of at most limit bytes.

        timeout bounds each wait for the network, and the time until the body is complete. Errors name no part of the
        URL but its host, because a query may contain secrets.
        """
        check_url(url)
        host = urlsplit(url).hostname
        request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
        opener = self._secure if url.startswith("https:") else self._plain
        end = time.monotonic() + timeout
        why = ""
        try:
            with opener.open(request, timeout=timeout) as response:
                return Answer(response.status, response.headers, _read(response, end, limit))
        except urllib.error.URLError as e:
            why = str(e.reason)
        except ValueError:  # http.client refuses a header; its text quotes the value
            why = "a header of the request has characters that are not allowed in headers"
        except (OSError, http.client.HTTPException) as e:
            why = str(e) or type(e).__name__
        raise Unreachable(f"{host} did not answer: {shown(why)}")  # it can quote the server


def _opener(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    opener.addheaders = []
    for handler in handlers:
        opener.add_handler(handler)
    return opener


def _read(response: http.client.HTTPResponse, end: float, limit: int) -> bytes:
    chunks, size = [], 0
    while chunk := response.read1(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise BadAnswer(f"the answer is larger than {limit} bytes")
        if time.monotonic() > end:
            raise TimeoutError("the answer took too long")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(chunks)


def check_url(url: str) -> None:
    """Refuse plain http to hosts other than loopback (RFC 9700 section 2.6), and other schemes."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    # urlsplit drops control characters and urllib reads a backslash and a user differently from browsers.
    if not host or parts.username is not None or not all("!" <= c <= "~" and c != "\\" for c in url):
        named = "the URL" if "@" in url else repr(url)  # a user can have a password
        raise UsageError(f"{named} is not an absolute URL without user", "write it like https://ebb.example.com")
    if parts.scheme == "https" or (parts.scheme == "http" and _loopback(host)):
        return
    raise UsageError("plain http is allowed on loopback only", "use https")


def base_url(name: str, url: str) -> str:
    """Return a base URL without a trailing slash."""
    check_url(url)
    if "?" in url or "#" in url:
        raise UsageError(f"the {name} must have no query and no fragment: {url!r}", "write it like https://ebb.example.com")
    return url.rstrip("/")


def origin(url: str) -> str:
    """Return scheme, host and port, always with the port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or {'https': 443, 'http': 80}[parts.scheme]}"


def loopback_url(url: str) -> bool:
    return _loopback(urlsplit(url).hostname or "")


def _loopback(host: str) -> bool:
    if host == "localhost":  # always this machine (RFC 6761 section 6.3)
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

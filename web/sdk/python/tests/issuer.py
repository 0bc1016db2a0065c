"""An issuer over HTTP whose answers a test chooses."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Status, headers and body; None closes the connection without an answer.
Reply = tuple[int, dict[str, str], bytes] | None


def json_reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    return status, {"Content-Type": "application/json", **(headers or {})}, json.dumps(value).encode()


class Server:
    """answer gets the handler of each request, whose command, path and headers it reads, and its body."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler, bytes], Reply]) -> None:
        self.answer = answer
        outer = self

        class Handler(BaseHTTPRequestHandler):
            wbufsize = -1  # headers and body in one packet

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                reply = outer.answer(self, body)
                if reply is None:
                    self.close_connection = True
                    return
                status, headers, text = reply
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = handle_any

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

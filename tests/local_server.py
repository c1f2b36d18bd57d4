"""What the stand-ins for the Hub have in common: a handler that says what it is told, and nothing on the terminal."""

from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any


class QuietHandler(BaseHTTPRequestHandler):
    """One request over a connection that stays open."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def body(self) -> bytes:
        """What was sent with the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, status: int, headers: Mapping[str, str], content: bytes, sent: int | None = None) -> None:
        """Answer with a content, of which so many bytes are sent (None: all); HEAD has the headers alone."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:sent])

"""A server on 127.0.0.1 that answers as S3 does, and fails on request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Fault = Callable[[str, str, range], int | None]
"""How many bytes of a range of an object are sent before the connection is cut; None is all."""

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


class S3Server:
    """Objects by "bucket/key"; `denied` ones are answered with 403, `busy` counts answers of 503.

    `fault` is asked before each object is sent. `requests` are method, object and range.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.denied: set[str] = set()
        self.busy = 0
        self.fault: Fault | None = None
        self.requests: list[tuple[str, str, range]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        own = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

            def do_GET(self) -> None:
                own.answer(self)

            def do_HEAD(self) -> None:
                own.answer(self)

        return Handler

    @contextmanager
    def running(self) -> Iterator[S3Server]:
        """Serve in a thread."""
        thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        parts = urlsplit(request.path)
        path, query = unquote(parts.path).strip("/"), parse_qs(parts.query, keep_blank_values=True)
        bucket = path.partition("/")[0]
        if self.busy > 0:
            self.busy -= 1
            self._refuse(request, 503, "SlowDown")
        elif path in self.denied or bucket in self.denied:
            self._refuse(request, 403, "AccessDenied")
        elif "list-type" in query:
            self._list(request, bucket, query)
        elif path in self.objects:
            self._send(request, path)
        elif path == bucket and any(key.startswith(f"{bucket}/") for key in self.objects):
            self._write(request, 200, b"", {})
        else:
            self._refuse(request, 404, "NoSuchKey" if "/" in path else "NoSuchBucket")

    def _send(self, request: BaseHTTPRequestHandler, path: str) -> None:
        data = self.objects[path]
        wanted, status = range(len(data)), 200
        found = re.match(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        if found:
            end = min(int(found[2]) + 1 if found[2] else len(data), len(data))
            wanted, status = range(int(found[1]), end), 206
        self.requests.append((request.command, path, wanted))
        some = data[wanted.start : wanted.stop]
        more = {
            "Last-Modified": DATE,
            "ETag": '"0"',
            "Accept-Ranges": "bytes",
        }
        if found:
            more["Content-Range"] = f"bytes {wanted.start}-{wanted.stop - 1}/{len(data)}"
        asked = self.fault is not None and request.command == "GET"
        cut = self.fault(request.command, path, wanted) if self.fault and asked else None
        self._write(request, status, some, more, cut)

    def _list(
        self, request: BaseHTTPRequestHandler, bucket: str, query: dict[str, list[str]]
    ) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys = [key.partition("/")[2] for key in sorted(self.objects)]
        keys = [k for k in keys if f"{bucket}/{k}" in self.objects and k.startswith(prefix)]
        folders = sorted(
            {
                prefix + k[len(prefix) :].split(delimiter)[0] + delimiter
                for k in keys
                if delimiter and delimiter in k[len(prefix) :]
            }
        )
        shown = [k for k in keys if not (delimiter and delimiter in k[len(prefix) :])]
        contents = "".join(
            f"<Contents><Key>{escape(k)}</Key><LastModified>2026-10-21T07:28:00.000Z</LastModified>"
            f"<Size>{len(self.objects[f'{bucket}/{k}'])}</Size></Contents>"
            for k in shown
        )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in folders
        )
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult '
            f'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{bucket}</Name>'
            f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(shown) + len(folders)}</KeyCount>"
            f"<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{contents}{common}"
            "</ListBucketResult>"
        )
        self._write(request, 200, text.encode(), {"Content-Type": "application/xml"})

    def _refuse(self, request: BaseHTTPRequestHandler, status: int, code: str) -> None:
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
        self._write(request, status, text.encode(), {"Content-Type": "application/xml"})

    def _write(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        data: bytes,
        more: dict[str, str],
        cut: int | None = None,
    ) -> None:
        request.send_response(status)
        for name, value in (more | {"Content-Length": str(len(data))}).items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "HEAD":
            return
        request.wfile.write(data if cut is None else data[:cut])
        if cut is not None:
            request.wfile.flush()
            request.close_connection = True
            request.connection.shutdown(SHUT_RDWR)

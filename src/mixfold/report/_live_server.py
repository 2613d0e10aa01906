"""The server of the live page: for this machine alone, and for those who know the address."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from mixfold.core.errors import OutputError

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
STARTING = 30.0  # seconds
QUIET = ("bokeh.server", "tornado.access")


class LiveServer:
    """Serves one page under an address with a random token, in a thread.

    Only requests to 127.0.0.1 or localhost with the server's port are answered, and only those
    without an Origin, or with that of the page itself: pages of other sites cannot read it, even if
    their names lead to this machine. `make` fills a document of Bokeh for each browser.
    """

    def __init__(self, make: Callable[[Any], object], port: int | None = None) -> None:
        self.token = secrets.token_urlsafe(24)
        self._make: Any = make
        self._socket = _bound(port)
        self.port: int = self._socket.getsockname()[1]
        self._started = Event()
        self._error: Exception | None = None
        self._loop: Any = None
        self._thread = Thread(target=self._run, name="mixfold-page", daemon=True)

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def start(self) -> None:
        """Answer requests, until `close`."""
        self._thread.start()
        self._started.wait(STARTING)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # whoever starts the server is told
            self._error = error
            self._started.set()

    async def _serve(self) -> None:
        from bokeh.server.server import BaseServer
        from bokeh.server.tornado import BokehTornado
        from bokeh.settings import settings
        from tornado.httpserver import HTTPServer
        from tornado.ioloop import IOLoop

        hosts = [f"{name}:{self.port}" for name in NAMES]
        pages = BokehTornado(
            {"/": self._make},
            prefix=self.token,
            absolute_url=f"http://{hosts[0]}",
            extra_websocket_origins=hosts,
            use_index=False,
            unused_session_lifetime_milliseconds=10_000,
        )
        pages.add_transform(_headers())
        settings.log_level = "error"  # pages without data yet are no news for the console either
        for name in QUIET:  # that a browser is gone or was refused is no news for the terminal
            logging.getLogger(name).setLevel(logging.ERROR)
        http = HTTPServer(_guarded(pages, hosts))
        http.add_socket(self._socket)
        server = BaseServer(IOLoop.current(), pages, http)
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server.start()
        self._started.set()
        await self._stop.wait()
        server.stop()
        await http.close_all_connections()

    def close(self) -> None:
        """Answer no more requests."""
        if self._loop is None:
            self._socket.close()
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STARTING)


def _bound(port: int | None) -> socket.socket:
    """A socket on a port, by default a free one."""
    try:
        found = socket.create_server((ADDRESS, port or 0))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(
            f"port {port} of {ADDRESS} cannot be used ({reason}): choose another with port=... "
            "(--port), or leave it out for a free one"
        ) from None
    found.setblocking(False)
    return found


def _guarded(pages: Any, hosts: list[str]) -> Any:
    """The application, for requests of the page itself only; others are not found."""
    from tornado.routing import Matcher, Rule, RuleRouter

    origins = [f"http://{host}" for host in hosts]

    class SamePage(Matcher):
        """Whether a request is for one of the hosts, and from none or one of the origins."""

        def match(self, request: Any) -> dict[str, Any] | None:
            headers = request.headers
            origin = headers.get("Origin") or headers.get("Sec-Websocket-Origin")
            good = request.host.lower() in hosts and (origin is None or origin.lower() in origins)
            return {} if good else None

    return RuleRouter([Rule(SamePage(), pages)])


def _headers() -> Any:
    """Adds headers to every answer."""
    from tornado.web import OutputTransform

    class Headers(OutputTransform):
        """Headers that keep the page out of caches, frames and the logs of other sites."""

        def transform_first_chunk(
            self, status_code: int, headers: Any, chunk: bytes, finishing: bool
        ) -> tuple[int, Any, bytes]:
            for name, text in HEADERS.items():
                headers[name] = text
            return status_code, headers, chunk

    return Headers

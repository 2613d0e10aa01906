"""Who is answered by the server of the live page."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import closing
from email.message import Message
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pytest

from mixfold import Mixture
from mixfold.errors import OutputError
from mixfold.report._live_page import LivePage
from mixfold.report._live_server import LiveServer
from mixfold.report._stream_watcher import StreamWatcher
from mixfold.report._watched_model import WatchedDetector
from mixfold.report.watch_options import WatchOptions
from mixfold.report.watching import detector_of
from mixfold.sources.growing_iterable import GrowingIterable

HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """The page of a stream that has not begun."""
    model = WatchedDetector(detector_of(Mixture(n_components=2), 0.01))
    watcher = StreamWatcher(GrowingIterable([np.zeros((1, 2))]), model, WatchOptions())

    def show(document: object) -> None:
        LivePage(watcher, document)

    found = LiveServer(show)
    found.start()
    yield found
    found.close()
    watcher.close()


class Answer(NamedTuple):
    status: int
    headers: Message
    text: str


def answer(server: LiveServer, path: str, headers: dict[str, str] | None = None) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    host = {"Host": f"127.0.0.1:{server.port}", "Connection": "close"}
    with closing(connection):
        connection.request("GET", path, headers=host | (headers or {}))
        found = connection.getresponse()
        return Answer(found.status, found.headers, found.read().decode())


def page_of(server: LiveServer) -> str:
    return urlsplit(server.url).path


def test_the_page_is_found_by_its_address_only(server: LiveServer) -> None:
    found = answer(server, page_of(server))
    assert found.status == 200
    assert "mixfold watch: the iterable" in found.text
    assert found.headers["X-Frame-Options"] == "DENY"
    assert found.headers["Referrer-Policy"] == "no-referrer"
    token = server.token
    assert len(token) >= 32
    for path in ("/", f"/{token[:-1]}/", "/static/js/bokeh.min.js", "/ws", f"/x{token}/"):
        assert answer(server, path).status == 404


def test_nothing_is_loaded_from_elsewhere(server: LiveServer) -> None:
    text = answer(server, page_of(server)).text
    places = [part.split('"')[0] for part in text.split('src="')[1:]]
    assert places
    assert all(place.startswith(page_of(server)) for place in places)
    assert answer(server, places[0]).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "127.0.0.1.evil.example:{port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_other_hosts_and_origins_are_refused(server: LiveServer, headers: dict[str, str]) -> None:
    given = {name: text.format(port=server.port) for name, text in headers.items()}
    assert answer(server, page_of(server), given).status == 404
    assert answer(server, f"{page_of(server)}ws", HANDSHAKE | given).status == 404


def test_the_pages_own_origin_is_accepted(server: LiveServer) -> None:
    for name in ("127.0.0.1", "localhost"):
        host = f"{name}:{server.port}"
        own = {"Host": host, "Origin": f"http://{host}"}
        assert answer(server, page_of(server), own).status == 200


def test_only_this_machine_is_answered(server: LiveServer) -> None:
    with socket.socket() as other:
        other.settimeout(5)
        assert other.connect_ex(("127.0.0.2", server.port)) != 0


def test_a_port_that_is_taken_is_named_with_the_remedy(server: LiveServer) -> None:
    with pytest.raises(OutputError, match=rf"port {server.port} of .* in use.*\(--port\)"):
        LiveServer(lambda document: None, server.port)

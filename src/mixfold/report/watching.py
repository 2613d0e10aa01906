"""Watching a stream: a model that learns, and a page that shows it."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

from mixfold.core.errors import InvalidInputError, MissingExtraError, SourceError
from mixfold.core.growing_source import GrowingSource
from mixfold.core.registry import is_called
from mixfold.estimators.anomaly_detector import AnomalyDetector
from mixfold.estimators.mixture import Mixture
from mixfold.families.product import Product
from mixfold.report._live_page import LivePage
from mixfold.report._live_server import LiveServer
from mixfold.report._stream_watcher import StreamWatcher
from mixfold.report._watched_model import WatchedDetector
from mixfold.report.watch_options import WatchOptions
from mixfold.sources.growing_iterable import GrowingIterable

OFTEN = 0.001  # the rate of false alarms if none is given
LOOK = 0.2  # seconds between looks whether learning has ended


def learns_numbers(mixture: Any) -> bool:
    """Whether a mixture takes numbers only, so that other cells make a row a bad one."""
    family = mixture.family
    return not (is_called(family, "auto") or isinstance(family, Product))


def columns_of(mixture: Any, columns: Sequence[str] | None = None) -> list[str] | None:
    """The columns that a mixture reads: those it has learned, or those that are chosen."""
    known = getattr(mixture, "feature_names_in_", None)
    if known is not None:
        return [str(name) for name in known]
    chosen = columns if columns is not None else mixture.columns
    return None if chosen is None else list(chosen)


def detector_of(model: Any, false_alarm_rate: float | None = None) -> AnomalyDetector:
    """The detector that learns a stream: the one that is given, or one around a mixture."""
    if not isinstance(model, AnomalyDetector):
        rate = OFTEN if false_alarm_rate is None else false_alarm_rate
        return AnomalyDetector.from_mixture(model, false_alarm_rate=rate)
    if false_alarm_rate is not None:
        raise InvalidInputError(
            f"false_alarm_rate is {false_alarm_rate!r}, and the detector has a rate of its own: "
            "leave one of them out"
        )
    if hasattr(model, "estimator_"):
        return copy(model)
    settings = model.get_params(deep=False)
    return AnomalyDetector.from_mixture(settings.pop("estimator") or Mixture(), **settings)


@contextmanager
def watched(
    source: GrowingSource,
    detector: AnomalyDetector,
    options: WatchOptions,
    port: int | None = None,
) -> Iterator[tuple[StreamWatcher, str]]:
    """A thread that learns the rows of a source, and the address of its page.

    At the end everything is saved, and the page is not served any more.
    """
    _check_bokeh()
    watcher = StreamWatcher(source, WatchedDetector(detector), options)
    server = LiveServer(partial(LivePage, watcher), port)
    try:
        server.start()
        watcher.start()
        yield watcher, server.url
    finally:
        watcher.close()
        server.close()


def watch_source(
    source: GrowingSource,
    detector: AnomalyDetector,
    options: WatchOptions,
    *,
    port: int | None = None,
    ready: Callable[[str], None] = print,
    open_browser: bool = False,
) -> StreamWatcher:
    """Learn the rows of a source until it ends, or until Ctrl-C, and serve the live page.

    `ready` is called with the address of the page. With `exit_at_end` of the options this returns
    when the source has ended or learning has stopped; otherwise the page stays up until an
    interrupt, which is raised when everything is saved.
    """
    with watched(source, detector, options, port) as (watcher, address):
        ready(address)
        if open_browser:
            webbrowser.open(address)
        while not (watcher.finished.wait(LOOK) and options.exit_at_end):
            pass
    return watcher


def _check_bokeh() -> None:
    try:
        import bokeh.server.server  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("bokeh", "report", "the live page") from error


def watch(
    items: Iterable[Any],
    model: Any,
    *,
    output: str | Path = "model.mixfold",
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 30.0,
    on_bad_row: str = "skip",
    exit_at_end: bool = False,
    false_alarm_rate: float | None = None,
    port: int | None = None,
    open_browser: bool = False,
    name: str = "the iterable",
) -> Any:
    """Learn the items of an iterable as they come, and show a live page on this machine.

    Rows are scored before they are learned. The page shows their log-density, the components, the
    speed, and the alarms of an `AnomalyDetector`, with the columns that made them. It prints its
    address, and is served until Ctrl-C.

    Parameters
    ----------
    items : iterable
        Dicts of columns, rows of numbers, or tables and arrays of several rows; for example the
        values of the messages of a Kafka consumer.
    model : Mixture or AnomalyDetector
        The mixture that learns, fitted or not, or a detector with a rate of its own.
    output : path, default="model.mixfold"
        The model file, written when the page is asked to save and when learning stops.
    checkpoint : path, default=None
        Learning continues from this file if it exists, and saves to it while it runs. An iterable
        has no positions: give one that begins with the rows that have not been learned.
    checkpoint_every : float, default=30
        Seconds between checkpoints.
    on_bad_row : {"skip", "stop"}, default="skip"
        What to do with rows that cannot be read or learned.
    exit_at_end : bool, default=False
        Return when the iterable ends, instead of serving the page until Ctrl-C.
    false_alarm_rate : float, default=None
        The fraction of normal rows that raise alarms; None is 0.001, or that of the detector.
    port : int, default=None
        The port of the page; None is a free one.
    open_browser : bool, default=False
    name : str
        What the page calls the iterable.

    Returns
    -------
    The `AnomalyDetector` that has learned, whose mixture is `estimator_`. `output` holds it too.

    Examples
    --------
    >>> import os, tempfile
    >>> from mixfold import Mixture, datasets
    >>> from mixfold.report import watch
    >>> rows = ({"eruption": a, "wait": b} for a, b in datasets.load_faithful().tolist())
    >>> mixture = Mixture(n_components=2, random_state=0)
    >>> file = os.path.join(tempfile.mkdtemp(), "faithful.mixfold")
    >>> detector = watch(rows, mixture, output=file, exit_at_end=True)  # doctest: +ELLIPSIS
    http://127.0.0.1:.../
    >>> detector.estimator_.n_rows_
    272
    """
    detector = detector_of(model, false_alarm_rate)
    columns, numbers = columns_of(detector.estimator_), learns_numbers(detector.estimator_)
    options = WatchOptions(
        Path(output),
        None if checkpoint is None else Path(checkpoint),
        checkpoint_every,
        on_bad_row,
        exit_at_end,
    )
    watcher = watch_source(
        GrowingIterable(items, columns, numbers, name),
        detector,
        options,
        port=port,
        open_browser=open_browser,
    )
    if watcher.error is not None:
        raise SourceError(watcher.error)
    return watcher.model.estimator

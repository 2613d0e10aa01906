"""What the estimators of mixtures keep of what they have learned, and show of it."""

from __future__ import annotations

from collections import deque
from copy import copy
from pathlib import Path
from typing import Any, ClassVar

from sklearn.utils.validation import check_is_fitted

from mixfold.estimators._absent import why_absent
from mixfold.estimators._evaluation import Evaluation
from mixfold.estimators._learned import Learned
from mixfold.estimators._limits import warn_of_degenerate
from mixfold.estimators._row_stream import RowStream
from mixfold.fitting.snapshot import MOST, Snapshot


class LearnedAttributes(Evaluation):
    """A mixture whose attributes are those of what it has learned."""

    _learns: ClassVar[type] = Learned
    _shows: tuple[str, ...] = Learned.public
    _live: RowStream | None = None  # what learns rows one by one

    def _check_learned(self, learned: Learned) -> None:
        """Refuse what this estimator cannot have learned."""
        learned.check()

    def _remember(self, learned: Learned) -> None:
        for name in self._shows:
            self.__dict__.pop(name, None)
        self._learned, self._live = learned, None
        self.__dict__.setdefault("_copies", deque[Snapshot](maxlen=MOST))
        shown = self._attributes(learned)
        self._shows = tuple(dict.fromkeys((*type(self)._shows, *shown)))  # families add their own
        self.__dict__.update(shown)

    def _attributes(self, learned: Learned) -> dict[str, Any]:
        """What the estimator shows of what it has learned."""
        return learned.attributes()

    def _warn_of_degenerate(self) -> None:
        learned, columns = self._learned, getattr(self, "feature_names_in_", None)
        if learned.n_degenerate:
            warn_of_degenerate(learned.model, learned.params, columns)

    def _now(self) -> Learned:
        """What has been learned, rows of `learn_one` included."""
        here = self.__dict__  # once: another thread may put another one in its place
        live: RowStream | None = here.get("_live")
        if live is not None:
            now, copies = live.settled(), here["_copies"].copy()
            return now.with_snapshots(one for one in copies if one.n_seen < now.n_seen)
        learned: Learned = here["_learned"]
        return learned

    def __getattr__(self, name: str) -> Any:
        model = self._twin()
        if name in model._shows:
            # rows are being learned one by one, or another thread has just stored what it learned
            shown = model.__dict__ if model._live is None else model._attributes(model._now())
            if name in shown:
                return shown[name]
            if name.startswith("precisions_") and "_learned" in model.__dict__:
                shown = model._now().precisions()
            if name in shown:
                return shown[name]
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{model._why_absent(name)}"
        )

    def _why_absent(self, name: str) -> str:
        """Why an attribute of fitted models is not there, and what to do."""
        if name not in self._shows:
            return ""
        learned = self.__dict__.get("_learned")
        return ": call fit first" if learned is None else f": {why_absent(name, learned)}"

    def __getstate__(self) -> Any:
        """The state of a copy, which may go on learning by itself."""
        model = self._twin()
        if "_learned" not in model.__dict__:
            return super(LearnedAttributes, model).__getstate__()
        if model._live is not None:
            model._remember(model._now())
        now, copies = model._learned.present(), model._copies
        known = {one.n_seen for one in copies.copy()}
        copies.extend([one for one in now if one.n_seen not in known])
        model._copies = deque(now, maxlen=MOST)
        return super(LearnedAttributes, model).__getstate__()

    def save(self, path: str | Path) -> None:
        """Write a model file that `mixfold.load` reads, here or elsewhere."""
        check_is_fitted(self)
        super(LearnedAttributes, copy(self)).save(path)

    def __sklearn_is_fitted__(self) -> bool:
        return "_learned" in self.__dict__

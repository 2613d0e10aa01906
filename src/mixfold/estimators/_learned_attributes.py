"""The fitted attributes of the estimators of mixtures."""

from __future__ import annotations

from collections import deque
from copy import copy
from pathlib import Path
from typing import Any, ClassVar

from sklearn.utils.validation import check_is_fitted

from mixfold.estimators._absent import why_absent
from mixfold.estimators._learned import Learned
from mixfold.estimators._limits import warn_of_degenerate
from mixfold.estimators._pictures import Pictures
from mixfold.estimators._row_stream import RowStream
from mixfold.fitting.snapshot import MOST, Snapshot


class LearnedAttributes(Pictures):
    """A mixture whose fitted attributes are computed from its learned state."""

    _learns: ClassVar[type] = Learned
    _shows: tuple[str, ...] = Learned.public
    _live: RowStream | None = None  # the working copy for `learn_one`

    def _check_learned(self, learned: Learned) -> None:
        """Raise an error for a learned state that this estimator cannot have."""
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
        """The fitted attributes."""
        return learned.attributes(self.__dict__.get("feature_names_in_"))

    def _warn_of_degenerate(self) -> None:
        learned, columns = self._learned, getattr(self, "feature_names_in_", None)
        if learned.n_degenerate:
            warn_of_degenerate(learned.model, learned.params, columns)

    def _now(self) -> Learned:
        """The learned state, including rows of `learn_one`."""
        here = self.__dict__  # read once: another thread may replace it
        live: RowStream | None = here.get("_live")
        if live is not None:
            now, copies = live.settled(), here["_copies"].copy()
            if now.n_degenerate and not here["_warned"]:
                here["_warned"].append(True)
                warn_of_degenerate(now.model, now.params, here.get("feature_names_in_"))
            return now.with_snapshots(one for one in copies if one.n_seen < now.n_seen)
        learned: Learned = here["_learned"]
        return learned

    def _current(self) -> Learned:
        live: RowStream | None = self.__dict__.get("_live")
        known = None if live is None else live.current()
        return self._now() if known is None else known

    def __getattr__(self, name: str) -> Any:
        model = self._twin()
        # a family's own attributes; names of columns are never computed
        late = model._live is not None and name[-1] == "_" and name[0] != "_"
        if (late and not name.endswith("_in_")) or name in model._shows:
            # `learn_one` is in use, or another thread has just stored its state
            shown = model.__dict__ if model._live is None else model._attributes(model._current())
            if name in shown:
                return shown[name]
            if name.startswith("precisions_") and "_learned" in model.__dict__:
                shown = model._current().precisions()
            if name in shown:
                return shown[name]
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{model._why_absent(name)}"
        )

    def _why_absent(self, name: str) -> str:
        """Why a fitted attribute is missing, and what to do."""
        if name not in self._shows:
            return ""
        learned = self.__dict__.get("_learned")
        return ": call fit first" if learned is None else f": {why_absent(name, learned)}"

    def __getstate__(self) -> Any:
        """The state of a copy, which may continue to learn."""
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

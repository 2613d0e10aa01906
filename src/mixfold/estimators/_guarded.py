"""Estimators that several threads may use at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Self

from sklearn.base import BaseEstimator


class Guarded(BaseEstimator):  # type: ignore[misc]
    """One thread learns at a time; the others read what was there before until it is done.

    All that an estimator is lies in its `__dict__`, which is replaced as a whole: a thread that
    reads it once has everything of one moment.
    """

    _writing: Any = None

    def _lock(self) -> Any:
        """What a thread holds while it learns; copies have their own."""
        return self._writing or self.__dict__.setdefault("_writing", RLock())

    def _twin(self) -> Self:
        """Another estimator that is the same, and of which no other thread knows."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    @contextmanager
    def _learning(self) -> Iterator[Self]:
        """A twin that is to learn; the estimator becomes what it is then.

        A failed call leaves the estimator as it was; an interrupt keeps what was learned.
        """
        with self._lock():
            twin = self._twin()
            before = twin.__dict__.get("_learned")
            keep = False
            try:
                yield twin
                keep = True
            except BaseException as error:
                learned = twin.__dict__.get("_learned")
                keep = not isinstance(error, Exception) and learned is not before
                raise
            finally:
                if keep:
                    self.__dict__ = twin.__dict__

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        state.pop("_writing", None)
        return state

"""Estimators that several threads may use at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Self

from sklearn.base import BaseEstimator

from mixfold.core.registry import is_called
from mixfold.estimators._nested_params import nested_params, part_of, set_nested


class Guarded(BaseEstimator):  # type: ignore[misc]
    """Only one thread learns at a time; others use the previous state until it is done.

    The whole state of an estimator is its `__dict__`, which is replaced as a whole, so that a
    thread that reads it once has a consistent state.
    """

    _writing: Any = None
    _own_learner = ""  # the name of a learner whose parameters are those of the estimator itself

    def _lock(self) -> Any:
        """The lock that a thread holds while it learns; copies have their own."""
        return self._writing or self.__dict__.setdefault("_writing", RLock())

    def _twin(self) -> Self:
        """A copy of the estimator that no other thread uses."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, with `deep` also those of the family, the learner and so on.

        Nested parameters are called `family__covariance`, `learner__batch_size`. If the family or
        learner was given by name, they are its defaults.
        """
        found: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name, given in [*found.items()]:
                part = self._part(name, given)
                found |= {} if part is None else nested_params(name, part)
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the family or the learner by names like `learner__batch_size`.

        If the learner was given by name, it is replaced by a learner object. After an error no
        parameter is changed.
        """
        now = self.get_params(deep=False)
        for name, given in set_nested(type(self).__name__, now, params, self._part).items():
            setattr(self, name, given)
        return self

    def _part(self, name: str, given: Any) -> Any:
        """The family, learner or initializer that is the value of a parameter; None for others."""
        own = name == "learner" and is_called(given, self._own_learner)
        return None if own else part_of(name, given)

    def _most_passes(self) -> int | None:
        """Passes that a fit makes at most; None where `max_iter` is for the own learner alone."""
        most: int | None = None if self._own_learner else self.get_params(deep=False)["max_iter"]
        return most

    @contextmanager
    def _learning(self) -> Iterator[Self]:
        """A copy that learns; afterwards the estimator takes its state.

        A failed call leaves the estimator unchanged; an interrupt keeps what was learned.
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

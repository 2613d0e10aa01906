"""Estimators of mixed models whose public attributes are made from one learned state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from mixfold.estimators._guarded import Guarded


class FittedState(Guarded):
    """The state is `_learned`; it can be checked, replaced as a whole, and saved."""

    _learned: Any

    def _check_learned(self, learned: Any) -> None:
        """Raise an error for a learned state that this estimator cannot have."""
        learned.check()

    def _remember(self, learned: Any) -> None:
        for name in ("groups_", "random_effects_"):  # which data from files do not have
            self.__dict__.pop(name, None)
        self._learned = learned
        self.__dict__.update(learned.attributes())

    def _now(self) -> Any:
        return self._learned

    def __sklearn_is_fitted__(self) -> bool:
        return "_learned" in self.__dict__

    def save(self, path: str | Path) -> None:
        """Write a model file that `mixfold.load` reads, here or elsewhere."""
        from mixfold.estimators.saving import save

        check_is_fitted(self)
        save(self, path)

"""Windows of a stream compared with a reference, which is replaced from time to time."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.backend import Backend
from mixfold.core.checks import check_count
from mixfold.core.errors import InvalidInputError
from mixfold.core.params import Params
from mixfold.core.rows import Array, Rows, join, no_rows
from mixfold.core.value import replace, value
from mixfold.learners._window_features import WindowFeatures, features_of

SAMPLE = 8  # windows of the sample of a reference
LEAST_SAMPLE = 256  # its rows, if windows are short
FIRST, GROWTH = 16, 4  # windows after which there is a second reference, and the factor for others
OF_CHANGE = 3  # windows that a detector of log-likelihoods needs to detect a change
KNOWN = 32  # windows after which a reference replaces the one before


@value
class Reference:
    """A sample of rows under frozen parameters and, once it is complete, windows compared with it.

    `detected` is the state of the detector, and `windows` are those compared.
    """

    params: Params
    sample: Rows
    features: WindowFeatures | None
    detected: Any
    windows: int


@value
class WindowMonitor:
    """The reference in use and the next one, after so many windows."""

    now: Reference | None
    later: Reference | None
    windows: int

    def check(self, model: Any, detector: Any) -> None:
        """Raise an error for a state that is not valid for the model."""
        check_count("windows", self.windows)
        for one in (self.now, self.later):
            if one is None:
                continue
            model.check_params(one.params)
            model.check_rows(one.sample)
            check_count("windows", one.windows)
            if one.features is not None:
                one.features.check(model)
            detector.check_state(one.detected)
            if detector.reads == "features":
                _check_numbers(one)

    @property
    def drift_detected(self) -> bool:
        """Whether the last window differs from those before."""
        return self.now is not None and bool(self.now.detected.drift_detected)

    def step(self, backend: Backend, detector: Any, params: Params, window: Rows) -> WindowMonitor:
        """The state after a window; `params` are those before it was learned."""
        now, later, n = self.now, self.later, self.windows
        if now is None:
            now = _begun(backend, detector, params)
        elif later is None and _is_due(n):
            later = _begun(backend, detector, params)
        now = _compared(backend, detector, now, window)
        if later is not None:
            later = _compared(backend, detector, later, window)
            if later.windows >= KNOWN and not now.detected.drift_detected:
                now, later = later, None
        return WindowMonitor(now, later, n + 1)

    @property
    def since(self) -> int:
        """The number of last windows that are taken to be from after the change."""
        known = 0 if self.now is None else getattr(self.now.detected, "since", 0)
        return max(1, known - 1) if known else OF_CHANGE  # the first may be from before in part

    def moved(self, backend: Backend, window: Rows) -> Array:
        """How far columns have moved, in deviations; empty where that is not known."""
        features = None if self.now is None else self.now.features
        return np.empty(0) if features is None else features.moved(backend, window)

    def reordered(self, order: np.ndarray) -> WindowMonitor:
        """Windows are compared anew where components have changed places."""
        return self if (np.diff(order) == 1).all() else no_windows()


def _check_numbers(reference: Reference) -> None:
    """Refuse a state of the detector that is not for as many numbers as there are features."""
    known, used = len(reference.detected.mean), 0
    if reference.features is not None:
        used = int((reference.features.used > 0.0).sum())
    if known not in (0, used):
        raise InvalidInputError(f"the detector has {known} numbers, and the windows have {used}")


def no_windows() -> WindowMonitor:
    """The state before the first window, and after a change."""
    return WindowMonitor(None, None, 0)


def _is_due(windows: int) -> bool:
    at = FIRST
    while at < windows:
        at *= GROWTH
    return at == windows


def _begun(backend: Backend, detector: Any, params: Params) -> Reference:
    return Reference(params, no_rows(backend.model.d), None, detector.init(), 0)


def _compared(backend: Backend, detector: Any, reference: Reference, window: Rows) -> Reference:
    """The reference after another window, which is one of its sample or compared with it."""
    if reference.features is None:
        sample = join([reference.sample, window]) if len(reference.sample) else window.copy()
        if len(sample) < max(SAMPLE * len(window), LEAST_SAMPLE):
            return replace(reference, sample=sample)
        features = features_of(backend, reference.params, sample, len(window))
        return replace(reference, sample=no_rows(backend.model.d), features=features)
    after = replace(reference, windows=reference.windows + 1)
    if detector.reads == "log-likelihood":
        return after
    features, several = reference.features, detector.reads == "features"
    found = features.means(backend, window) if several else features.density(backend, window)
    return replace(after, detected=detector.step(reference.detected, found))

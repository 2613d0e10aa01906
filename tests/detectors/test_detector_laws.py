"""The laws of detectors, over everything the registry finds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mixfold.core.detector import Detector
from mixfold.core.registry import find_all
from mixfold.testing import detectors


@pytest.mark.parametrize("law", detectors.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("kind", find_all("detectors").values(), ids=lambda kind: kind.__name__)
def test_detector(law: Callable[[Detector], None], kind: type[Detector]) -> None:
    law(kind())

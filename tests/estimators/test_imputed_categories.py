"""Categories that are filled have the most probable level, also where there are two."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mixfold import Mixture


@pytest.mark.parametrize("method", ["mean", "mode"])
@pytest.mark.parametrize("common", ["a", "b"])
def test_two_levels(method: str, common: str) -> None:
    rare = {"a": "b", "b": "a"}[common]
    x = np.random.default_rng(0).normal(size=100)
    data = pd.DataFrame({"x": x, "sex": [rare] * 5 + [common] * 95})
    model = Mixture("auto", learner="em").fit(data)
    filled = model.impute(pd.DataFrame({"x": [0.0, 1.0], "sex": [None, None]}), method)
    assert filled["sex"].tolist() == [common, common]

"""Weights of rows in fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from cluster_rows import CENTERS, clusters, matched
from mixfold import Mixture
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM

# weights


@pytest.mark.parametrize("family", ["gaussian", "poisson", "exponential"])
@pytest.mark.parametrize("learner", ["auto", "em", EM(accelerate=True)], ids=repr)
def test_a_weight_stands_for_repetitions(family: str, learner: Any) -> None:
    x = np.round(np.abs(clusters(200)))
    counts = np.random.default_rng(0).integers(0, 4, size=200)
    # parameters: a start from centres counts weights in units of their mean
    centres = np.abs(CENTERS) + 0.5
    start = Mixture(family, 3, init=centres, learner=EM(max_iter=1)).fit(x)
    weighted = Mixture(family, 3, init=start, learner=learner).fit(x, sample_weight=counts)
    repeated = Mixture(family, 3, init=start, learner=learner).fit(np.repeat(x, counts, axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-5)
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-5)


def test_equal_weights_do_not_matter() -> None:
    x = clusters()
    for learner in ("em", "mini-batch-em", "online-em"):
        plain, ones = (
            Mixture(n_components=3, learner=learner, random_state=0).fit(x, sample_weight=weight)
            for weight in (None, np.ones(300))
        )
        np.testing.assert_allclose(ones.means_, plain.means_, rtol=1e-9)


def test_rows_of_weight_zero_do_not_matter() -> None:
    x = np.vstack([clusters(), np.full((300, 2), 1e3)])
    weight = np.r_[np.ones(300), np.zeros(300)]
    for learner in ("auto", "em", MiniBatchEM(batch_size=100), "online-em"):
        model = Mixture(n_components=3, init=CENTERS, learner=learner, random_state=0)
        assert matched(model.fit(x, sample_weight=weight).means_) < 1.0


def test_weights_by_the_name_of_a_column(tmp_path: Path) -> None:
    x, weight = clusters(), np.random.default_rng(0).uniform(size=300)
    table = pd.DataFrame({"a": x[:, 0], "w": weight, "b": x[:, 1]})
    table.to_parquet(tmp_path / "x.parquet")
    array = Mixture(n_components=3, init=CENTERS, learner="em").fit(x, sample_weight=weight)
    for data in (table, tmp_path / "x.parquet", pa.Table.from_pandas(table)):
        model = Mixture(n_components=3, init=CENTERS, learner="em").fit(data, sample_weight="w")
        assert model.feature_names_in_.tolist() == ["a", "b"]
        np.testing.assert_allclose(model.means_, array.means_, rtol=1e-9)

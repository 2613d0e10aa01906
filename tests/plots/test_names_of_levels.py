"""The names of levels below a panel of bars."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixfold import Mixture


def test_names_of_levels_do_not_touch() -> None:
    sizes = np.array(["1", "10", "20", "100", "500", "1000", "5000", "10000"])
    rows = pd.DataFrame(
        {"size": pd.Categorical(np.tile(sizes, 20), sizes), "a": np.arange(160.0) % 7}
    )
    drawn = Mixture("auto", 1, random_state=0).fit(rows).plot(rows)[0]
    drawn.figure.canvas.draw()
    assert [one.get_text() for one in drawn.get_xticklabels()] == sorted(sizes)
    assert {one.get_rotation() for one in drawn.get_xticklabels()} == {30.0}

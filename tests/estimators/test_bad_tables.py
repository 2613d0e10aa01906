"""Tables that cannot be modelled: every message has the name, the value and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import mixfold
from mixfold import Beta, Categorical, Gaussian, Mixture, Poisson, Product
from mixfold.core.errors import MixfoldError
from mixfold.core.value import equal

N = 90
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "height": RNG.normal(170.0, 9.0, N),
        "visits": RNG.poisson(9.0, N),
        "share": RNG.beta(2.0, 3.0, N),
        "colour": RNG.choice(["blue", "green", "red"], N),
        "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(RNG.integers(300, size=N), "D"),
    }
)
ROW = FRAME.iloc[0].to_dict()


def auto(**settings: Any) -> Mixture:
    return Mixture("auto", 1, random_state=0, **settings)


@pytest.fixture(scope="module")
def model() -> Mixture:
    return auto(overrides={"visits": Poisson()}).fit(FRAME)


def with_interval() -> Any:
    months = pa.array([(1, 2, 3)] * N, pa.month_day_nano_interval())
    return pa.Table.from_pandas(FRAME).append_column("odd", months)


UNFIT: dict[str, tuple[Callable[[], Any], str]] = {
    "lists": (
        lambda: auto().fit(FRAME.assign(odd=[[1, 2]] * N)),
        "'odd' is list<.*>: one value a row is needed; leave it out, or make columns",
    ),
    "structures": (lambda: auto().fit(FRAME.assign(odd=[{"a": 1}] * N)), "'odd' is struct.*leave"),
    "intervals of a calendar": (
        lambda: auto().fit(with_interval()),
        "'odd' is month_day_nano_interval: make numbers",
    ),
    "periods": (
        lambda: auto().fit(FRAME.assign(odd=pd.period_range("2026-01-01", periods=N))),
        "'odd' is .*period.*: make numbers, text or dates",
    ),
    "objects": (lambda: auto().fit(FRAME.assign(odd=[object()] * N)), "odd.*values of one type"),
    "mixed values": (lambda: auto().fit(FRAME.assign(odd=[1, "a"] * (N // 2))), "odd.*one type"),
    "no numbers": (
        lambda: auto().fit(FRAME.assign(height=np.nan)),
        r"'height' has no values in 90 rows: leave it out with columns=\[\.\.\.\] \(--columns\)",
    ),
    "no text": (
        lambda: auto().fit(FRAME.assign(colour=pd.Series([None] * N, dtype="string"))),
        "'colour' has no values in 90 rows: leave it out",
    ),
    "no category": (
        lambda: auto().fit(FRAME.assign(colour=pd.Categorical([None] * N, ["a", "b"]))),
        "'colour' has no values in 90 rows: leave it out",
    ),
    "no values for a product": (
        lambda: Mixture(Product({"height": "gaussian"}), 1).fit(FRAME.assign(height=np.nan)),
        "'height' has no values in 90 rows: leave it out",
    ),
    "no value in an array": (
        lambda: Mixture("gaussian", 1).fit(np.full((9, 2), np.nan)),
        r"column 1 \(counted from 1\) has no values in 9 rows: leave it out",
    ),
    "outside the support of a product": (
        lambda: Mixture(Product({"height": "gamma"}), 1).fit(
            FRAME.assign(height=FRAME["height"].where(FRAME.index != 7, -1.0))
        ),
        r"row 8 .*'height' is -1\.0: values must be above 0 in a gamma mixture; leave out such",
    ),
    "outside the support of an override": (
        lambda: auto(overrides={"height": Beta()}).fit(FRAME),
        r"row 1 .*'height' is 1\d\d\.\d+: .*below 1 in a beta mixture; .*another family",
    ),
    "a code that is too large": (
        lambda: Mixture(Product({"code": Categorical(3)}), 1).fit(
            pd.DataFrame({"code": [0, 1, 2, 3]})
        ),
        r"row 4 .*'code' is 3\.0: .*whole numbers from 0 to 2 in a categorical mixture; leave out",
    ),
    "a code below 0": (
        lambda: Mixture(Categorical(3), 1).fit(np.array([[0.0, 1.0], [-1.0, 2.0]])),
        r"row 2, column 1 .*is -1\.0: .*from 0 to 2 in a categorical mixture; leave out",
    ),
    "a code with a fraction": (
        lambda: Mixture(Categorical(3), 1).fit(np.array([[0.0, 0.5], [1.0, 2.0]])),
        r"row 1, column 2 .*is 0\.5: .*whole numbers from 0 to 2",
    ),
    "two families of a column": (
        lambda: auto(overrides={"visits": Poisson(), ("visits", "share"): Gaussian()}).fit(FRAME),
        "column 'visits' has two families: give it one",
    ),
    "a family of no column": (
        lambda: auto(overrides={"nothing": Poisson()}).fit(FRAME),
        "column 'nothing', which the data do not have: their columns are height, visits, share",
    ),
    "a family of a column that is left out": (
        lambda: auto(overrides={"visits": "poisson"}, columns=["height"]).fit(FRAME),
        "column 'visits', which the data do not have: their columns are height",
    ),
    "a joint family of text": (
        lambda: auto(overrides={("height", "colour"): Gaussian("full")}).fit(FRAME),
        r"column 'colour' has values that are not numbers: use Categorical\(\) or Bernoulli",
    ),
    "overrides that are a list": (
        lambda: auto(overrides=["visits"]).fit(FRAME),
        r"overrides is \['visits'\]: give a dict of columns and families",
    ),
    "a family that is a number": (
        lambda: auto(overrides={"visits": 3}).fit(FRAME),
        "the family of column 'visits' is 3: give a name or a family object",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_cannot_be_fitted(name: str) -> None:
    make, says = UNFIT[name]
    with pytest.raises(ValueError, match=says):
        make()


def test_no_overrides_are_none() -> None:
    assert str(auto(overrides={}).fit(FRAME).chosen_families_) == str(
        auto().fit(FRAME).chosen_families_
    )


REFUSED: dict[str, tuple[Callable[[Mixture], Any], str]] = {
    "a negative count": (
        lambda m: m.predict(FRAME.assign(visits=-1)),
        r"row 1 .*'visits' is -1\.0: values must be whole numbers >= 0 in a poisson mixture",
    ),
    "a row with a share of 2": (
        lambda m: m.learn_one(ROW | {"share": 2.0}),
        r"row 91 .*'share' is 2\.0: .* in a beta mixture; leave out",
    ),
    "a block with a share of 2": (
        lambda m: m.partial_fit(FRAME.assign(share=2.0)),
        r"row 1 .*'share' is 2\.0",
    ),
    "given nothing": (lambda m: m.conditional({}), "given is empty: give the value"),
    "given everything": (
        lambda m: m.conditional(ROW),
        "given has values of all 5 columns: leave out those",
    ),
    "given nothing known": (lambda m: m.conditional({"height": None}), "'height' is None: give"),
    "given another column": (lambda m: m.conditional({"no": 1}), "'no' is none of the model's: th"),
    "given text": (
        lambda m: m.conditional({"height": "tall"}),
        "'height' has 'tall', which is not a number: give one",
    ),
    "given a date": (
        lambda m: m.conditional({"height": ROW["day"]}),
        r"'height' has Timestamp\(.*which is not a number: give one",
    ),
    "given another category": (
        lambda m: m.conditional({"colour": "mauve"}),
        "'colour' has 'mauve'.*known are blue, green, red: .*own-level",
    ),
    "other categories": (
        lambda m: m.predict(FRAME.assign(colour="mauve")),
        "'colour' has 'mauve'.*known are blue, green, red: .*--unseen own-level",
    ),
    "numbers for categories": (
        lambda m: m.predict(FRAME.assign(colour=1)),
        "'colour' has 1, which was not in the data of fit; known are blue, green, red",
    ),
    "text for numbers": (
        lambda m: m.predict(FRAME.assign(height="tall")),
        "'height' is large_string, not numeric; leave it out",
    ),
    "dates for numbers": (
        lambda m: m.predict(FRAME.assign(height=FRAME["day"])),
        r"'height' is timestamp\[us\], not numeric; leave it out",
    ),
    "no such column": (
        lambda m: m.predict(FRAME.drop(columns="colour")),
        "no column 'colour'; its columns are height, visits, share, day",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_model_refuses(name: str, model: Mixture, tmp_path: Path) -> None:
    """A model file from elsewhere says the same about a table as the model itself."""
    act, says = REFUSED[name]
    model.save(tmp_path / "m.mixfold")
    for one in (model, mixfold.load(tmp_path / "m.mixfold")):
        before = one.params_
        with pytest.raises(MixfoldError, match=says):
            act(one)
        assert equal(one.params_, before)
        assert one.n_rows_ == N

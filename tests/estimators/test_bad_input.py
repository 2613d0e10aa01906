"""Bad input gets a clear error, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import mixfold
from mixfold import GaussianMixture, Mixture
from mixfold.core.errors import (
    InvalidInputError,
    MixfoldError,
    ModelFileError,
    OutputError,
    SourceError,
)
from mixfold.core.value import equal, flatten, unflatten
from mixfold.families.exponential import Exponential
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.constant import Constant

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")

X = np.random.default_rng(0).normal(size=(200, 2))
COUNTS = np.random.default_rng(1).poisson(3.0, size=(200, 2)).astype(float)
NAMED = pd.DataFrame(X, columns=["a", "b"])


def mixture(family: Any = "gaussian", **settings: Any) -> Mixture:
    return Mixture(family, n_components=2, random_state=0, **settings)


def copied(thing: Any) -> Any:
    arrays: dict[str, np.ndarray] = {}
    tree = flatten(thing, "thing", arrays)
    return unflatten(tree, {name: array.copy() for name, array in arrays.items()})


@contextmanager
def nothing_changes(model: Any) -> Iterator[None]:
    """The model is the same to the bit afterwards, and so is everything it shows."""
    learned = copied(model._learned)
    shown = {name: getattr(model, name) for name in vars(model) if name.endswith("_")}
    kept = {name: copied(part) for name, part in shown.items() if name != "feature_names_in_"}
    names = [*shown.get("feature_names_in_", [])]
    yield
    model._now()
    assert equal(model._learned, learned)
    assert {n for n in vars(model) if n.endswith("_")} == set(shown)
    assert all(equal(getattr(model, name), part) for name, part in kept.items())
    assert [*getattr(model, "feature_names_in_", [])] == names


def refuses(
    model: Any, method: str, data: Any, *says: str, kind: type[Exception] = ValueError, **more: Any
) -> None:
    """A call fails with a message that has all of `says`, and the model stays as it was."""
    with nothing_changes(model), pytest.raises(kind) as caught:
        getattr(model, method)(data, **more)
    for part in says:
        assert part in str(caught.value)


def spoiled(x: np.ndarray, value: float, row: int = 150) -> np.ndarray:
    x = x.copy()
    x[row, 1] = value
    return x


CALLS = ["fit", "partial_fit", "predict", "score"]
LEARN = ["fit", "partial_fit"]


# values


@pytest.mark.parametrize("estimator", [Mixture(), GaussianMixture()], ids=["Mixture", "GM"])
@pytest.mark.parametrize(("value", "named"), [(np.nan, "NaN"), (np.inf, "infinity")])
@pytest.mark.parametrize("method", [*CALLS, "predict_proba", "score_samples", "bic", "aic", "icl"])
def test_values_that_are_not_finite(estimator: Any, method: str, value: float, named: str) -> None:
    refuses(estimator.fit(X), method, spoiled(X, value), named)


@pytest.mark.parametrize(
    ("family", "value", "needs"),
    [
        ("poisson", -1.0, "whole numbers >= 0"),
        ("poisson", 2.5, "whole numbers >= 0"),
        ("exponential", -0.5, "must be >= 0"),
    ],
)
@pytest.mark.parametrize("method", CALLS)
def test_values_outside_the_support(method: str, family: str, value: float, needs: str) -> None:
    model = mixture(family).fit(COUNTS)
    says = (family, needs, "row 151, column 2 ", f"is {value}")
    refuses(model, method, spoiled(COUNTS, value), *says)
    named = mixture(family).fit(pd.DataFrame(COUNTS, columns=["a", "b"]))
    table = pd.DataFrame(spoiled(COUNTS, value), columns=["a", "b"])
    refuses(named, method, table, needs, "row 151 (counted from 1), column 'b'", f"is {value}")


@pytest.mark.parametrize(
    ("family", "row", "says"),
    [
        ("gaussian", [1.0, np.nan], "nan"),
        ("gaussian", [1.0, np.inf], "inf"),
        ("gaussian", [1.0, 2.0, 3.0], "3"),
        ("poisson", [1.0, -2.0], "-2"),
        ("poisson", [1.0, 0.5], "0.5"),
        ("exponential", [1.0, -2.0], "-2"),
    ],
)
@pytest.mark.parametrize("kind", [np.array, list])
def test_learn_one(family: str, row: list[float], says: str, kind: Callable[..., Any]) -> None:
    model = mixture(family).partial_fit(COUNTS)
    given = kind(row)
    with nothing_changes(model), pytest.raises(ValueError, match=f"(?i){re.escape(says)}"):
        model.learn_one(given)
    model.learn_one(COUNTS[0])
    seen = model.n_seen_
    with nothing_changes(model), pytest.raises(ValueError, match=f"(?i){re.escape(says)}"):
        model.learn_one(given)
    assert model.learn_one(COUNTS[1]).n_seen_ == seen + 1


def test_learn_one_of_a_dict_goes_by_name() -> None:
    rows = [dict(zip("ab", row, strict=True)) for row in X]
    turned = [{name: row[name] for name in "ba"} for row in rows]
    straight, mixed, whole = mixture(), mixture(), mixture()
    for i, row in enumerate(rows):
        straight.learn_one(row)
        mixed.learn_one(row if i % 2 == 0 else turned[i])
    assert equal(straight._now(), mixed._now())
    np.testing.assert_array_equal(straight.means_, whole.partial_fit(X).means_)
    assert straight.feature_names_in_.tolist() == ["a", "b"]
    for wrong in ({"a": 1.0}, {"a": 1.0, "c": 2.0}, {"a": 1.0, "b": 2.0, "c": 3.0}):
        with nothing_changes(straight), pytest.raises(InvalidInputError, match="columns"):
            straight.learn_one(wrong)
    straight.learn_one([1.0, 2.0])
    straight.learn_one(np.array([1.0, 2.0]))


# columns


@pytest.mark.parametrize("method", [m for m in CALLS if m != "fit"])
def test_columns_of_arrays_and_tables(method: str) -> None:
    model = mixture().fit(X)
    refuses(model, method, np.ones((9, 3)), "X has 3 features, but Mixture is expecting 2 features")
    named = mixture().fit(NAMED)
    refuses(named, method, NAMED[["b", "a"]], "must be in the same order")
    refuses(named, method, NAMED[["a"]], "now missing", "- b")
    refuses(named, method, NAMED.rename(columns={"a": "z"}), "unseen at fit time", "- z")
    polars = pl.DataFrame(X, schema=["b", "a"])
    refuses(named, method, polars, "must be in the same order")
    refuses(named, method, pa.table({"b": X[:, 0]}), "no column 'a'", "its columns are b")


@pytest.mark.parametrize("method", CALLS)
def test_shapes_and_types_of_arrays(method: str) -> None:
    model = mixture().fit(X)
    refuses(model, method, X[0], "Expected 2D array")
    refuses(model, method, X[None], "dim 3")
    refuses(model, method, np.empty((0, 2)), "0 sample(s)")
    refuses(model, method, np.empty((9, 0)), "0 feature(s)")
    refuses(model, method, X + 1j, "Complex data not supported")
    refuses(model, method, np.array([["a", "b"]]), "could not convert string to float")
    refuses(model, method, [], "2D array")
    refuses(model, method, 3, "2D array")
    refuses(model, method, object(), "not 'object'", kind=TypeError)


def write(folder: Path, name: str, table: Any) -> Path:
    path = folder / name
    if name.endswith("csv"):
        pyarrow.csv.write_csv(table, path)
    elif name.endswith("parquet"):
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, path)
    return path


KINDS = ["csv", "parquet", "feather"]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_files_go_by_name(kind: str, tmp_path: Path) -> None:
    file = write(tmp_path, f"x.{kind}", pa.table({"a": X[:, 0], "b": X[:, 1]}))
    turned = pa.table({"b": X[:, 1], "more": X[:, 0], "a": X[:, 0]})
    other = write(tmp_path, f"turned.{kind}", turned)
    model = mixture().fit(file)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.score_samples(other), model.score_samples(file))
    np.testing.assert_array_equal(model.score_samples(turned), model.score_samples(file))
    before = copied(model._learned)
    model.partial_fit(other)
    again = mixture().fit(file)
    assert equal(again._learned.params, before.params)
    assert equal(again.partial_fit(file)._learned.params, model._learned.params)
    straight = write(tmp_path, f"straight.{kind}", pa.table({"b": X[:, 1], "a": X[:, 0]}))
    both = mixture().fit([file, straight])
    assert equal(both.params_, mixture().fit([file, file]).params_)
    lacking = write(tmp_path, f"lacking.{kind}", pa.table({"b": X[:, 1], "c": X[:, 0]}))
    for method in CALLS[1:]:
        refuses(model, method, lacking, "lacking", "no column 'a'", "its columns are b, c")


@pytest.mark.parametrize("kind", [*KINDS, "arrow", "pandas", "polars"])
@pytest.mark.parametrize("method", CALLS)
def test_columns_that_are_not_numbers(method: str, kind: str, tmp_path: Path) -> None:
    words, gaps = ["x"] * 200, [None if i == 170 else float(i) for i in range(200)]
    model = mixture().fit(NAMED)
    for column, says in ((words, "'b'"), (gaps, "missing")):
        table = pa.table({"a": X[:, 0], "b": column})
        if kind in KINDS:
            data: Any = write(tmp_path, f"x.{kind}", table)
            refuses(model, method, data, str(data), "'b'", says, kind=SourceError)
        elif kind == "arrow":
            refuses(model, method, table, "'b'", says, kind=SourceError)
        else:
            data = table.to_pandas() if kind == "pandas" else pl.from_arrow(table)
            what = "could not convert string to float: 'x'" if column is words else "is NaN"
            refuses(model, method, data, what)


def test_nulls_are_found_where_they_are(tmp_path: Path) -> None:
    gaps = [None if i == 170 else float(i) for i in range(200)]
    for kind in KINDS:
        file = write(tmp_path, f"x.{kind}", pa.table({"a": X[:, 0], "b": gaps}))
        refuses(
            mixture().fit(X), "fit", file, "column 'b'", "row 171 (counted from 1)", "fill or drop"
        )


@pytest.mark.parametrize("method", LEARN)
def test_the_columns_asked_for(method: str, tmp_path: Path) -> None:
    file = write(tmp_path, "x.csv", pa.table({"a": X[:, 0], "b": X[:, 1]}))
    np.save(tmp_path / "x.npy", X)
    for columns, data, says in [
        (["a", "q"], file, ["no column 'q'", "its columns are a, b"]),
        (["a", "q"], NAMED, ["no column 'q'", "its columns are a, b"]),
        (["a", "a"], file, ["'a'", "twice"]),
        ("ab", file, ["columns", "'ab'", "list"]),
        ([], file, ["columns"]),
        (["a"], X, ["columns", "ndarray"]),
        (["a"], iter([X]), ["columns", "array"]),
        (["a"], tmp_path / "x.npy", ["x.npy", "without names"]),
    ]:
        model = mixture().fit(X).set_params(columns=columns)
        refuses(model, method, data, *says, kind=MixfoldError)


def test_a_column_name_that_appears_twice(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("a,b,a\n1,2,3\n")
    refuses(mixture().fit(X), "fit", file, "x.csv", "'a'", "twice")


# files


def lines(n: int = 200) -> str:
    return "".join(f"{i % 7},{i % 11}.5\n" for i in range(n))


def bad_files(folder: Path) -> Iterator[tuple[Path | str | list[Path], tuple[str, ...]]]:
    def text(name: str, content: str | bytes) -> Path:
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
        return folder / name

    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    for kind in ("csv", "parquet", "npy", "feather"):
        yield text(f"nothing.{kind}", ""), (f"nothing.{kind}", "empty")
    yield text("header.csv", "a,b\n"), ("header.csv", "no")
    yield text("long_row.csv", f"a,b\n{lines()}1,2,3\n"), ("long_row.csv", "2 columns", "3")
    yield text("short_row.csv", f"a,b\n{lines()}1\n"), ("short_row.csv", "2 columns", "1")
    yield text("truncated.csv", f"a,b\n{lines()}"[:-5]), ("truncated.csv", "2 columns", "1")
    yield text("word.csv", f"a,b\n{lines()}1,x\n"), ("word.csv", "'b'")
    yield text("gap.csv", f"a,b\n{lines()}1,\n"), ("gap.csv", "'b'", "row 201 (", "missing")
    yield text("latin.csv", b"\xe9,b\n1,2\n"), ("latin.csv",)
    yield text("binary.csv", bytes(range(256))), ("binary.csv",)
    yield text("not.csv.gz", "a,b\n1,2\n"), ("not.csv.gz",)
    whole = {kind: write(folder, f"whole.{kind}", table).read_bytes() for kind in KINDS}
    np.save(folder / "whole.npy", X)
    whole["npy"] = (folder / "whole.npy").read_bytes()
    for kind in ("parquet", "feather", "npy"):
        for cut in (10, len(whole[kind]) // 2, len(whole[kind]) - 3):
            yield text(f"cut{cut}.{kind}", whole[kind][:cut]), (f"cut{cut}.{kind}", "cannot read")
    np.save(folder / "one.npy", X[:, 0])
    yield folder / "one.npy", ("one.npy", "two-dimensional")
    np.save(folder / "words.npy", np.array([["a", "b"]]))
    yield folder / "words.npy", ("words.npy", "numbers")
    yield folder / "none.csv", ("no file", "none.csv")
    yield str(folder / "none*.csv"), ("no files match", "none*.csv")
    yield text("table.xyz", "a,b\n"), ("table.xyz", "unknown kind of file", ".parquet")
    other = text("other.csv", "a,z\n1,2\n")
    yield [folder / "whole.csv", other], ("'z'", "other.csv")


def test_bad_files(tmp_path: Path) -> None:
    model = mixture().fit(X)
    for file, says in bad_files(tmp_path):
        for method in ("fit", "partial_fit", "score"):
            refuses(model, method, file, *says, kind=SourceError)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come in blocks of 16 rows."""
    import mixfold.sources._file
    import mixfold.sources.array

    for module in (mixfold.sources._file, mixfold.sources.array):
        monkeypatch.setattr(module, "block_length", lambda d: 16)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("learner", ["auto", "em", "online-em", "mini-batch-em"])
def test_an_error_in_the_middle_of_a_file(learner: str, method: str, tmp_path: Path) -> None:
    table = {"a": COUNTS[:, 0], "b": spoiled(COUNTS, -3.0)[:, 1]}
    file = write(tmp_path, "x.parquet", pa.table(table))
    checkpoint = tmp_path / "checkpoint"
    model = mixture("poisson", learner=learner).fit(pd.DataFrame(COUNTS, columns=["a", "b"]))
    model.set_params(checkpoint=checkpoint, checkpoint_every=0.0)
    refuses(model, method, file, "row 151 (", "column 'b'", "-3.0")
    np.save(tmp_path / "x.npy", spoiled(X, np.nan))
    plain = mixture(learner=learner).fit(X)
    refuses(plain, method, tmp_path / "x.npy", "row 151, column 2 (both counted from 1)", "NaN")


def test_rows_that_only_a_later_pass_draws(tmp_path: Path) -> None:
    """With replacement, a pass leaves rows out: each pass has to look at what it draws."""
    x = np.random.default_rng(0).normal(size=(30_000, 1))
    first = np.random.default_rng([0, 0, 0]).integers(len(x), size=len(x))
    sample = np.random.default_rng([0, 2**31]).choice(len(x), 20_000, replace=False)
    unseen = np.setdiff1d(np.arange(len(x)), np.union1d(first, sample))
    x[unseen] = np.nan
    np.save(tmp_path / "x.npy", x)
    learner = MiniBatchEM(batch_size=1000, sampling="with-replacement", max_iter=2)
    refuses(mixture(learner=learner).fit(X), "fit", tmp_path / "x.npy", "NaN", "finite")


def test_a_csv_whose_numbers_change_their_look(tmp_path: Path) -> None:
    """Types are not taken from the first block alone: 1.5 may come long after 1."""
    n = 430_000
    file = tmp_path / "x.csv"
    file.write_text("a,b\n" + "1,1234567\n" * n + "2.5,0.5\n" * 100)
    assert file.stat().st_size > 2**22
    model = mixture(learner="online-em", max_iter=1).fit(file)
    assert model.n_seen_ == n + 100
    file.write_text("a,b\n" + "1,1234567\n" * n + "2.5,x\n")
    refuses(model, "fit", file, "x.csv", "'x'", kind=SourceError)


# streams


@pytest.mark.parametrize("method", CALLS)
def test_bad_streams(method: str) -> None:
    model = mixture().fit(X)
    refuses(model, method, iter([]), "empty")
    refuses(model, method, iter([X[:0]]), "empty")
    refuses(model, method, pa.table({"a": X[:0, 0], "b": X[:0, 1]}), "no rows")
    refuses(model, method, iter([X, X[:, :1]]), "a block has 1 columns, the first had 2")
    refuses(model, method, [X, X[:, :1]], "a block has 1 columns, the first had 2")
    refuses(model, method, iter(X), "shape (2,)")
    refuses(model, method, iter(["ab"]), "shape ()")
    refuses(
        model,
        method,
        iter([X, spoiled(X, np.nan)]),
        "row 351, column 2 (both counted from 1)",
        "NaN",
    )

    def breaks() -> Iterator[np.ndarray]:
        yield X
        raise RuntimeError("the generator's own")

    refuses(model, method, breaks(), "the generator's own", kind=RuntimeError)


@pytest.mark.parametrize("method", LEARN)
def test_blocks_of_tables_go_by_name(method: str) -> None:
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    turned = pa.table({"b": X[:, 1], "a": X[:, 0]})
    model = getattr(mixture(), method)([table, turned])
    same = getattr(mixture(), method)([table, table])
    assert equal(model._learned.params, same._learned.params)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    refuses(model, method, [table, pa.table({"a": X[:, 0], "c": X[:, 1]})], "no column 'b'")


# weights


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        (-np.ones(200), "Negative"),
        (np.where(np.arange(200) == 150, np.nan, 1.0), "NaN"),
        (np.full(200, np.inf), "infinity"),
        (np.zeros(200), "non-zero"),
        (np.ones(201), "(201,)"),
        (np.ones((200, 2)), "1D"),
        (["heavy"] * 200, "heavy"),
        ("w", "'w'"),
    ],
)
@pytest.mark.parametrize("method", LEARN)
@pytest.mark.parametrize("estimator", [Mixture(), GaussianMixture()], ids=["Mixture", "GM"])
def test_weights_of_arrays(estimator: Any, method: str, weight: Any, says: str) -> None:
    refuses(estimator.fit(X), method, X, says, sample_weight=weight)


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        (spoiled(np.ones((200, 2)), -1.0)[:, 1], ["-1.0", ">= 0"]),
        (spoiled(np.ones((200, 2)), np.nan)[:, 1], ["w"]),
        (spoiled(np.ones((200, 2)), np.inf)[:, 1], ["w"]),
        (np.zeros(200), ["zero"]),
    ],
    ids=["negative", "nan", "infinite", "zero"],
)
@pytest.mark.parametrize("learner", ["auto", "em", "online-em", "mini-batch-em"])
@pytest.mark.parametrize("method", LEARN)
def test_weights_in_files(
    method: str, learner: str, weight: np.ndarray, says: list[str], tmp_path: Path
) -> None:
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "w": weight})
    model = mixture(learner=learner).fit(NAMED)
    file = write(tmp_path, "x.parquet", table)
    refuses(model, method, file, *says, sample_weight="w")
    refuses(model, method, file, "no column 'q'", sample_weight="q")
    refuses(model, method, file, "name of a column", sample_weight=np.ones(200))
    refuses(model, method, iter([X]), "'w'", sample_weight="w")


def test_a_stream_may_begin_with_rows_of_no_weight(tmp_path: Path) -> None:
    weight = (np.arange(200) >= 150).astype(float)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "w": weight})
    file = write(tmp_path, "x.parquet", table)
    for method in LEARN:
        model = getattr(mixture(), method)(file, sample_weight="w")
        assert np.isfinite(model.score_samples(file)).all()
        np.testing.assert_allclose(model.weights_ @ model.means_, X[150:].mean(axis=0), atol=0.2)


# parameters


@pytest.mark.parametrize("k", [0, -1, True, False, 2.0, "2", None])
@pytest.mark.parametrize("method", LEARN)
def test_numbers_of_components(method: str, k: Any) -> None:
    says = ("n_components", repr(k), "whole number >= 1")
    refuses(mixture().fit(X).set_params(n_components=k), method, X, *says)


@pytest.mark.parametrize("name", ["n_init", "max_iter", "n_threads"])
@pytest.mark.parametrize("number", [0, -3, True, 1.5, "1"])
def test_other_counts(name: str, number: Any) -> None:
    model = mixture().fit(X).set_params(**{name: number})
    refuses(model, "fit", X, name, repr(number), "whole number >= 1")


@pytest.mark.parametrize("number", [0, -1, 1.5, "2"])
def test_threads_of_gaussian_mixture(number: Any) -> None:
    model = GaussianMixture().fit(X).set_params(n_threads=number)
    refuses(model, "fit", X, "n_threads", repr(number))


@pytest.mark.parametrize("every", ["often", None, float("nan")])
def test_seconds_between_checkpoints(every: Any, tmp_path: Path) -> None:
    model = mixture().fit(X).set_params(checkpoint=tmp_path / "c", checkpoint_every=every)
    refuses(model, "fit", X, "checkpoint_every", repr(every))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"family": "gausian"}, ["family 'gausian'", "Did you mean 'gaussian'?", "poisson"]),
        ({"family": "Poison"}, ["family 'Poison'", "Did you mean 'poisson'?"]),
        ({"family": 3}, ["family is 3", "Mixture(n_components=3)"]),
        ({"learner": "onlin-em"}, ["learner 'onlin-em'", "Did you mean 'online-em'?"]),
        ({"learner": 3}, ["learner is 3", "name"]),
        ({"init": "kmean"}, ["'kmean'", "Did you mean 'k-means'?", "k-mle++", "random-from-data"]),
        ({"init": "random_row"}, ["'random_row'", "Did you mean 'random-rows'?"]),
        ({"init": 5}, ["init", "shape ()", "(2, 2) is needed"]),
        ({"init": np.ones((3, 2))}, ["init", "(3, 2)", "(2, 2) is needed"]),
        ({"init": np.full((2, 2), np.nan)}, ["init", "not finite"]),
        ({"init": "zzz"}, ["'zzz'", "Known:"]),
        ({"init": [["a", "b"], ["c", "d"]]}, ["init"]),
        ({"init": Mixture()}, ["init", "not fitted"]),
        ({"init": mixture("poisson").fit(COUNTS)}, ["init", "Gaussian"]),
        ({"init": Mixture(Gaussian("diag"), 2, random_state=1).fit(X)}, ["init", "Gaussian"]),
        (
            {"init": Mixture(n_components=3, random_state=0).fit(X)},
            ["init", "(3, 2)", "(2, 2) is needed"],
        ),
        ({"random_state": "seed"}, ["'seed'"]),
    ],
)
@pytest.mark.parametrize("method", LEARN)
def test_settings(method: str, settings: dict[str, Any], says: list[str]) -> None:
    model = Mixture(n_components=2)
    refuses(model.fit(X).set_params(**settings), "fit", X, *says)
    with pytest.raises(ValueError) as caught:
        getattr(
            Mixture(n_components=2, **settings)
            if "family" not in settings
            else Mixture(settings["family"], 2),
            method,
        )(X)
    assert all(part in str(caught.value) for part in says)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Gaussian("ful"), ["covariance 'ful'", "Did you mean 'full'?", "spherical"]),
        (lambda: Gaussian(3), ["covariance", "3", "full"]),  # type: ignore[arg-type]
        (lambda: Gaussian(floor=-1.0), ["floor", "-1.0"]),
        (lambda: Gaussian(reg_covar=-1.0), ["reg_covar", "-1.0"]),
        (lambda: Poisson(floor=-1.0), ["floor", "-1.0"]),
        (lambda: Exponential(floor=float("nan")), ["floor", "nan"]),
        (lambda: MiniBatchEM(sampling="with_replacement"), ["Did you mean 'with-replacement'?"]),
        (lambda: MiniBatchEM(batch_size=0), ["batch_size is 0"]),
        (lambda: MiniBatchEM(batch_size=-5), ["batch_size is -5"]),
        (lambda: MiniBatchEM(batch_size=1.5), ["batch_size is 1.5"]),
        (lambda: MiniBatchEM(batch_size=float("inf")), ["batch_size is inf"]),
        (lambda: MiniBatchEM(batch_size=float("nan")), ["batch_size is nan"]),
        (lambda: MiniBatchEM(batch_size="a"), ["batch_size is 'a'"]),  # type: ignore[arg-type]
        (lambda: MiniBatchEM(max_iter=0), ["max_iter is 0"]),
        (lambda: MiniBatchEM(warmup=-1), ["warmup is -1"]),
        (lambda: MiniBatchEM(average_from=0), ["average_from is 0"]),
        (lambda: MiniBatchEM(truncation=0.0), ["truncation is 0.0"]),
        (lambda: MiniBatchEM(schedule=0.1), ["schedule is 0.1"]),  # type: ignore[arg-type]
        (lambda: OnlineEM(batch_size=0.5), ["batch_size is 0.5"]),  # type: ignore[arg-type]
        (lambda: OnlineEM(max_iter=0), ["max_iter is 0"]),
        (lambda: OnlineEM(warmup=-1), ["warmup is -1"]),
        (lambda: Constant(0.0), ["step is 0.0"]),
        (lambda: Constant(1.5), ["step is 1.5"]),
        (lambda: EM(tol=-1.0), ["tol is -1.0"]),
        (lambda: EM(max_iter=-1), ["max_iter is -1"]),
    ],
)
def test_hyper_parameters(make: Callable[[], Any], says: list[str]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert all(part in str(caught.value) for part in says)


def test_fewer_rows_than_components(tmp_path: Path) -> None:
    model = mixture().fit(NAMED).set_params(n_components=5)
    file = write(tmp_path, "x.csv", pa.table({"a": X[:3, 0], "b": X[:3, 1]}))
    says = ("n_components = 5", "n_samples = 3")
    for data in (NAMED[:3], file, iter([X[:3]]), [X[:2], X[:1]]):
        refuses(model, "fit", data, *says)
    again = GaussianMixture(n_components=5, max_iter=1000)
    with pytest.raises(ValueError, match="n_components = 5, n_samples = 3"):
        again.fit(X[:3])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 99, 100, 101])
@pytest.mark.parametrize("family", ["gaussian", "poisson", "exponential"])
@pytest.mark.parametrize("learner", ["auto", "em", "mini-batch-em", "online-em"])
def test_a_stream_begins_with_any_number_of_rows(learner: str, family: str, n: int) -> None:
    model = Mixture(family, 3, learner=learner, random_state=0).partial_fit(COUNTS[:n])
    assert model.n_seen_ == n
    np.testing.assert_allclose(model.predict_proba(COUNTS).sum(axis=1), 1.0)
    assert np.isfinite(model.score_samples(COUNTS)).all()
    assert model.partial_fit(COUNTS[n:]).n_seen_ == len(COUNTS)


@pytest.mark.parametrize("method", LEARN)
def test_a_fraction_of_an_unknown_length(method: str, tmp_path: Path) -> None:
    model = mixture().fit(X).set_params(learner=MiniBatchEM(batch_size=0.1))
    file = write(tmp_path, "x.csv", pa.table({"a": X[:, 0], "b": X[:, 1]}))
    for data in (iter([X]), file):
        refuses(model, method, data, "batch_size=0.1", "give a number of rows")


@pytest.mark.parametrize("order", ["with-replacement", "without-replacement"])
def test_sampling_what_cannot_be_indexed(order: str, tmp_path: Path) -> None:
    model = mixture().fit(X).set_params(learner=MiniBatchEM(sampling=order))
    file = write(tmp_path, "x.csv", pa.table({"a": X[:, 0], "b": X[:, 1]}))
    for data in (file, [X, X], iter([X])):
        refuses(model, "fit", data, f"sampling={order!r}", "use sampling='stream'")


@pytest.mark.parametrize(
    "changed", [{"n_components": 3}, {"family": "poisson"}, {"family": Gaussian("diag")}]
)
def test_a_stream_does_not_change_its_model(changed: dict[str, Any]) -> None:
    for model in (mixture().fit(COUNTS), mixture().partial_fit(COUNTS)):
        refuses(model.set_params(**changed), "partial_fit", COUNTS, "fit", next(iter(changed)))


# model files and checkpoints


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def test_saving_where_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = mixture().fit(X)
    model.save(tmp_path / "old")
    before = content(tmp_path)
    for path in (tmp_path, tmp_path / "no folder" / "model", tmp_path / "old" / "model"):
        refuses(model, "save", path, "cannot write", str(path), kind=OutputError)
    with pytest.raises(ModelFileError, match="schedule is a function"):
        Mixture(learner=OnlineEM(schedule=unsavable)).fit(X).save(tmp_path / "old")
    with pytest.raises(ValueError, match="not fitted"):
        Mixture().save(tmp_path / "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    refuses(model, "save", tmp_path / "old", "No space left", "old", kind=OutputError)
    assert content(tmp_path) == before


def unsavable(r: Any) -> np.ndarray:
    return np.full(np.shape(r), 0.1)


def test_resuming(tmp_path: Path) -> None:
    model = mixture().fit(X)
    refuses(model.set_params(resume=True), "fit", X, "resume=True", "checkpoint=PATH")
    file = tmp_path / "checkpoint"
    mixture(checkpoint=file).fit(X)
    model.set_params(checkpoint=file).fit(X)
    whole = file.read_bytes()
    for changes in (
        {"n_components": 3},
        {"family": "poisson"},
        {"learner": "em"},
        {"n_init": 2},
        {"random_state": 1},
        {"init": "random-rows"},
    ):
        other = mixture().fit(COUNTS)
        other.set_params(**{"checkpoint": file, "resume": True, **changes})
        refuses(other, "fit", COUNTS, str(file), "another fit", "remove", kind=ModelFileError)
    for data in (X[:100], np.hstack([X, X]), NAMED):
        refuses(model, "fit", data, str(file), "another fit", "remove", kind=ModelFileError)
    assert file.read_bytes() == whole
    model.save(tmp_path / "model")
    refuses(model.set_params(checkpoint=tmp_path / "model"), "fit", X, "is a model file")
    file.write_bytes(whole[: len(whole) // 2])
    refuses(model.set_params(checkpoint=file), "fit", X, str(file), "damaged", kind=ModelFileError)
    missing = tmp_path / "missing" / "checkpoint"
    model.set_params(checkpoint=missing)
    refuses(model, "fit", X, "cannot write", str(missing), kind=OutputError)
    assert sorted(content(tmp_path)) == ["checkpoint", "model"]


def test_loading_what_is_no_model(tmp_path: Path) -> None:
    mixture(checkpoint=tmp_path / "checkpoint").fit(X)
    (tmp_path / "junk").write_bytes(b"junk")
    for path, says in [
        (tmp_path / "none", "No such file"),
        (tmp_path, "directory"),
        (tmp_path / "junk", "not a mixfold file"),
        (tmp_path / "checkpoint", "is a checkpoint file: a model file is needed"),
    ]:
        with pytest.raises(ModelFileError, match=says):
            mixfold.load(path)

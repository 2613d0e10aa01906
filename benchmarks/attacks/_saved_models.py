"""Small models and checkpoints of many kinds, taken apart, and what users do with them."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mixfold
from mixfold import Mixture
from mixfold.core.errors import MixfoldError
from mixfold.core.learner import Learner
from mixfold.core.value import flatten
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.reading import read
from mixfold.learners.annealed_sgd import AnnealedSGD
from mixfold.learners.auto import Auto
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.em import EM
from mixfold.learners.fast_incremental_em import FastIncrementalEM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.moment_matching import MomentMatching
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_vb import OnlineVB
from mixfold.learners.sem import SEM

COUNTS = np.random.default_rng(0).poisson(4.0, size=(160, 2)).astype(float)
NAMES = ["a", "b"]


class Example(NamedTuple):
    """A file taken apart, and a function that uses what is loaded from a path."""

    name: str
    kind: str
    tree: Any
    arrays: dict[str, np.ndarray]
    use: Callable[[Path], None]


def fitted(**settings: Any) -> Any:
    return Mixture(n_components=2, random_state=0, **settings).fit(COUNTS)


def streamed(n: int, **settings: Any) -> Any:
    import pandas as pd

    model = Mixture(n_components=2, random_state=0, **settings)
    return model.partial_fit(pd.DataFrame(COUNTS[:n], columns=NAMES))


def of_levels() -> Any:
    """A mixture of counts and levels, of which more come when it learns."""
    import pandas as pd

    frame = pd.DataFrame({"a": COUNTS[:, 0], "b": COUNTS[:, 1].clip(2.0, 5.0)})
    return Mixture("auto", 2, random_state=0, learner="em").fit(frame)


def mixtures() -> dict[str, Callable[[], Any]]:
    """Mixtures by what is special about them."""
    sampled = MiniBatchEM(batch_size=40, average_from=2, truncation=50.0, max_iter=2)
    return {
        "em": lambda: fitted(learner="em", max_iter=3),
        "accelerated em": lambda: fitted(learner=EM(accelerate=True), max_iter=3),
        "given": lambda: fitted(learner="em", max_iter=2, init=fitted(learner="em").params_),
        "online em": lambda: streamed(140, family=Gaussian("diag"), learner="online-em"),
        "reservoir em": lambda: streamed(140, family=Gaussian("diag")),
        "batches": lambda: streamed(140, learner=OnlineEM(batch_size=7), family=Gaussian("tied")),
        "waiting rows": lambda: streamed(30, family="poisson", learner="online-em"),
        "factors": lambda: fitted(family=Gaussian("factor", rank=1), learner="em", max_iter=3),
        "averaged": lambda: fitted(family=Gaussian("spherical"), learner=sampled),
        "moment matching": lambda: streamed(140, learner="moment-matching"),
        "gamma": lambda: fitted(family="poisson", learner=MomentMatching()),
        "online vb": lambda: streamed(140, family=Gaussian("diag"), learner=OnlineVB(batch_size=9)),
        "exponential": lambda: fitted(family="exponential", learner="online-vb"),
        "annealed": lambda: fitted(
            family=Gaussian("diag"), learner=AnnealedSGD(scale=True, max_iter=1)
        ),
        "annealed roots": lambda: streamed(140, learner=AnnealedSGD(batch_size=9, max_iter=1)),
        "drift": lambda: streamed(140, learner=DriftAware(window=32)),
        "incremental em": lambda: fitted(learner=IncrementalEM(max_iter=3)),
        "sem": lambda: fitted(learner=SEM(max_iter=4, average_from=2)),
        "levels": of_levels,
        "scikit-learn": lambda: mixfold.GaussianMixture(2, random_state=0, tol=0.1).fit(COUNTS),
        "scikit-learn stream": lambda: mixfold.GaussianMixture(
            2, covariance_type="tied", means_init=[[1, 2], [3, 4]]
        ).partial_fit(COUNTS),
    }


def finite(params: Any) -> None:
    """Fail if a parameter is not finite."""
    arrays: dict[str, np.ndarray] = {}
    flatten(params, "params", arrays)
    for name, array in arrays.items():
        assert np.isfinite(array).all(), f"{name} is {array}"


def use_mixture(path: Path) -> None:
    """All that users do with a mixture."""
    import pandas as pd

    def loaded() -> Any:
        model = mixfold.load(path)
        finite(model.params_)
        return model

    model = loaded()
    names = getattr(model, "feature_names_in_", None)
    data = COUNTS if names is None else pd.DataFrame(COUNTS, columns=list(names))
    again = path.with_name("again")

    def learn_one() -> None:
        one = loaded()
        for row in COUNTS[:3]:
            one.learn_one(row)
        finite(one.params_)

    for act in (
        lambda: model.score(data),
        lambda: model.predict_proba(data),
        lambda: model.sample(5) if np.nanmax(model.means_) < 1e15 else None,
        lambda: (model.save(again), mixfold.load(again)),
        lambda: finite(loaded().partial_fit(data[:50]).params_),
        learn_one,
        lambda: finite(loaded().fit(data).params_),
    ):
        permitted(act)


def permitted(act: Callable[[], Any]) -> None:
    """Do something that mixfold may refuse in words of its own."""
    try:
        act()
    except MixfoldError:
        pass
    except ValueError as error:  # scikit-learn's words, where mixfold uses them
        words = ("The parameter", "The feature names", "Expected n_samples")
        if not str(error).startswith(words):
            raise


@cache
def grouped() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, responses and groups."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(12), 6)
    x = rng.normal(size=(72, 2))
    return x, x[:, 0] + rng.normal(size=12)[groups] + 0.3 * rng.normal(size=72), groups


def table() -> dict[str, np.ndarray]:
    x, y, groups = grouped()
    return {"y": y, "u": x[:, 0], "v": x[:, 1], "g": groups}


def doses() -> dict[str, np.ndarray]:
    subject, time = np.repeat(np.arange(6), 6), np.tile(np.arange(1.0, 7.0), 6)
    noise = np.random.default_rng(2).normal(size=36)
    curve = 3.0 * (np.exp(-0.1 * time) - np.exp(-1.5 * time))
    dose = np.full(36, 100.0)
    return {"subject": subject, "time": time, "dose": dose, "concentration": curve + 0.1 * noise}


def mixed_models() -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Mixed models, and how they are used."""
    import pandas as pd

    x, y, groups = grouped()
    frame, measured = pd.DataFrame(table()), pd.DataFrame(doses())
    crossed = frame.assign(h=np.arange(len(frame)) % 5)
    quick: dict[str, Any] = {"max_iter": 2, "evaluation_draws": 8, "random_state": 0}
    sign = y > y.mean()
    return {
        "linear": (
            lambda: mixfold.LinearMixedModel(max_iter=3).fit(x, y, groups),
            lambda m: (m.predict(x, groups), m.score(x, y, groups)),
        ),
        "formula": (
            lambda: mixfold.LinearMixedModel("y ~ u + v", group="g", max_iter=3).fit(frame),
            lambda m: (m.predict(frame), m.score(frame)),
        ),
        "restricted": (
            lambda: mixfold.LinearMixedModel(reml=True, variance_errors=True).fit(x, y, groups),
            lambda m: (m.variance_intervals(), str(m.summary())),
        ),
        "crossed": (
            lambda: mixfold.CrossedMixedModel("y ~ u + (v | g) + (1 | h)").fit(crossed),
            lambda m: (m.predict(crossed), m.variance_intervals(), str(m.summary())),
        ),
        "logistic": (
            lambda: mixfold.LogisticMixedModel(**quick).fit(x, sign, groups),
            lambda m: (m.predict_proba(x, groups), m.bic()),
        ),
        "compartment": (
            lambda: mixfold.OneCompartmentModel(dosing="single", **quick).fit(measured),
            lambda m: (m.predict(measured), m.aic()),
        ),
    }


def use_mixed_model(path: Path, act: Callable[[Any], Any]) -> None:
    """Load, evaluate, save and load again."""
    model, again = mixfold.load(path), path.with_name("again")
    learned = model._now()
    finite(learned.params if hasattr(learned, "params") else learned.beta)
    permitted(lambda: act(model))
    permitted(lambda: (model.save(again), mixfold.load(again)))


CHECKPOINTED: dict[str, Learner] = {
    "em": EM(tol=0.0),
    "mini-batch em": MiniBatchEM(batch_size=30, average_from=2),
    "incremental em": IncrementalEM(batch_size=7),
    "fast incremental em": FastIncrementalEM(),
    "auto": Auto(sample_size=50, batch_size=40),
}


def use_checkpoint(path: Path, learner: Any) -> None:
    """Resume for two passes more."""
    copy = path.with_name("resumed")
    copy.write_bytes(path.read_bytes())
    model = Mixture(n_components=2, random_state=0, learner=learner, max_iter=4)
    model.set_params(checkpoint=copy, resume=True)
    finite(model.fit(COUNTS).params_)


@cache
def examples() -> list[Example]:
    """One of each kind."""
    found = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "file"
        for name, make in mixtures().items():
            make().save(path)
            found.append(apart(name, "model", path, use_mixture))
        for name, (make, act) in mixed_models().items():
            make().save(path)
            found.append(apart(name, "model", path, partial(use_mixed_model, act=act)))
        path = Path(folder) / "checkpoint"
        for name, learner in CHECKPOINTED.items():
            Mixture(
                n_components=2, random_state=0, learner=learner, max_iter=2, checkpoint=path
            ).fit(COUNTS)
            found.append(
                apart(
                    f"checkpoint of {name}",
                    "checkpoint",
                    path,
                    partial(use_checkpoint, learner=learner),
                )
            )
            path.unlink()
    return found


def apart(name: str, kind: str, path: Path, use: Callable[[Path], None]) -> Example:
    """A file taken apart."""
    arrays: dict[str, np.ndarray] = {}
    tree = flatten(read(path, kind), "content", arrays)
    return Example(name, kind, tree, arrays, use)

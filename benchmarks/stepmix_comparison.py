"""Mixtures of mixed columns against StepMix: likelihoods, rows per second, and latent classes.

    MIXFOLD_DATA=... python benchmarks/stepmix_comparison.py [--stepmix SITE_PACKAGES]

SITE_PACKAGES is a folder in which StepMix is installed, if it is not in this environment. Both run
with the same NumPy. StepMix makes one iteration from random responsibilities; mixfold starts from
the parameters after it, so that both then make the same iterations of EM. StepMix's clipping and
mixfold's limits of probabilities play no part in these data, and neither adds to variances.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from _tables import heading
from mixfold import Mixture
from mixfold.experiments.templates import read_table
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical, ProbabilityParams
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.families.product import Product, ProductParams
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureParams

N, K, REALS, BINARIES, CODES, LEVELS = 10_000, 3, 4, 4, 4, 5
PASSES, ROUNDS, STARTS = 20, 3, 20
SHARES = (0.0, 0.1, 0.4)


def drawn(missing: float, n: int = N) -> np.ndarray:
    """Rows of three overlapping components, a share of whose cells is missing."""
    rng = np.random.default_rng(0)
    z = rng.choice(K, p=[0.5, 0.3, 0.2], size=n)
    reals = rng.normal(rng.normal(scale=1.5, size=(K, REALS))[z], rng.uniform(0.7, 1.5, (K, 1))[z])
    binaries = rng.random((n, BINARIES)) < rng.uniform(0.15, 0.85, (K, BINARIES))[z]
    reached = rng.dirichlet(np.full(LEVELS, 2.0), size=(K, CODES)).cumsum(axis=2)[z]
    codes = (rng.random((n, CODES, 1)) >= reached).sum(axis=2).clip(0, LEVELS - 1)
    x = np.column_stack([reals, binaries, codes]).astype(np.float64)
    return np.where(rng.random(x.shape) < missing, np.nan, x)


def descriptor(missing: bool) -> dict[str, dict[str, Any]]:
    """The columns for StepMix."""
    end = "_nan" if missing else ""
    reals: dict[str, Any] = {"model": "continuous" + end, "n_columns": REALS}
    if not missing:
        reals["reg_covar"] = 0.0
    return {
        "reals": reals,
        "binaries": {"model": "binary" + end, "n_columns": BINARIES},
        "codes": {"model": "categorical" + end, "n_columns": CODES},
    }


def stepmix(model: Any, k: int, **settings: Any) -> Any:
    """A StepMix estimator that says nothing; its tolerances are zero unless they are given."""
    fixed = {"random_state": 0, "progress_bar": 0, "abs_tol": 0.0, "rel_tol": 0.0}
    found: Any = import_module("stepmix.stepmix").StepMix
    return found(n_components=k, measurement=model, **(fixed | settings))


def product() -> Product:
    """The columns for mixfold."""
    families = [Gaussian("diag", floor=0.0)] * REALS + [Bernoulli()] * BINARIES
    factors: Any = dict(enumerate([*families, *[Categorical(LEVELS)] * CODES]))
    return Product(factors)


def parameters(fitted: Any) -> MixtureParams:
    """StepMix's parameters as mixfold's."""
    found = fitted.get_parameters()["measurement"]
    means, roots = found["reals"]["means"], np.sqrt(found["reals"]["covariances"])
    codes = found["codes"]["pis"].reshape(K, CODES, LEVELS)
    reals = [GaussianParams(means[:, [j]], roots[:, [j]]) for j in range(REALS)]
    binaries = [ProbabilityParams(found["binaries"]["pis"][:, [j]]) for j in range(BINARIES)]
    levels = [ProbabilityParams(codes[:, [j]]) for j in range(CODES)]
    weights = np.asarray(fitted.weights_)
    return MixtureParams(weights / weights.sum(), ProductParams((*reals, *binaries, *levels)))


def mixfold(start: MixtureParams, passes: int) -> Mixture:
    """A mixture that makes plain iterations of EM from given parameters."""
    learner = EM(tol=0.0, max_iter=passes, accelerate=False)
    return Mixture(product(), K, learner=learner, init=start, n_threads=1)


@dataclass(frozen=True)
class Likelihoods:
    """The log-likelihoods per row of both, after the same number of iterations."""

    passes: int
    stepmix: float
    mixfold: float

    def __str__(self) -> str:
        apart = abs(self.stepmix - self.mixfold)
        return f"{self.passes} | {self.stepmix:.9f} | {self.mixfold:.9f} | {apart:.1e} |"


def likelihoods(x: np.ndarray, passes: int) -> Likelihoods:
    """Both after one iteration of StepMix, and so many more of each."""
    model = descriptor(bool(np.isnan(x).any()))
    first = stepmix(model, K, max_iter=1).fit(x)
    other = stepmix(model, K, max_iter=1 + passes).fit(x)
    own = mixfold(parameters(first), passes).fit(x)
    return Likelihoods(passes, float(other.score(x)), own.score(x))


def seconds(fit: Callable[[int], Any], passes: int) -> float:
    """Processor seconds of an iteration: those of many less those of one, best of several."""
    few, many = np.inf, np.inf
    for _ in range(ROUNDS):
        few, many = min(few, _processor(fit, 1)), min(many, _processor(fit, 1 + passes))
    return (many - few) / passes


def _processor(fit: Callable[[int], Any], passes: int) -> float:
    began = time.process_time()
    fit(passes)
    return time.process_time() - began


def speeds(n: int, share: float) -> tuple[float, float]:
    """Rows per second of iterations of StepMix and of mixfold, both on one thread."""
    x, model = drawn(share, n), descriptor(share > 0.0)
    start = parameters(stepmix(model, K, max_iter=1).fit(x))
    with threadpool_limits(1):
        other = seconds(lambda number: stepmix(model, K, max_iter=number).fit(x), PASSES)
        own = seconds(lambda number: mixfold(start, number).fit(x), 10 * PASSES)
    return n / other, n / own


def compare_likelihoods() -> None:
    print(heading("missing", "iterations", "StepMix", "mixfold", "difference"))
    for share in SHARES:
        for passes in (1, 10, 300):
            print(f"| {share:.0%} | {likelihoods(drawn(share), passes)}")


def compare_speed() -> None:
    print(heading("rows", "missing", "StepMix, rows/s", "mixfold, rows/s", "times (wanted 100)"))
    for n in (N, 10 * N):
        for share in SHARES:
            other, own = speeds(n, share)
            print(f"| {n:,} | {share:.0%} | {other:.2g} | {own:.2g} | {own / other:.0f} |")


def votes() -> np.ndarray:
    """House votes: sixteen columns of yes and no, some missing, without the party."""
    return _codes("mlbench_housevotes84", ["Class"])


def cancer() -> np.ndarray:
    """Breast cancer: nine columns of up to ten levels, some missing, without the diagnosis."""
    return _codes("mlbench_breastcancer", ["Id", "Class"])


def _codes(name: str, left_out: list[str]) -> np.ndarray:
    frame = read_table(name, None).to_pandas().drop(columns=left_out)
    columns = [frame[column].astype("category").cat.codes for column in frame]
    codes = np.column_stack(columns).astype(np.float64)
    return np.where(codes < 0.0, np.nan, codes)


def latent_classes(x: np.ndarray, k: int, seed: int) -> tuple[float, float, float, float]:
    """Log-likelihoods of the best of twenty starts of StepMix and mixfold; processor seconds."""
    binary = bool(np.nanmax(x) == 1.0)
    kind, levels = "binary_nan" if binary else "categorical_nan", int(np.nanmax(x)) + 1
    other = stepmix(kind, k, n_init=STARTS, abs_tol=1e-10, random_state=seed)
    family = Bernoulli() if binary else Categorical(levels)
    learner = EM(tol=1e-6, accelerate=True)
    own = Mixture(family, k, learner=learner, n_init=STARTS, random_state=seed, n_threads=1)
    with threadpool_limits(1):
        began = time.process_time()
        other.fit(x)
        between = time.process_time()
        own.fit(x)
        ended = time.process_time()
    found = (len(x) * float(other.score(x)), len(x) * own.score(x))
    return *found, between - began, ended - between


def compare_latent_classes() -> None:
    print(heading("table", "K", "seed", "StepMix", "mixfold", "StepMix, s", "mixfold, s"))
    for name, x in (("house votes", votes()), ("breast cancer", cancer())):
        for k in (2, 3, 4):
            for seed in range(2):
                other, own, slow, fast = latent_classes(x, k, seed)
                found = f"{other:.3f} | {own:.3f} | {slow:.1f} | {fast:.1f}"
                print(f"| {name} | {k} | {seed} | {found} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stepmix", help="a folder in which StepMix is installed")
    given = parser.parse_args()
    if given.stepmix:
        sys.path.append(given.stepmix)
    warnings.simplefilter("ignore")
    compare_likelihoods()
    compare_speed()
    compare_latent_classes()


if __name__ == "__main__":
    main()

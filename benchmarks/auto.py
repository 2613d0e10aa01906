"""learner="auto" against scikit-learn's converged best of ten starts, on a million rows.

    MIXFOLD_DATA=FOLDER python benchmarks/auto.py

mixfold's GaussianMixture gives scikit-learn's fits to rounding for the same seed (a test shows it),
so it finds which of ten seeds is best; scikit-learn then makes that fit, and is timed on it.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.mixture import GaussianMixture as Original

from mixfold import GaussianMixture, Mixture
from mixfold.experiments import templates

N, HELD_OUT, STARTS = 1_000_000, 200_000, 10


def timed(model: object, x: np.ndarray) -> tuple[object, float]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x)  # type: ignore[attr-defined]
    return model, time.perf_counter() - began


def compare(name: str, template: templates.Template) -> None:
    rng = np.random.default_rng(0)
    k = template.model.k
    x, _ = template.model.sample(template.params, N, rng)
    held, _ = template.model.sample(template.params, HELD_OUT, rng)
    auto, seconds = timed(Mixture(n_components=k, random_state=0), x)
    starts = [GaussianMixture(k, max_iter=1000, random_state=seed) for seed in range(STARTS)]
    fits = [timed(start, x)[0] for start in starts]
    best = int(np.argmax([fit.lower_bound_ for fit in fits]))  # type: ignore[attr-defined]
    theirs, their_seconds = timed(Original(k, max_iter=1000, random_state=best), x)
    ours_score = auto.score(held)  # type: ignore[attr-defined]
    their_score = theirs.score(held)  # type: ignore[attr-defined]
    print(
        f"| {name} | {ours_score:.5f} | {their_score:.5f} | {ours_score - their_score:+.5f} "
        f"| {seconds:.2f} | {their_seconds:.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    print(
        "| template | auto, nats per held-out row | best of ten | difference (wanted >= -0.001) ",
        end="",
    )
    print("| auto s | one scikit-learn fit s |\n|---|---|---|---|---|---|")
    compare("ELKI", templates.elki())
    compare("Iris", templates.species("iris", None))
    compare("Flea", templates.species("flea", None))
    compare("Wreath", templates.wreath(None))

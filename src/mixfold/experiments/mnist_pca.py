"""MNIST on its first principal components."""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.rows import Array as Floats
from mixfold.experiments._measures import evaluate
from mixfold.experiments._methods import EPOCHS, TEN_PASSES, Contest, random_labels
from mixfold.experiments._writing import draw_boxes, write_csv, write_markdown
from mixfold.experiments.templates import data_file
from mixfold.experiments.wanted import Wanted
from mixfold.families.gaussian import Gaussian
from mixfold.models.mixture_model import MixtureModel
from mixfold.sources.array_source import ArraySource

K = 10
KMEANS = "k-means"
# medians over 100 replications in the authors' logs
AUTHORS = {
    10: {"EM": 0.405, "n/10": 0.449, "n/10 P": 0.435, KMEANS: 0.338},
    20: {"EM": 0.442, "n/10": 0.476, "n/10 P": 0.483, KMEANS: 0.360},
    50: {"EM": 0.392, "n/10": 0.431, "n/10 P": 0.437, KMEANS: 0.364},
    100: {"EM": 0.327, "n/10": 0.356, "n/10 P": 0.374, KMEANS: 0.366},
}

Result = dict[str, Any]


class MnistPca:
    """How well mixtures of ten Gaussians find the ten digits, without seeing labels."""

    reps = 10

    def run(self, wanted: Wanted) -> None:
        """Run all replications on the first `n` digits; results go to the folder `out`."""
        reps = wanted.reps or self.reps
        scores, labels = digits(data_file("mnist.npz", wanted.data), wanted.n)
        out = wanted.folder()
        results = list[Result]()
        for components, rep in product(AUTHORS, range(reps)):
            results += replicate(np.ascontiguousarray(scores[:, :components]), labels, rep)
            write_csv(out / "mnist-pca.csv", results)
            done = f"{components} components, {rep + 1} of {reps}"
            wanted.tell(f"mnist-pca: {done}")
        write_summary(out / "mnist-pca.md", results)
        title = f"mnist-pca: adjusted Rand index by number of components, {reps} replications"
        panels = {f"{d} components": agreement(results, d) for d in AUTHORS}
        draw_boxes(out / "mnist-pca.png", title, panels)


def digits(path: Path, n: int | None) -> tuple[Floats, np.ndarray]:
    """Scores of training and test digits on the leading components of their raw pixels."""
    from sklearn.decomposition import PCA

    with np.load(path) as arrays:
        x = np.concatenate([arrays["X_train"], arrays["X_test"]])[:n]
        y = np.concatenate([arrays["y_train"], arrays["y_test"]])[:n]
    pca = PCA(max(AUTHORS), svd_solver="covariance_eigh")
    return pca.fit_transform(x.astype(np.float64)), y


def replicate(x: Floats, labels: np.ndarray, rep: int) -> list[Result]:
    """All methods on the same digits from one start."""
    source, model = ArraySource(x), MixtureModel(Gaussian(), K, x.shape[1])
    backend = Threads(model)
    start = random_labels(model, source, np.random.default_rng(rep))
    contest = Contest(backend, source, start, rep)
    common = {"components": x.shape[1], "replication": rep}
    results = [{**common, **_k_means(x, labels, rep)}]
    for method, params, fit in [contest.em("EM", TEN_PASSES), *contest.mini_batches(10)]:
        log_likelihood, ari = evaluate(backend, params, source, labels)
        results.append({**common, **_measured(method, fit.seconds, log_likelihood, ari)})
    return results


def _k_means(x: Floats, labels: np.ndarray, rep: int) -> Result:
    """As the authors ran it: one start from random rows, ten iterations."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    began = time.monotonic()
    found = KMeans(K, init="random", n_init=1, max_iter=EPOCHS, random_state=rep).fit_predict(x)
    seconds = time.monotonic() - began
    return _measured(KMEANS, seconds, float("nan"), adjusted_rand_score(labels, found))


def _measured(method: str, seconds: float, log_likelihood: float, ari: float) -> Result:
    return {"method": method, "seconds": seconds, "log_likelihood": log_likelihood, "ari": ari}


def agreement(results: list[Result], components: int) -> dict[str, list[float]]:
    """Adjusted Rand indices of every method on so many components."""
    boxes: dict[str, list[float]] = {}
    for result in results:
        if result["components"] == components:
            boxes.setdefault(result["method"], []).append(result["ari"])
    return boxes


def write_summary(path: Path, results: list[Result]) -> None:
    """Median adjusted Rand index, the authors' in brackets."""
    methods = list(AUTHORS[10])
    rows = []
    for components, theirs in AUTHORS.items():
        boxes = agreement(results, components)
        cells = [f"{np.median(boxes[m]):.3f} ({theirs[m]:.3f})" for m in methods]
        rows.append([str(components), *cells])
    write_markdown(path, ["components", *methods], rows)

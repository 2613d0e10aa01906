"""A pass of EM over float32 rows in the memory of a GPU, beside scikit-learn's on torch; products
of families; rows sent to it; and annealing.

python benchmarks/gpu.py [--rival]

The roofline is the larger of the bytes of all rows over BANDWIDTH and the operations over the rate
of products of float64 matrices, measured here.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported, for the rival

import numpy as np
import torch
from sklearn import config_context
from sklearn.mixture import GaussianMixture

from mixfold import EM, AnnealedSGD, Gaussian, Mixture, Product
from mixfold.backends.gpu import Gpu
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.families.categorical import Categorical
from mixfold.families.incomplete_rows import with_missing
from mixfold.kernels.gpu import GpuKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams

BANDWIDTH = 4.3e12
CASES = [
    (10_000_000, 4, 3, "full", 0.15),
    (1_000_000, 2, 3, "full", 0.1),
    (10_000_000, 8, 32, "full", 4.0),
    (1_000_000, 16, 16, "full", 1.0),
    (1_000_000, 32, 100, "full", 15.0),
    (1_000_000, 64, 64, "full", 14.0),
    (2_000_000, 64, 32, "full", 13.0),
    (1_000_000, 10, 1000, "diag", 10.0),
    (1_000_000, 128, 1024, "spherical", 20.0),
    (60_000, 784, 64, "diag", 0.5),
]
ENOUGH = 0.5  # seconds
MIXED: Any = {  # four types
    **dict.fromkeys((0, 1), "gaussian"),
    **dict.fromkeys((2, 3), "poisson"),
    **dict.fromkeys((4, 5), Categorical(5)),
    **dict.fromkeys((6, 7), "bernoulli"),
}


def timed(work: Callable[[], Any]) -> float:
    """Seconds."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def best(work: Callable[[], Any], times: int = 5) -> float:
    """Seconds of the fastest run."""
    return min(timed(work) for _ in range(times))


def per_pass(fit: Callable[[int], Any], few: int, many: int, times: int = 5) -> float:
    """Seconds of a pass: the difference of the fastest of long and short fits, by turns."""
    fit(few)  # compiles
    pairs = [[timed(lambda: fit(few)), timed(lambda: fit(many))] for _ in range(times)]
    short, long = np.min(pairs, axis=0)
    return float(long - short) / (many - few)


def centres_of(d: int, k: int) -> torch.Tensor:
    """Where blobs are."""
    return torch.rand((k, d), generator=torch.Generator("cuda").manual_seed(0), device="cuda")


def rows_of(n: int, d: int, k: int) -> torch.Tensor:
    """Overlapping blobs in [0, 1]."""
    random = torch.Generator("cuda").manual_seed(1)
    centres = centres_of(d, k)
    labels = torch.randint(k, (n,), generator=random, device="cuda")
    noise = torch.randn((n, d), generator=random, device="cuda")
    return torch.add(centres[labels], noise, alpha=0.3).contiguous()


def started(x: torch.Tensor, k: int, covariance: str) -> Mixture:
    """A mixture after one pass."""
    learner = EM(tol=0.0, max_iter=10**6)
    centres = centres_of(x.shape[1], k).cpu().numpy()
    return Mixture(Gaussian(covariance), k, learner=learner, init=centres, max_iter=1).fit(x)


def product_rate() -> float:
    """Operations per second of a float64 product."""
    a = torch.rand((8192, 8192), dtype=torch.float64, device="cuda")
    return 2 * 8192**3 / best(lambda: a @ a)


def of_engine(model: Mixture, x: torch.Tensor, covariance: str) -> float:
    """Seconds per pass while many are made."""
    backend = Gpu(MixtureModel(Gaussian(covariance), model.n_components, x.shape[1]), "cuda")
    rows: Any = Rows(x)
    made = backend.run_passes(model.params_, rows)
    assert made is not None, "no passes on the device"
    number = len(made.log_likelihood)
    assert number, "a component was degenerate"

    def run() -> None:
        nonlocal made
        assert made is not None
        made = backend.run_passes(made.after(number), rows)
        assert made is not None
        assert len(made.log_likelihood) == number

    return best(run) / number


def of_fit(x: torch.Tensor, k: int, covariance: str, one: float) -> float:
    """Seconds per pass of `fit`, if `one` pass takes about so long."""

    def fit(passes: int) -> None:
        learner = EM(tol=0.0, max_iter=10**6)
        centres = centres_of(x.shape[1], k).cpu().numpy()
        settings: dict[str, Any] = {"init": centres, "max_iter": passes}
        Mixture(Gaussian(covariance), k, learner=learner, **settings).fit(x)

    # starts are drawn by the CPU, and their time varies: what passes take must stand out
    return per_pass(fit, 17, 17 + 16 * max(4, round(ENOUGH / (16 * one))))


def of_rival(x: torch.Tensor, model: Mixture, covariance: str) -> float:
    """Seconds per iteration of scikit-learn."""

    def fit(passes: int) -> None:
        rival = GaussianMixture(
            model.n_components,
            covariance_type=covariance,
            max_iter=passes,
            tol=0.0,
            weights_init=torch.tensor(model.weights_, dtype=x.dtype, device=x.device),
            means_init=torch.tensor(model.means_, dtype=x.dtype, device=x.device),
            init_params="random",
        )
        rival.fit(x)

    with config_context(array_api_dispatch=True):
        return per_pass(fit, 1, 11, 3)


def statistics_agree(shape: MixtureModel, params: MixtureParams, x: torch.Tensor) -> float:
    """The largest relative difference of statistics of 20,000 rows from the CPU's in float64."""
    some = x[:20_000].contiguous()
    zero = np.zeros(shape.n_sums)
    there: Any = Rows(some)
    here = Rows(some.double().cpu().numpy())
    found, expected = (
        shape.statistics(params, backend.fold(params, rows, zero))
        for backend, rows in ((Gpu(shape, "cuda"), there), (Threads(shape), here))
    )
    gaps = []
    for one, other in zip(found.blocks, expected.blocks, strict=True):
        for name in ("weight", "mean", "scatter"):
            gaps.append(relative_gap(getattr(one, name), getattr(other, name)))
    return max(*gaps, relative_gap(found.log_likelihood, expected.log_likelihood))


def relative_gap(a: Any, b: Any) -> float:
    """The largest difference, relative to the largest number; 0 if there are none."""
    return float(np.abs(np.asarray(a) - b).max() / np.abs(b).max()) if np.size(b) else 0.0


def mixed_rows(n: int, k: int, missing: float) -> torch.Tensor:
    """Rows of `MIXED` columns, with a share of missing cells."""
    random = torch.Generator("cuda").manual_seed(1)
    z = torch.randint(k, (n, 1), generator=random, device="cuda").float()
    high = (z + 0.5) / k
    normal = 2.0 * z + torch.randn((n, 2), generator=random, device="cuda")
    counts = torch.poisson((1.0 + 3.0 * z).expand(n, 2).contiguous(), generator=random)
    uniform = torch.rand((n, 12), generator=random, device="cuda")
    levels = [(uniform[:, 4 * i : 4 * i + 4] < high).sum(dim=1, keepdim=True) for i in range(2)]
    x = torch.cat([normal, counts, *levels, uniform[:, 8:10] < high], dim=1).float()
    if missing:
        x[torch.rand(x.shape, generator=random, device="cuda") < missing] = torch.nan
    return x.contiguous()


def of_products(missing: float, dtype: torch.dtype, n: int = 10_000_000, k: int = 5) -> str:
    """Milliseconds per pass: of the engine, without fused kernels, of `fit`, and of the CPU."""
    x, product = mixed_rows(n, k, missing).to(dtype), Product(MIXED)

    def fit(passes: int) -> Mixture:
        learner = EM(tol=0.0, max_iter=10**6)
        start: dict[str, Any] = {"init": "random-rows", "random_state": 0, "max_iter": passes}
        return Mixture(product, k, learner=learner, **start).fit(x)

    shape = MixtureModel(with_missing(product) if missing else product, k, len(MIXED))
    params, rows, zero = fit(5).params_, Rows(x), np.zeros(shape.n_sums)
    fused, plain = Gpu(shape, "cuda"), Gpu(shape, "cuda")
    plain.on_device = GpuKernel(shape, plain.device, fused=False)
    assert dtype in fused.on_device.prepare(params).types, "no fused kernels"
    seconds = [
        best(lambda: fused.fold(params, rows, zero)),
        best(lambda: plain.fold(params, rows, zero)),
        per_pass(fit, 5, 105),
    ]
    here = rows.on_host()
    seconds.append(best(lambda: Threads(shape).fold(params, here, zero), 2))
    times = " | ".join(f"{1e3 * one:.2f}" for one in seconds)
    gap = statistics_agree(shape, params, x)
    floor = x.element_size() * x.numel() / BANDWIDTH
    kind = str(dtype).removeprefix("torch.")
    return f"| {n:.0e} | {k} | {kind} | {missing:.0%} | {times} | {1e3 * floor:.3f} | {gap:.0e} |"


def operations(n: int, d: int, k: int, covariance: str) -> float:
    """Multiplications and additions of distances and moments."""
    pairs = d * (d + 1) / 2 if covariance == "full" else 2 * d
    return 4.0 * n * k * pairs


def annealed_rows(n: int = 60_000, d: int = 784, k: int = 64) -> float:
    """Rows per second of `AnnealedSGD` with batches of 100."""
    x = torch.rand((n, d), device="cuda")

    def fit(passes: int) -> None:
        learner = AnnealedSGD(batch_size=100, max_iter=passes)
        Mixture(Gaussian("diag"), k, learner=learner, random_state=0).fit(x)

    return n / per_pass(fit, 2, 12, 3)


def streamed(n: int = 40_000_000, d: int = 32, k: int = 16) -> str:
    """Rates, in GB/s, at which rows in the memory of the host are folded, and bare copies."""
    shape = MixtureModel(Gaussian("diag"), k, d)
    x = torch.rand((n, d)).numpy()
    params, some = (
        started(torch.tensor(x[:100_000], device="cuda"), k, "diag").params_,
        x[:4_000_000],
    )
    there, zero = torch.tensor(some, device="cuda"), np.zeros(shape.n_sums)
    pinned = torch.empty(some.shape, pin_memory=True)

    def fold(n_threads: int | None) -> float:
        backend = Gpu(shape, "cuda", n_threads)
        return float(x.nbytes) / best(lambda: backend.fold(params, Rows(x), zero), 3)

    rates = {
        "folded": fold(None),
        "folded, rows copied by one thread": fold(1),
        "copy of pinned memory": some.nbytes / best(lambda: there.copy_(pinned)),
        "copy of plain memory": some.nbytes / best(lambda: there.copy_(torch.from_numpy(some))),
    }
    return "; ".join(f"{name} {1e-9 * rate:.1f}" for name, rate in rates.items())


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rival", action="store_true")
    options.add_argument("--only", type=int, help="columns of the one case to run")
    given = options.parse_args()
    rival = given.rival
    print(f"{4e7:.0e} x 32 rows in the memory of the host, GB/s: {streamed()}", flush=True)
    print(f"AnnealedSGD, d=784, K=64, batches of 100: {annealed_rows():.3g} rows/s", flush=True)
    if given.only in (None, len(MIXED)):
        print("| rows | K | | missing | engine ms | not fused | fit ms | CPU ms | roofline | gap |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for missing, dtype in ((0.0, torch.float32), (0.1, torch.float32), (0.0, torch.float64)):
            print(of_products(missing, dtype), flush=True)
    rate = product_rate()
    print(f"float64 products: {rate / 1e12:.0f} TFLOP/s")
    print("| rows | d | K | | engine ms | fit ms | at most | roofline ms | rival ms | gap |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for n, d, k, covariance, most in CASES:
        if given.only not in (None, d):
            continue
        x = rows_of(n, d, k)
        model = started(x, k, covariance)
        gap = statistics_agree(MixtureModel(Gaussian(covariance), k, d), model.params_, x)
        ours = of_engine(model, x, covariance)
        whole = of_fit(x, k, covariance, ours)
        floor = max(4.0 * n * d / BANDWIDTH, operations(n, d, k, covariance) / rate)
        theirs = f"{1e3 * of_rival(x, model, covariance):.1f}" if rival else ""
        times = f"{1e3 * ours:.3f} | {1e3 * whole:.3f} | {most} | {1e3 * floor:.3f} | {theirs}"
        print(f"| {n:.0e} | {d} | {k} | {covariance} | {times} | {gap:.0e} |", flush=True)


if __name__ == "__main__":
    main()

"""Arguments that the compiled functions take, of random sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Made = tuple[str, dict[str, Any], list[Shape], tuple[str, ...]]


@dataclass(frozen=True)
class Sizes:
    """Rows, components and columns."""

    n: int
    k: int
    d: int

    @staticmethod
    def drawn(rng: np.random.Generator) -> Sizes:
        """Small ones as a rule, on both sides of the widths of vectors and of tiles."""
        n = int(rng.choice([1, 2, 7, 8, 9, 33, 100, 300]))
        k = int(rng.choice([1, 2, 3, 4, 5, 8, 9, 17]))
        d = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 9, 15, 16, 17, 31, 33, 65]))
        return Sizes(n, k, d)


Entry = Callable[[np.random.Generator, Sizes], Made]


def table(rng: np.random.Generator, s: Sizes, counts: bool = False) -> np.ndarray:
    """Rows of either precision."""
    x = rng.poisson(3.0, (s.n, s.d)) if counts else rng.normal(size=(s.n, s.d))
    return x.astype(rng.choice(["f4", "f8"]))


def weights(rng: np.random.Generator, s: Sizes) -> dict[str, Any]:
    """Some that are zero, or none at all."""
    drawn = rng.exponential(size=s.n) * (rng.random(s.n) < 0.8)
    return {"weights": drawn if rng.random() < 0.5 else None}


def positive(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return np.asarray(rng.exponential(size=shape) + 0.1)


def triangles(rng: np.random.Generator, k: int, d: int) -> np.ndarray:
    """Lower triangular matrices that are far from singular."""
    return np.asarray(np.tril(0.1 * rng.normal(size=(k, d, d)), -1) + np.eye(d))


def responsibilities(rng: np.random.Generator, s: Sizes) -> np.ndarray:
    return np.asarray(rng.random((s.n, s.k)) / max(s.k, 1))


def gaussian(rng: np.random.Generator, s: Sizes, form: str) -> dict[str, Any]:
    whiten = triangles(rng, s.k, s.d) if form == "triangular" else positive(rng, s.k, s.d)
    return {
        "origin": rng.normal(size=s.d),
        "means": rng.normal(size=(s.k, s.d)),
        "whiten": whiten,
        "log_scale": rng.normal(size=s.k),
    }


def linear(rng: np.random.Generator, s: Sizes) -> dict[str, Any]:
    return {
        "eta": rng.normal(size=(s.k, s.d)),
        "offset": rng.normal(size=s.k),
        "poisson": bool(rng.integers(2)),
    }


def expectation(rng: np.random.Generator, s: Sizes, task: str, form: str) -> Made:
    """Sums, posteriors, and sums under given responsibilities."""
    counts = form == "linear"
    arguments: dict[str, Any] = {"rows": table(rng, s, counts)}
    if task != "posterior":
        arguments |= weights(rng, s)
    if task == "moments":
        arguments["responsibilities"] = responsibilities(rng, s)
    arguments |= linear(rng, s) if counts else gaussian(rng, s, form)
    second = {"triangular": s.d * (s.d + 1) // 2, "diagonal": s.d, "linear": 0}[form]
    shapes: list[Shape] = [(1 + s.k * (1 + s.d + second),)]
    if task == "posterior":
        shapes = [(s.n,), (s.n, s.k)]
    return f"{task}_{form}", arguments, shapes, ()


def factors(rng: np.random.Generator, s: Sizes) -> tuple[dict[str, Any], int]:
    """Factors of a product, one for every column, and the number of sums of a component."""
    kinds = rng.integers(3, size=s.d)
    sizes = np.where(kinds == 2, rng.choice([2, 5, 40], size=s.d), 1)
    flags = rng.integers(2, size=(2, s.d))
    rows = [kinds, rng.permutation(s.d), sizes, flags[0], flags[1] * (kinds == 1)]
    widths = np.select([kinds == 0, kinds == 1], [3, 2], sizes)
    arguments = {
        "log_weights": np.log(positive(rng, s.k)),
        "factors": np.stack(rows, axis=1).astype(np.int64),
        "parameters": -positive(rng, s.k, int(widths.sum())),
        "d": s.d,
    }
    return arguments, 1 + int((widths + (kinds == 2)).sum())


def product(rng: np.random.Generator, s: Sizes, task: str) -> Made:
    """Products, some of whose cells are missing."""
    x = table(rng, s, counts=bool(rng.integers(2)))
    arguments: dict[str, Any] = {"rows": np.where(rng.random(x.shape) < 0.2, np.nan, x)}
    if task != "posterior":
        arguments |= weights(rng, s)
    if task == "moments":
        arguments["responsibilities"] = responsibilities(rng, s)
    else:
        arguments["more"] = rng.normal(size=(s.n, s.k)) if rng.random() < 0.5 else None
    more, n_sums = factors(rng, s)
    shapes: list[Shape] = [(1 + s.k * n_sums,)]
    if task == "posterior":
        shapes = [(s.n,), (s.n, s.k)]
    elif task == "expect" and rng.random() < 0.5:
        more["responsibilities"] = True
        shapes.append((s.n, s.k))
    return f"{task}_product", arguments | more, shapes, ()


def match_gaussian(rng: np.random.Generator, s: Sizes, diagonal: bool) -> Made:
    """Normal-Wishart or normal-gamma distributions of the parameters."""
    each = (s.k, s.d) if diagonal else (s.k,)
    arguments = {
        "rows": table(rng, s),
        **weights(rng, s),
        "alpha": positive(rng, s.k),
        "mean": rng.normal(size=(s.k, s.d)),
        "kappa": positive(rng, *each),
        "nu": positive(rng, *each) + (1 if diagonal else s.d) + 2,
        "scale": positive(rng, s.k, s.d) if diagonal else triangles(rng, s.k, s.d),
    }
    scale = arguments["scale"].shape
    return "match_gaussian", arguments, [(s.k,), (s.k, s.d), each, each, scale, (), ()], ()


def match_rates(rng: np.random.Generator, s: Sizes) -> Made:
    """Gamma distributions of rates."""
    arguments = {
        "rows": table(rng, s, counts=True),
        **weights(rng, s),
        "alpha": positive(rng, s.k),
        "shape": positive(rng, s.k, s.d),
        "rate": positive(rng, s.k, s.d),
        "poisson": bool(rng.integers(2)),
    }
    return "match_rates", arguments, [(s.k,), (s.k, s.d), (s.k, s.d), ()], ()


def anneal(rng: np.random.Generator, s: Sizes, name: str, triangular: bool) -> Made:
    """Stochastic gradients, which change their arguments."""
    kind = np.float32 if name == "anneal_single" else np.float64
    roots = triangles(rng, s.k, s.d).transpose(0, 2, 1) if triangular else positive(rng, s.k, s.d)
    moved = {
        "logits": np.zeros(s.k),
        "means": rng.normal(size=(s.k, s.d)).astype(kind),
        "roots": np.ascontiguousarray(roots, dtype=kind),
    }
    arguments = {
        "rows": table(rng, s),
        "weights": positive(rng, s.n) if rng.random() < 0.5 else None,
        "batch_size": int(rng.choice([1, 2, 5, 1000])),
        **moved,
        "bumps": np.full((s.k, s.k), 1.0 / max(s.k, 1)),
        "epsilon": 0.01,
        "least_root": 0.1,
        "most_root": 10.0,
        "loss": -np.inf,
        "first": -np.inf,
    }
    return name, arguments, [()] * 4 + [a.shape for a in moved.values()], tuple(moved)


def online(rng: np.random.Generator, s: Sizes, kind: str) -> Made:
    """One update per row, from statistics and parameters."""
    matrices = kind in ("full", "tied")
    spread = s.d * (s.d + 1) // 2 if matrices else s.d if kind in ("diag", "spherical") else 0
    scatter = np.ones((s.k, spread)) if not matrices else packed_identity(s.k, s.d)
    factor = {"full": (s.k, s.d, s.d), "tied": (1, s.d, s.d), "spherical": (s.k, 1)}.get(kind)
    share, mean = positive(rng, s.k), positive(rng, s.k, s.d)
    native = import_module("mixfold._native")
    assignments, controls = list(native.Assign), list(native.Control)
    control = controls[int(rng.integers(len(controls)))]
    steered = control is not native.Control.none
    arguments: dict[str, Any] = {
        "kind": kind,
        "s_weight": share,
        "s_mean": mean,
        "s_scatter": scatter,
        "t_weight": share.copy(),
        "t_mean": mean.copy(),
        "t_scale": np.ones(factor or (s.k, spread)),
        "floor": 1e-6,
        "reg": 0.0 if spread == 0 else 1e-6,
        "least": 0.0,
        "rounding": 0.0 if spread == 0 else 2.0**-52,
        "lowest": np.full(s.d, 1e-60),
        "weight": share.copy(),
        "mean": mean.copy(),
        "scatter": scatter.copy(),
        "rows": table(rng, s, counts=spread == 0),
        **weights(rng, s),
        "gamma": np.full(s.n, 0.05),
        "hold": int(rng.integers(4)),
        "assign": assignments[int(rng.integers(len(assignments)))],
        "control": control,
        "recursive": bool(rng.integers(2)),
        "narrow": bool(rng.integers(2)),
        "per_weight": 1.0 / max(s.n, 1),
        "log_likelihood": 0.0,
    }
    if steered:
        arguments["old"] = responsibilities(rng, s)
    after: list[Shape] = [(s.k,), (s.k, s.d), (s.k, spread), (s.k,), (s.k, s.d)]
    shapes = [(), (), *([(s.n, s.k)] if steered else []), *after, arguments["t_scale"].shape]
    return "OnlineMixture", arguments, shapes, ()


def packed_identity(k: int, d: int) -> np.ndarray:
    """Lower triangles of identity matrices, row by row."""
    rows, columns = np.tril_indices(d)
    return np.tile((rows == columns).astype(np.float64), (k, 1))


PARAMETERS = ["s_weight", "s_mean", "s_scatter", "t_weight", "t_mean", "t_scale"]
CONSTRUCTED = ["kind", *PARAMETERS, "floor", "reg", "least", "rounding", "lowest"]
REFERENCE = ["weight", "mean", "scatter"]


def fold_online(native: Any, **arguments: Any) -> tuple[Any, ...]:
    """Construct an OnlineMixture, give it a reference and noise, and fold rows into it."""

    def taken(names: list[str]) -> list[Any]:
        return [arguments.pop(name) for name in names]

    mixture = native.OnlineMixture(*taken(CONSTRUCTED), keep_weights=False, keep_scales=False)
    mixture.set_reference(*taken(REFERENCE))
    mixture.set_noise([1, 2, 3, 5])
    folded = mixture.fold(**{"old": None} | arguments)
    return (*folded, *mixture.state())


def candidates(rng: np.random.Generator, s: Sizes, form: str) -> dict[str, Any]:
    """Rows, and parameters in blocks of eight numbers."""
    blocks = 8 * -(-s.d // 8)
    columns = sum(min(s.d, last) for last in range(8, blocks + 8, 8))
    second = {"triangular": 8 * columns, "diagonal": blocks, "linear": 0}[form]
    return {
        "rows": table(rng, s),
        "form": form,
        "packed": 0.1 * rng.normal(size=(s.k, blocks + second)),
        "log_scale": rng.normal(size=s.k),
    }


def add_candidates(rng: np.random.Generator, s: Sizes, form: str) -> Made:
    """Sums of rows by component, of rows that there may not be."""
    counts = rng.integers(0, 4, size=s.k)
    total, first = int(counts.sum()), int(rng.integers(s.k + 1))
    second = {"triangular": s.d * (s.d + 1) // 2, "diagonal": s.d, "linear": 0}[form]
    arguments = candidates(rng, s, form) | {
        "offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        "members": rng.integers(-1, s.n + 1, size=total).astype(np.int32),
        "weights": rng.random(total),
        "first": first,
        "last": int(rng.integers(first, s.k + 1)),
        "table": np.zeros((s.k, 1 + s.d + second)),
    }
    return "add_candidates", arguments, [arguments["table"].shape], ("table",)


ENTRIES: list[Entry] = [
    partial(expectation, task=task, form=form)
    for task in ("expect", "posterior", "moments")
    for form in ("triangular", "diagonal", "linear")
]
ENTRIES += [partial(product, task=task) for task in ("expect", "posterior", "moments")]
ENTRIES += [partial(match_gaussian, diagonal=diagonal) for diagonal in (False, True)]
ENTRIES += [match_rates]
ENTRIES += [
    partial(anneal, name=name, triangular=triangular)
    for name in ("anneal_single", "anneal_double")
    for triangular in (False, True)
]
ENTRIES += [partial(add_candidates, form=form) for form in ("triangular", "diagonal", "linear")]
ENTRIES += [
    partial(online, kind=kind)
    for kind in ("full", "tied", "diag", "spherical", "poisson", "exponential")
]

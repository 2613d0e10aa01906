"""Wrong implementations that the laws of families must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mixfold.core.family import Family
from mixfold.core.support import Support
from mixfold.families.exponential import Exponential
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.testing import families as laws
from mixfold.testing._quadrature import quadrature

Law = Callable[[Family, int, int, np.random.Generator], None]
DENSITY: list[Law] = [laws.density_has_total_one, laws.density_equals_scipy]


def constant(self: Family, x: np.ndarray) -> np.ndarray:
    return np.full(len(x), -1.0)


def scaled(factor: float) -> Callable[[Any], Any]:
    """A change of a method: its result times a number."""
    return lambda method: lambda *arguments: factor * method(*arguments)


def shifted(method: Any) -> Any:
    return lambda *arguments: method(*arguments) + 0.1


WRONG: dict[str, tuple[Family, str, Callable[[Any], Any], list[Law]]] = {
    "constant base measure of counts": (Poisson(), "log_base_measure", lambda _: constant, DENSITY),
    "base measure of waiting times": (
        Exponential(),
        "log_base_measure",
        lambda _: constant,
        DENSITY,
    ),
    "log-normaliser of counts": (Poisson(), "log_normalizer", scaled(1.01), DENSITY),
    "log-normaliser of waiting times": (Exponential(), "log_normalizer", scaled(1.01), DENSITY),
    "shifted log-normaliser": (Exponential(), "log_normalizer", shifted, DENSITY),
    "natural parameters": (
        Poisson(),
        "to_natural",
        scaled(1.01),
        [laws.density_equals_scipy, laws.gradient_of_log_normalizer_is_the_mean],
    ),
    "density of a Gaussian": (
        Gaussian("diag"),
        "log_density",
        shifted,
        [*DENSITY, laws.density_is_the_linear_form],
    ),
    "base measure of a Gaussian": (
        Gaussian("diag"),
        "log_base_measure",
        lambda _: constant,
        [laws.density_is_the_linear_form],
    ),
    "mean": (
        Poisson(),
        "mean",
        scaled(1.1),
        [laws.gradient_of_log_normalizer_is_the_mean, laws.sampled_moments_converge],
    ),
    "samples": (Exponential(), "sample", scaled(1.1), [laws.sampled_moments_converge]),
}


@pytest.mark.parametrize(
    ("name", "law"), [(name, law) for name, wrong in WRONG.items() for law in wrong[3]]
)
@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 2)])
def test_a_wrong_family_breaks_the_law(
    name: str, law: Law, k: int, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, method, change, _ = WRONG[name]
    law(family, k, d, np.random.default_rng(7))
    kind = type(family)
    monkeypatch.setattr(kind, method, change(getattr(kind, method)))
    with pytest.raises(AssertionError):
        law(family, k, d, np.random.default_rng(7))


def test_a_family_says_what_scipy_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(Poisson, "scipy_log_density", None)
    laws.density_equals_scipy(Poisson(), 2, 2, rng)
    monkeypatch.delattr(Poisson, "scipy_log_density")
    with pytest.raises(AssertionError, match=r"Poisson does not say .*scipy_log_density"):
        laws.density_equals_scipy(Poisson(), 2, 2, rng)


@pytest.mark.parametrize(
    ("support", "inside", "outside"),
    [
        (Support(low=0.0), [0.0, 0.5, 9.0], [-0.1]),
        (Support(high=2.0), [-5.0, 2.0], [2.1]),
        (Support(0.0, 1.0), [0.0, 0.3, 1.0], [-0.1, 1.1]),
        (Support(0.0, 2.0, whole=True), [0.0, 1.0, 2.0], [-1.0, 0.5, 3.0]),
        (Support(low=0.0, whole=True), [0.0, 7.0], [-1.0, 2.5]),
    ],
)
def test_support(support: Support, inside: list[float], outside: list[float]) -> None:
    found = support.excludes(np.array([inside + outside]))
    assert found is not None
    assert found[0].tolist() == [False] * len(inside) + [True] * len(outside)
    assert Support().excludes(np.array([inside])) is None


@pytest.mark.parametrize(
    ("support", "density"),
    [
        (Support(), lambda x: np.exp(-0.5 * (x - 3.0) ** 2) / np.sqrt(2.0 * np.pi)),
        (Support(), lambda x: 3.0 / (np.pi * (9.0 + np.square(x - 8.0)))),
        (Support(low=2.0), lambda x: np.exp(2.0 - x)),
        (Support(high=0.0), np.exp),
        (Support(0.0, 1.0), lambda x: 0.5 / np.sqrt(np.maximum(x, 1e-300))),
        (Support(low=0.0, whole=True), lambda x: 0.1 * 0.9**x),
        (Support(0.0, 1.0, whole=True), lambda x: np.where(x > 0, 0.3, 0.7)),
    ],
    ids=["normal", "Cauchy", "half-line", "other half-line", "root", "geometric", "Bernoulli"],
)
def test_quadrature_of_known_densities(support: Support, density: Callable[[Any], Any]) -> None:
    sample = np.linspace(0.0, 20.0, 50)
    points, weights = quadrature(support, sample)
    np.testing.assert_allclose(weights @ density(points), 1.0, rtol=1e-6)

"""Log-likelihoods of mixtures by scipy, as functions of the parameters that users see.

They are the oracle of standard errors: their second derivatives are found by central differences.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats
from scipy.special import logsumexp

Logs = Callable[[np.ndarray], np.ndarray]
"""From free parameters to the log-density of every row, (n,)."""


def mixture(weight: float, *logs: np.ndarray) -> np.ndarray:
    """Log-densities of a mixture of two, of which the first has this weight."""
    return np.asarray(logsumexp(np.log([weight, 1.0 - weight])[:, None] + np.stack(logs), axis=0))


def hessian(function: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Second derivatives by central differences."""
    steps = np.diag(1e-4 * np.maximum(np.abs(at), 0.1))
    p = len(at)
    found = np.empty((p, p))
    for i in range(p):
        for j in range(i + 1):
            signs = (1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)
            ends = [a * b * function(at + a * steps[i] + b * steps[j]) for a, b in signs]
            found[i, j] = found[j, i] = sum(ends) / (4.0 * steps[i, i] * steps[j, j])
    return found


def scores(logs: Logs, at: np.ndarray) -> np.ndarray:
    """Derivatives (n, p) of the log-densities of rows by central differences."""
    steps = np.diag(1e-5 * np.maximum(np.abs(at), 0.1))
    return np.stack([(logs(at + h) - logs(at - h)) / (2.0 * h.sum()) for h in steps], axis=1)


def covariance(logs: Logs, at: np.ndarray, kind: str, weight: np.ndarray) -> np.ndarray:
    """The covariance of maximum-likelihood estimates, from the definition of each kind."""
    each = scores(logs, at)
    outer = (each * weight[:, None]).T @ each
    if kind == "empirical":
        return np.linalg.inv(outer)
    bread = np.linalg.inv(-hessian(lambda there: float(weight @ logs(there)), at))
    return bread if kind == "observed" else bread @ outer @ bread


def gaussian(x: np.ndarray, form: str) -> Logs:
    """Two Gaussians in two columns, with parameters in the order of `Estimates.names`."""

    def logs(p: np.ndarray) -> np.ndarray:
        means = p[1:5].reshape(2, 2)
        if form == "full":
            matrices = [np.array([[a, c], [c, b]]) for a, b, c in (p[[5, 6, 9]], p[[7, 8, 10]])]
        elif form == "diag":
            matrices = [np.diag(p[5:7]), np.diag(p[7:9])]
        elif form == "tied":
            matrices = [np.array([[p[5], p[7]], [p[7], p[6]]])] * 2
        else:
            matrices = [one * np.eye(2) for one in p[5:7]]
        pairs = zip(means, matrices, strict=True)
        return mixture(p[0], *(stats.multivariate_normal(m, s).logpdf(x) for m, s in pairs))

    return logs


def poisson(x: np.ndarray) -> Logs:
    return lambda p: mixture(p[0], *(stats.poisson.logpmf(x[:, 0], rate) for rate in p[1:]))


def exponential(x: np.ndarray) -> Logs:
    return lambda p: mixture(p[0], *(stats.expon.logpdf(x[:, 0], scale=one) for one in p[1:]))


def bernoulli(x: np.ndarray) -> Logs:
    def logs(p: np.ndarray) -> np.ndarray:
        each = (stats.bernoulli.logpmf(x, q).sum(axis=1) for q in np.split(p[1:], 2))
        return mixture(p[0], *each)

    return logs


def gamma(x: np.ndarray) -> Logs:
    """In shapes and rates."""

    def logs(p: np.ndarray) -> np.ndarray:
        each = zip(p[1:3], p[3:5], strict=True)
        return mixture(p[0], *(stats.gamma.logpdf(x[:, 0], a, scale=1.0 / b) for a, b in each))

    return logs


def mixed(x: np.ndarray) -> Logs:
    """A Gaussian, a Poisson count and a category with three levels, of which two are free."""

    def logs(p: np.ndarray) -> np.ndarray:
        means, variances, rates, levels = p[1:3], p[3:5], p[5:7], p[7:11].reshape(2, 2)
        parts = []
        for k in range(2):
            q = np.array([levels[k, 0], levels[k, 1], 1.0 - levels[k].sum()])
            found = stats.norm.logpdf(x[:, 0], means[k], np.sqrt(variances[k]))
            found = found + stats.poisson.logpmf(x[:, 1], rates[k])
            parts.append(found + np.log(q[x[:, 2].astype(int)]))
        return mixture(p[0], *parts)

    return logs


Shown = Callable[[np.ndarray], np.ndarray]
"""From free parameters of an oracle to some that users see."""


def errors_of(
    logs: Logs, shown: Shown, at: np.ndarray, kind: str, weight: np.ndarray
) -> np.ndarray:
    """Standard errors of functions of the free parameters, by the delta method."""
    steps = np.diag(1e-5 * np.maximum(np.abs(at), 0.1))
    slopes = np.stack([(shown(at + h) - shown(at - h)) / (2.0 * h.sum()) for h in steps], axis=1)
    return np.sqrt(np.diag(slopes @ covariance(logs, at, kind, weight) @ slopes.T))


def observed_normal(x: np.ndarray, mean: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Log-densities of the cells that are there."""
    found = np.zeros(len(x))
    for pattern in np.unique(~np.isnan(x), axis=0):
        rows = (~np.isnan(x) == pattern).all(axis=1)
        if pattern.any():
            own = stats.multivariate_normal(mean[pattern], matrix[np.ix_(pattern, pattern)])
            found[rows] = own.logpdf(x[np.ix_(rows, pattern)])
    return found


def shaped(name: str, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of two components in two columns, from the letters of mclust.

    The parameters are means, logarithms of volumes, half the logarithms of the ratios of variances,
    and angles; a letter E stands for one of them, V for two, and I for none.
    """
    means, rest = p[:4].reshape(2, 2), list(p[4:])
    volume, shape, angle = (
        np.array(
            {"E": lambda: [rest.pop(0)] * 2, "V": lambda: [rest.pop(0), rest.pop(0)]}[letter]()
        )
        if letter != "I"
        else np.zeros(2)
        for letter in name
    )
    assert not rest
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turn = turn.transpose(2, 0, 1)
    variances = np.exp(volume[:, None] + np.stack([shape, -shape], axis=1))
    return means, (turn * variances[:, None]) @ turn.swapaxes(1, 2)

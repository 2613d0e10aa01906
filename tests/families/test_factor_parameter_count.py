"""The number of free parameters of factor covariances, against the rank of their Jacobian."""

from __future__ import annotations

import numpy as np
import pytest

from mixfold import Gaussian
from mixfold.models.mixture_model import MixtureModel


def free_parameters(d: int, q: int) -> int:
    """The dimension of all matrices L'L + diag(psi), near one of them drawn at random."""
    rng = np.random.default_rng(d * 10 + q)
    loadings = rng.normal(size=(q, d))
    columns = []
    for h in range(q):
        for j in range(d):
            change = np.zeros((q, d))
            change[h, j] = 1.0
            columns.append((loadings.T @ change + change.T @ loadings).ravel())
    columns += [np.diag(np.eye(d)[j]).ravel() for j in range(d)]
    return int(np.linalg.matrix_rank(np.array(columns)))


@pytest.mark.parametrize(("d", "q"), [(d, q) for d in range(2, 9) for q in range(1, d)])
def test_parameters_are_as_many_as_covariances_have_dimensions(d: int, q: int) -> None:
    assert Gaussian("factor", rank=q).n_parameters(1, d) == d + free_parameters(d, q)
    assert Gaussian("factor", rank=q).n_parameters(3, d) == 3 * (d + free_parameters(d, q))


def test_never_more_than_a_full_covariance() -> None:
    factors = MixtureModel(Gaussian("factor", rank=2), 1, 4)
    assert factors.n_parameters() == MixtureModel(Gaussian(), 1, 4).n_parameters() == 14

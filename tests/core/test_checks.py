import numpy as np
import pytest

from mixfold.core.checks import check_covariance
from mixfold.core.errors import InvalidInputError

NEARLY_SINGULAR = [
    [0.09354968440934386, 0.2956653569310064],
    [0.2956653569310064, 0.9344553521594562],
]


@pytest.mark.parametrize(
    "matrix", [NEARLY_SINGULAR, [[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]], [[-1.0]]]
)
def test_a_covariance_that_cannot_be_inverted_is_refused(matrix: list[list[float]]) -> None:
    given = np.array(matrix)
    with pytest.raises(InvalidInputError, match="symmetric, positive definite"):
        check_covariance("covariance", given, len(given))


def test_variances_may_be_of_any_scale() -> None:
    check_covariance("covariance", np.diag([1e-12, 1.0, 1e12]), 3)

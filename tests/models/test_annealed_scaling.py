"""Scales of columns, learned on the stream by annealed gradients."""

from __future__ import annotations

import numpy as np
import pytest

from annealed_rows import pictures
from mixfold import AnnealedSGD, Gaussian, Mixture
from mixfold.core.errors import InvalidInputError, LearningWarning
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.initializers.around_mean import AroundMean
from mixfold.models.column_scaling import scaling_of


@pytest.mark.parametrize("pixels", [True, False], ids=["pixels", "thousands"])
def test_scaling_on_the_stream_is_scaling_by_hand(pixels: bool) -> None:
    x = np.round(255.0 * pictures(3000)) if pixels else 1000.0 * pictures(3000, d=10) + 5000.0
    x[:, 3] = 7.0  # a constant column
    units = scaling_of(Rows(x[:256]))
    rule = AnnealedSGD(max_iter=2, precision="float64")
    z = (x - units.offset) / units.scale
    assert np.abs(z[:256]).max() <= 5.0 + 1e-12
    by_hand = Mixture(Gaussian("diag"), 9, learner=rule, init=AroundMean(), random_state=0).fit(z)
    learner = AnnealedSGD(max_iter=2, precision="float64", scale=True)
    model = Mixture(Gaussian("diag"), 9, learner=learner, random_state=0).fit(x)
    np.testing.assert_allclose(
        model.means_, by_hand.means_ * units.scale + units.offset, rtol=1e-6, atol=1e-6
    )
    deviations = np.sqrt(by_hand.covariances_) * units.scale
    np.testing.assert_allclose(np.sqrt(model.covariances_), deviations, rtol=1e-6)
    volume = np.log(units.scale).sum()
    np.testing.assert_allclose(model.score(x), by_hand.score(z) - volume, rtol=1e-6)
    ends = [m.history_.log_likelihood[-1] for m in (model, by_hand)]
    np.testing.assert_allclose(ends[0], ends[1] - volume, rtol=1e-6)


def test_scaled_learning_finds_clusters_in_thousands() -> None:
    x = 1000.0 * pictures(6000, d=20) + 5000.0
    learner = AnnealedSGD(max_iter=4, scale=True)
    model = Mixture(Gaussian("diag"), 16, learner=learner, random_state=0).fit(x)
    best = Mixture(Gaussian("diag"), 9, random_state=0).fit(x).score(x)
    assert model.score(x) > best - 16.0
    one = Mixture(Gaussian("diag"), 1, random_state=0).fit(x).score(x)
    assert model.score(x) > one + 10.0


def test_rare_and_constant_columns_have_a_scale() -> None:
    x = np.zeros((256, 3))
    x[:, 0] = np.linspace(0.0, 100.0, 256)
    x[17, 1] = 50.0
    found = scaling_of(Rows(x))
    assert np.abs((x - found.offset) / found.scale).max() <= 5.0 + 1e-12
    assert found.scale[2] == found.scale.max()
    assert (scaling_of(Rows(np.full((5, 2), 7.0))).scale == 1.0).all()
    weight = (np.arange(256) != 17).astype(float)
    without = scaling_of(Rows(x, weight)).scale
    assert without[1] == without[0] == without.max()


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (255.0, "rows have values of 2.+ within 21.2 of zero; shift and divide .*scale=True"),
        (0.001, "deviations of .* at most, and cap=20 keeps .* above 0.224.*raise cap"),
    ],
)
def test_rows_out_of_scale_are_said(times: float, said: str) -> None:
    x = times * pictures(300)
    model = Mixture(Gaussian("diag"), 4, learner=AnnealedSGD(max_iter=1), random_state=0)
    with pytest.warns(LearningWarning, match=said) as caught:
        model.fit(x)
    assert len(caught) == 1
    assert np.isfinite(model.score(x))
    model.set_params(learner=AnnealedSGD(max_iter=1, scale=True)).fit(x)


def test_scale_is_a_choice_of_two() -> None:
    with pytest.raises(InvalidInputError, match="True or False"):
        AnnealedSGD(scale="no")


def test_another_choice_of_scale_begins_anew() -> None:
    x = pictures(600)
    model = Mixture(Gaussian("diag"), 9, learner="annealed-sgd", random_state=0).fit(x)
    model.set_params(learner=AnnealedSGD(scale=True)).partial_fit(x)
    assert model._learned.stream.state.rows == 600
    assert np.isfinite(model.score(x))


@pytest.mark.filterwarnings("ignore:rows have values")
@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("scale", [False, True])
def test_rows_that_weigh_nothing_change_nothing(scale: bool, batch_size: int) -> None:
    x = 50.0 * pictures(400) + 1000.0 if scale else pictures(400)
    weight = np.ones(700)
    weight[100:400] = 0.0
    among = np.concatenate([x[:100], np.full((300, x.shape[1]), 1e6), x[100:]])
    weight[620:650] = 0.0
    among[620:650] = -1e6
    x = np.delete(x, np.s_[320:350], axis=0)
    learner = AnnealedSGD(scale=scale, batch_size=batch_size)
    plain, mixed = (Mixture(Gaussian("diag"), 9, learner=learner, random_state=0) for _ in range(2))
    plain.partial_fit(x)
    for part in (slice(250), slice(250, 640), slice(640, 700)):
        mixed.partial_fit(among[part], sample_weight=weight[part])
    assert equal(plain.params_, mixed.params_)


def test_rows_that_wait_for_their_scale_show_it() -> None:
    x = 50.0 * pictures(100) + 1000.0
    learner = AnnealedSGD(scale=True)
    model = Mixture(Gaussian("diag"), 9, learner=learner, random_state=0).partial_fit(x)
    assert np.abs(model.means_ - x.mean(axis=0)).max() < 50.0
    np.testing.assert_allclose(model.covariances_.max(axis=0), scaling_of(Rows(x)).scale ** 2 / 20)

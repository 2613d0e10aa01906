"""What pictures of mixtures show is what the mixtures are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.text import Text
from scipy.stats import norm

from mixfold import Categorical, Gaussian, Mixture, Product, datasets
from mixfold.core.registry import find_all
from mixfold.errors import InvalidInputError
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.plots.colours import COLOURS, NOISE, colour_of
from mixfold.plots.fitted_mixture import Column, FittedMixture
from mixfold.plots.mixture import draw_mixture, kind_of
from mixfold.plots.pairs import outline_levels

ROWS = datasets.load_faithful()
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    plt.switch_backend("agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def geyser() -> Mixture:
    return Mixture(n_components=2, random_state=0).fit(ROWS)


def axes() -> Any:
    return Figure(layout="constrained").subplots()


def line_of(drawn: Any, label: str) -> tuple[np.ndarray, np.ndarray]:
    (line,) = [one for one in drawn.lines if one.get_label() == label]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


# densities


def test_densities_are_those_of_the_components_and_integrate_to_their_weights() -> None:
    x = np.random.default_rng(0).normal(size=(500, 1)) + np.repeat([[0.0], [9.0]], [200, 300], 0)
    model = Mixture(n_components=2, random_state=0).fit(x)
    drawn = model.plot(x, axes())
    for k in range(2):
        place, density = line_of(drawn, str(k))
        deviation = np.sqrt(model.covariances_[k, 0, 0])
        expected = model.weights_[k] * norm.pdf(place, model.means_[k, 0], deviation)
        np.testing.assert_allclose(density, expected, rtol=1e-9)
        assert np.trapezoid(density, place) == pytest.approx(model.weights_[k], abs=0.01)
    place, total = line_of(drawn, "all")
    np.testing.assert_allclose(total, np.exp(model.score_samples(place[:, None])), rtol=1e-9)
    assert np.trapezoid(total, place) == pytest.approx(1.0, abs=0.01)
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("x0", "density")


def test_narrow_components_are_drawn_with_enough_points_and_their_peaks_are_cut() -> None:
    x = np.concatenate([np.random.default_rng(0).normal(0.0, 1e-5, 300), np.linspace(5, 9, 300)])
    model = Mixture(n_components=2, random_state=0).fit(x[:, None])
    drawn = model.plot(x[:, None], axes())
    for k in range(2):
        place, density = line_of(drawn, str(k))
        assert np.trapezoid(density, place) == pytest.approx(model.weights_[k], abs=0.02)
    highest = line_of(drawn, "all")[1].max()
    assert drawn.get_ylim()[1] < 0.05 * highest


def test_rows_are_a_histogram_and_a_rug_in_the_colours_of_their_components(geyser: Mixture) -> None:
    drawn = geyser.plot(ROWS, axes(), columns=[1])
    (bars,) = drawn.patches
    data = bars.get_data()
    assert (data.values * np.diff(data.edges)).sum() == pytest.approx(1.0)
    marks = {line.get_color(): line.get_xdata() for line in drawn.lines if line.get_marker() == "|"}
    labels = geyser.predict(ROWS)
    for k in range(2):
        np.testing.assert_array_equal(marks[COLOURS[k]], ROWS[labels == k, 1])


def test_noise_has_a_density_of_its_own() -> None:
    far = np.random.default_rng(0).uniform([0.0, 30.0], [7.0, 120.0], (60, 2))
    model = Mixture(n_components=2, noise=True, random_state=0).fit(np.vstack([ROWS, far]))
    drawn = model.plot(np.vstack([ROWS, far]), axes(), columns=[0])
    noise = line_of(drawn, "noise")[1]
    lengths = model.model_.box.lengths
    assert noise.max() == pytest.approx(model.noise_weight_ / lengths[0])
    total = line_of(drawn, "all")[1]
    parts = sum(line_of(drawn, str(k))[1] for k in range(2)) + noise
    np.testing.assert_allclose(total, parts)
    assert "noise" in drawn.get_legend().get_texts()[-1].get_text()
    scattered = model.plot(np.vstack([ROWS, far]), axes()).collections
    assert to_rgb(NOISE) in {tuple(one.get_facecolor()[0][:3]) for one in scattered}


# counts and levels


def test_bars_of_counts_are_probabilities() -> None:
    x = np.random.default_rng(0).poisson(np.repeat([1.0, 8.0], 200))[:, None]
    model = Mixture("poisson", 2, random_state=0).fit(x)
    drawn = model.plot(x, axes())
    bars = {patch.get_label(): patch.get_data() for patch in drawn.patches}
    for k in range(2):
        data = bars[str(k)]
        counts = data.edges[:-1] + 0.5
        expected = model.weights_[k] * np.exp(
            counts * np.log(model.means_[k, 0])
            - model.means_[k, 0]
            - np.array([sum(np.log(np.arange(1, c + 1))) for c in counts])
        )
        np.testing.assert_allclose(data.values, expected)
    assert drawn.get_ylabel() == "probability"


def mixed() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=400)
    size = rng.normal(4.0 * z)
    size[::7] = np.nan
    return pd.DataFrame(
        {
            "size": size,
            "visits": rng.poisson(2 + 7 * z),
            "kind": np.array(["a", "b", "c"])[(rng.random(400) * (1 + 2 * z)).astype(int)],
            "day": pd.Timestamp("2026-03-01") + pd.to_timedelta(30.0 * z + rng.random(400), "D"),
        }
    )


def test_a_mixed_table_has_a_panel_for_each_column() -> None:
    table = mixed()
    model = Mixture("auto", 2, random_state=0).fit(table)
    panels = {one.get_xlabel(): one for one in model.plot(table)}
    assert set(panels) == {"size", "visits", "kind", "day"}
    assert panels["size"].get_ylabel() == panels["day"].get_ylabel() == "density"
    bars = [patch for patch in panels["kind"].containers if patch.get_label() in "01"]
    heights = np.array([[bar.get_height() for bar in one] for one in bars])
    np.testing.assert_allclose(heights, model.parameters_["kind"]["probabilities"][:, 0])
    (rows,) = [one for one in panels["kind"].containers if one.get_label() == "rows"]
    shares = table["kind"].value_counts(normalize=True).sort_index()
    np.testing.assert_allclose([bar.get_height() for bar in rows], shares)
    assert [tick.get_text() for tick in panels["kind"].get_xticklabels()] == ["a", "b", "c"]
    days = panels["day"].xaxis.get_major_formatter().format_ticks([20513.0])  # in days since 1970
    assert days != ["20513"]


def test_dollars_in_names_are_no_formulas() -> None:
    rng = np.random.default_rng(0)
    names = ["from $ to $", "$x^$"]
    rows = pd.DataFrame(rng.normal(size=(60, 2)), columns=names)
    pair = Mixture(random_state=0).fit(rows)
    mixed = Mixture("auto", random_state=0).fit(rows.assign(pay=["$0^ to $9", "$9 to $99"] * 30))
    for panels in (
        pair.plot(rows, kind="ellipses"),
        pair.plot(rows, kind="profiles"),
        mixed.plot(rows.assign(pay="$9 to $99")),
    ):
        figure = np.ravel(panels)[0].figure
        figure.canvas.draw()
        shown = [text for text in figure.findobj(Text) if "$" in text.get_text()]
        assert shown
        assert not any(text.get_parse_math() for text in shown)
        plt.close(figure)


def test_many_levels_are_a_table_of_colours() -> None:
    x = np.random.default_rng(0).integers(30, size=(600, 1))
    model = Mixture(Categorical(30), 3, random_state=0).fit(x)
    drawn = model.plot(x, axes())
    (image,) = drawn.images
    p = model.probabilities_[:, 0]
    most = np.sort(np.argsort(-(model.weights_ @ p), kind="stable")[:20])
    np.testing.assert_allclose(image.get_array(), p[:, most], rtol=1e-9)
    assert "20 of 30 levels" in drawn.get_xlabel()


# two columns, and pairs


@pytest.mark.parametrize(
    "covariance", ["full", "tied", "diag", "spherical", "VEV", "factor", "EII"]
)
def test_ellipses_have_the_eigenvectors_and_deviations_of_covariances(covariance: str) -> None:
    family = Gaussian(covariance, rank=1 if covariance == "factor" else None)
    model = Mixture(family, 2, random_state=0, max_iter=20).fit(ROWS)
    ellipses = [patch for patch in model.plot(ROWS, axes()).patches if isinstance(patch, Ellipse)]
    assert len(ellipses) == 4
    drawn, labels = model.sample(40_000)
    for i, ellipse in enumerate(ellipses):
        k, times = divmod(i, 2)
        np.testing.assert_allclose(ellipse.get_center(), model.means_[k])
        turn = np.radians(ellipse.angle)
        axis = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        half = np.array([ellipse.width, ellipse.height]) / 2.0 / (1 + times)
        matrix = axis @ np.diag(half**2) @ axis.T
        found = np.cov(drawn[labels == k].T)
        np.testing.assert_allclose(matrix, found, rtol=0.06, atol=0.06 * np.sqrt(found[0, 0]))
        assert to_rgb(ellipse.get_edgecolor()) == to_rgb(COLOURS[k])


def test_other_densities_have_outlines_of_the_same_content() -> None:
    grid = np.linspace(-6.0, 6.0, 121)
    density = norm.pdf(grid)[:, None] * norm.pdf(grid)
    two, one = outline_levels(density, np.full((121, 121), 0.01))
    assert one == pytest.approx(np.exp(-0.5) / (2.0 * np.pi), rel=0.02)
    assert two == pytest.approx(np.exp(-2.0) / (2.0 * np.pi), rel=0.02)
    model = Mixture("gamma", 2, random_state=0).fit(ROWS)
    drawn = model.plot(ROWS, axes())
    contours = [one for one in drawn.collections if hasattr(one, "levels")]
    assert not [patch for patch in drawn.patches if isinstance(patch, Ellipse)]
    assert len(contours) == 2
    for k, contour in enumerate(contours):
        (outer,) = contour.get_paths()[0].to_polygons()
        x, labels = model.sample(4000)
        from matplotlib.path import Path

        inside = Path(outer).contains_points(x[labels == k]).mean()
        assert inside == pytest.approx(1.0 - np.exp(-2.0), abs=0.04)


def test_pairs_have_marginal_ellipses_and_densities() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))
    table = pd.DataFrame(x, columns=["a", "b", "c"])
    model = Mixture(n_components=1).fit(table)
    panels = model.plot(table)
    assert panels.shape == (3, 3)
    for i in range(3):
        for j in range(i):
            outer = panels[i, j].patches[-1]
            cov = model.covariances_[0][np.ix_([j, i], [j, i])]
            longest = 4.0 * np.sqrt(np.linalg.eigvalsh(cov)[1])
            assert max(outer.width, outer.height) == pytest.approx(longest)
            assert len(panels[i, j].collections[0].get_offsets()) == 300
    assert [one.get_xlabel() for one in panels[2]] == ["a", "b", "c"]
    assert [one.get_ylabel() for one in panels[1:, 0]] == ["b", "c"]
    place, density = line_of(panels[1, 1], "0")
    assert np.trapezoid(density, place) == pytest.approx(1.0, abs=0.03)


# profiles and images


def test_profiles_are_standardized_means() -> None:
    x = np.random.default_rng(0).normal(size=(200, 9)) * np.arange(1, 10) + 5.0
    x[::2] += 20.0
    model = Mixture(Gaussian("diag"), 2, random_state=0).fit(x)
    drawn = model.plot(x, axes())
    for k in range(2):
        expected = (model.means_[k] - x.mean(axis=0)) / x.std(axis=0)
        np.testing.assert_allclose(line_of(drawn, str(k))[1], expected)
    assert len(drawn.get_xticklabels()) == 9
    alone = line_of(model.plot(ax=axes()), "0")[1]  # the mixture has nearly the moments of the rows
    np.testing.assert_allclose(alone, line_of(drawn, "0")[1], atol=0.02)


def test_profiles_of_rows_with_missing_cells_have_deviations() -> None:
    x = np.random.default_rng(0).normal(size=(400, 9)) * np.arange(1, 10) + 5.0
    x[::2] += 20.0
    x[::5, 3] = np.nan
    model = Mixture(Gaussian("diag"), 2, random_state=0).fit(x)
    drawn, alone = model.plot(x, axes()), model.plot(ax=axes())
    np.testing.assert_allclose(line_of(alone, "0")[1], line_of(drawn, "0")[1], atol=0.02)
    bands = [one for one in drawn.collections if isinstance(one, PolyCollection)]
    assert len(bands) == 2


def test_images_are_means_in_the_shape_of_rows() -> None:
    x = np.random.default_rng(0).random((60, 64))
    model = Mixture(Gaussian("diag"), 3, random_state=0, max_iter=3).fit(x)
    panels = model.plot(x)
    assert len(panels) == 3
    for k, panel in enumerate(panels):
        np.testing.assert_array_equal(panel.images[0].get_array(), model.means_[k].reshape(8, 8))
        assert panel.get_title().startswith(f"{k}  ")
    wide = model.plot(x, shape=(4, 16))
    assert wide[0].images[0].get_array().shape == (4, 16)
    with pytest.raises(InvalidInputError, match=r"shape is \(3, 3\), and rows have 64 columns"):
        model.plot(x, shape=(3, 3))


# every family


def of_family(family: Any, d: int) -> FittedMixture:
    params = MixtureParams(np.array([0.3, 0.7]), family.example(2, d, np.random.default_rng(0)))
    columns = tuple(Column(f"x{j}") for j in range(d))
    x = family.sample(params.components, np.repeat([0, 1], 20), np.random.default_rng(1))
    labels = np.repeat([0, 1], 20)
    return FittedMixture(MixtureModel(family, 2, d), params, columns, x, labels)


FAMILIES = [one for cls in find_all("families").values() for one in cls.variants()[:1]]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_every_family_has_a_picture(family: Any) -> None:
    d = family.n_columns or 3
    fitted = of_family(family, d)
    drawn = np.ravel(draw_mixture(fitted))
    assert len(drawn) >= 1
    assert all(one.has_data() for one in drawn if one.axison)
    if not fitted.has_marginals:
        with pytest.raises(InvalidInputError, match="use kind='profiles'"):
            draw_mixture(fitted, kind="columns")


@pytest.mark.parametrize(
    ("family", "d", "kind"),
    [
        (Gaussian(), 1, "columns"),
        (Gaussian(), 2, "ellipses"),
        (Gaussian(), 6, "pairs"),
        (Gaussian(), 7, "profiles"),
        (Gaussian("diag"), 64, "images"),
        (Categorical(3), 2, "columns"),
        (Product({0: "gaussian", 1: "poisson"}), 2, "columns"),
        (find_all("families")["dirichlet"](), 3, "profiles"),
    ],
)
def test_the_kind_is_chosen_by_the_columns(family: Any, d: int, kind: str) -> None:
    assert kind_of(of_family(family, d)) == kind


# where it is drawn


def test_axes_in_axes_out(geyser: Mixture) -> None:
    given = axes()
    assert geyser.plot(ROWS, given) is given
    two = Figure().subplots(1, 2)
    assert list(geyser.plot(ROWS, two, kind="columns")) == list(two)
    figure = Figure()
    place = figure.subplots(1, 2)[1]
    inside = geyser.plot(ROWS, place, kind="pairs")
    assert inside.shape == (2, 2)
    assert inside[0, 0].figure is figure
    assert inside[0, 0].get_position().x0 >= place.get_position().x0 - 1e-9
    with pytest.raises(InvalidInputError, match="ax has 3 axes, and 2 x 2 panels"):
        geyser.plot(ROWS, Figure().subplots(1, 3), kind="pairs")
    with pytest.raises(InvalidInputError, match="no place in a grid of subplots"):
        geyser.plot(ROWS, Figure().add_axes((0, 0, 1, 1)), kind="pairs")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "pie"}, "unknown kind of picture 'pie'"),
        ({"columns": ["x9"]}, "column 'x9' is none of the model's: they are 'x0', 'x1'"),
        ({"columns": "x0"}, "columns is 'x0': give a list"),
        ({"columns": [0], "kind": "ellipses"}, "there are 1 columns"),
        ({"columns": [0], "kind": "pairs"}, "there are 1 columns"),
    ],
)
def test_bad_settings_are_refused(geyser: Mixture, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        geyser.plot(ROWS, **settings)


def test_many_rows_are_a_sample_that_is_always_the_same(geyser: Mixture) -> None:
    x = geyser.sample(200_000)[0]
    one, other = (geyser.plot(x, axes()).collections for _ in range(2))
    assert sum(len(part.get_offsets()) for part in one) == 5000
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.get_offsets(), b.get_offsets())


@pytest.mark.parametrize("kind", ["columns", "ellipses", "pairs", "profiles"])
def test_one_row_and_constant_columns_are_drawn(kind: str) -> None:
    one = Mixture(n_components=1).fit([[1.0, 2.0]])
    one.plot([[1.0, 2.0]], kind=kind)
    plt.gcf().canvas.draw()
    x = np.column_stack([ROWS[:, 0], np.full(len(ROWS), 3.0)])
    Mixture(n_components=2, random_state=0).fit(x).plot(x, kind=kind)
    plt.gcf().canvas.draw()


# colours


def seen_without(kind: str, colour: str) -> np.ndarray:
    """CIELAB coordinates of a colour as people see it who lack one kind of cones."""
    cones = {
        "red": [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        "green": [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
        "none": np.eye(3).tolist(),
    }
    rgb = np.asarray(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(cones[kind]) @ linear, 0.0, 1.0)
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(matrix) @ seen / [0.9505, 1.0, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16.0 / 116.0)
    return np.array([116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)])


@pytest.mark.parametrize("kind", ["none", "red", "green"])
def test_colours_differ_for_all_eyes(kind: str) -> None:
    """By the matrices of Machado, Oliveira and Fernandes (2009)."""
    seen = [seen_without(kind, colour) for colour in COLOURS]
    far = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(far) > 14.0  # 2.3 can just be told apart


def test_twenty_components_differ_by_colour_and_line() -> None:
    x = np.random.default_rng(0).normal(size=(400, 1)) + 10.0 * np.arange(20).repeat(20)[:, None]
    model = Mixture(n_components=20, random_state=0, max_iter=3).fit(x)
    drawn = model.plot(x, axes())
    lines = [one for one in drawn.lines if one.get_label().isdecimal()]
    assert len({(one.get_color(), one.get_linestyle()) for one in lines[:14]}) == 14
    assert [one.get_color() for one in lines] == [colour_of(k) for k in range(20)]
    texts = [text.get_text() for text in drawn.get_legend().get_texts()]
    assert texts[0].startswith("0  ")
    assert len(texts) == 20

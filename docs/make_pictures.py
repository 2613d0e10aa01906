"""The pictures of the README: Old Faithful learned one eruption at a time, and MNIST's digits.

python docs/make_pictures.py

The digits need the environment variable MIXFOLD_DATA, a folder with mnist.npz.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from mixfold import AnnealedSGD, Mixture, datasets
from mixfold.experiments.annealing import learned
from mixfold.experiments.grids import draw_grid
from mixfold.experiments.pixels import pictures

PICTURES = Path(__file__).parent / "pictures"
COLOURS = ["#2f6f9f", "#c8553d"]


def draw(axes: Axes, model: Mixture, seen: np.ndarray, title: str) -> None:
    """Rows seen so far and the 1 and 2 standard deviation ellipses of each component."""
    order = np.argsort(model.means_[:, 0])
    labels = np.argsort(order)[model.predict(seen)]
    colours = [COLOURS[i] for i in labels]
    axes.scatter(seen[:, 0], seen[:, 1], s=9, c=colours, alpha=0.6, linewidths=0)
    for colour, k in zip(COLOURS, order, strict=True):
        values, vectors = np.linalg.eigh(model.covariances_[k])
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        for times in (1, 2):
            width, height = 2 * times * np.sqrt(values[::-1])
            axes.add_patch(
                Ellipse(model.means_[k], width, height, angle=angle, fill=False, ec=colour, lw=1.6)
            )
    axes.set_title(title, fontsize=11)
    axes.set_xlim(1.2, 5.6)
    axes.set_ylim(38, 100)
    axes.set_xlabel("eruption, minutes")
    axes.spines[["top", "right"]].set_visible(False)


def faithful() -> None:
    """Three moments of one stream."""
    rows = datasets.load_faithful()
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    model = Mixture(n_components=2, random_state=0)
    for axes, start, stop in zip(panels, (0, 20, 60), (20, 60, 272), strict=True):
        model.partial_fit(rows[start:stop])
        draw(axes, model, rows[:stop], f"after {stop} rows of the stream")
    panels[0].set_ylabel("waiting, minutes")
    figure.savefig(PICTURES / "faithful.png", dpi=130)


def digits() -> None:
    """Means after three epochs from near zero, one row at a time, on the grid of annealing."""
    (found,) = pictures(None, None, ("mnist",))
    draw_grid(PICTURES / "digits.png", learned(found.learned, AnnealedSGD(), seed=0).means_)


def main() -> None:
    """All that the data at hand allow."""
    faithful()
    if "MIXFOLD_DATA" in os.environ:
        digits()


if __name__ == "__main__":
    main()

"""The means of components as images, where a row is a square picture."""

from __future__ import annotations

import numpy as np

from mixfold.report._blocks import Picture, Table
from mixfold.report._bokeh import new_figure
from mixfold.report._survey import Survey
from mixfold.report._texts import number, percent

MOST_IMAGES = 64
ACROSS = 8


def images(survey: Survey, side: int) -> Picture:
    """The mean row of each component as an image, the largest components first."""
    from bokeh.models import LinearColorMapper
    from bokeh.palettes import gray

    order = [int(k) for k in np.argsort(-survey.weights, kind="stable")[:MOST_IMAGES]]
    across = min(ACROSS, len(order))
    down = -(-len(order) // across)
    figure = new_figure("", "", height=60 + 90 * down, match_aspect=True)
    means = np.nan_to_num(survey.profiles.means[order])
    mapper = LinearColorMapper(palette=gray(256), low=float(means.min()), high=float(means.max()))
    pictures = [mean.reshape(side, side)[::-1].astype(np.float32) for mean in means]
    x = [1.06 * (i % across) for i in range(len(order))]
    y = [-1.06 * (i // across) for i in range(len(order))]
    figure.image(image=pictures, x=x, y=y, dw=1.0, dh=1.0, color_mapper=mapper)
    figure.axis.visible = figure.grid.visible = False
    weights = [
        [survey.names[k], percent(float(survey.weights[k])), number(float(mean.mean()))]
        for k, mean in zip(order, means, strict=True)
    ]
    return Picture(
        "Mean rows of the components as images",
        f"Rows of {side * side} numbers are images of {side} by {side} pixels. The means of "
        f"{len(order)} components, from left to right and from top to bottom by their weight.",
        figure,
        [Table("Components in this order", ["Component", "Weight", "Mean pixel"], weights)],
    )

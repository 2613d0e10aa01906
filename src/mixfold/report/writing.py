"""The report of a fitted mixture, as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mixfold
from mixfold.core.registry import find_all
from mixfold.fitting.atomic_files import check_output, replacing
from mixfold.report._blocks import Block, Details, Group, Picture
from mixfold.report._bokeh import check_bokeh
from mixfold.report._models import family_name
from mixfold.report._pages import rendered
from mixfold.report._survey import Survey, survey
from mixfold.report._texts import counted
from mixfold.report.progress import Progress
from mixfold.report.section import Section
from mixfold.sources.opening import is_paths

Part = tuple[str, str, Sequence[Block]]


def write_report(
    model: Any,
    rows: Any,
    path: str | Path,
    *,
    title: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> None:
    """Write a page about a fitted mixture and rows: fit, components, pictures, calibration.

    The page is one file that opens without a network. Rows are read once, in blocks.

    Parameters
    ----------
    model : Mixture, GaussianMixture, BayesianGaussianMixture or AutoMixture
        A fitted estimator. Of `AutoMixture`, the report shows the comparison of candidates too.
    rows : array, table, path, list of paths, glob, address, `CsvFiles`, lazy frame, or blocks
        The rows of the fit, or others with the same columns.
    path : path
        The file to write, which is replaced if it exists. If writing fails, it is as before.
    title : str, default=None
        The title of the page; None is that of the family and the data.
    seed : int, default=0
        The seed of the sample of rows that is drawn in pictures, and of simulated rows.
    progress : function, default=None
        Called with the number of rows read, and the number of all rows or None.

    Examples
    --------
    >>> import os, tempfile
    >>> from mixfold import Mixture, datasets
    >>> from mixfold.report import write_report
    >>> rows = datasets.load_faithful()
    >>> model = Mixture(n_components=2, random_state=0).fit(rows)
    >>> file = os.path.join(tempfile.mkdtemp(), "report.html")
    >>> write_report(model, rows, file)
    >>> os.path.getsize(file) < 5e6
    True
    """
    check_bokeh()
    check_output(Path(path))
    found = survey(model, rows, seed, _described(rows), progress)
    page = _page(found, title).encode("utf-8")
    with replacing(Path(path)) as file:
        file.write(page)


def _described(rows: Any) -> str:
    """The data in a few words: the names of files, or the type."""
    if not is_paths(rows):
        return f"a {type(rows).__name__} in memory"
    files = getattr(rows, "files", rows)
    names = [str(one) for one in files] if isinstance(files, list | tuple) else [str(files)]
    more = len(names) - 3
    return ", ".join(Path(name).name for name in names[:3]) + (
        f" and {counted(more, 'file')} more" if more > 0 else ""
    )


def _page(found: Survey, title: str | None) -> str:
    """The text of the page."""
    from bokeh.embed import components
    from bokeh.resources import Resources
    from markupsafe import Markup

    parts = list(_parts(found))
    pictures = [picture for _, _, blocks in parts for picture in _pictures(blocks)]
    figures = {f"picture-{i}": picture.figure for i, picture in enumerate(pictures)}
    script, divs = components(figures, wrap_script=True)
    drawn = {
        id(picture): replace(picture, key=key, div=Markup(divs[key]))
        for key, picture in zip(figures, pictures, strict=True)
    }
    inline = Resources(mode="inline", components=["bokeh"], minified=True)
    return rendered(
        "report.html",
        title=title or f"Mixture report: {found.description}",
        lead=_lead(found),
        parts=[
            {"key": key, "title": name, "blocks": [_drawn(one, drawn) for one in blocks]}
            for key, name, blocks in parts
        ],
        footer=f"Written by mixfold {mixfold.__version__}.",
        bokeh_scripts=[Markup(text) for text in inline.js_raw],
        figures_script=Markup(script),
    )


def _lead(found: Survey) -> str:
    k = found.model.k
    what = "One component" if k == 1 else f"{k} components"
    return (
        f"{what} fitted to {counted(len(found.columns), 'column')}: {family_name(found.mixture)}."
    )


def _parts(found: Survey) -> Iterator[Part]:
    """The sections that have something to say, in their order."""
    classes: dict[str, type[Section]] = find_all("report.sections")
    for name, kind in sorted(classes.items(), key=lambda item: item[1].order):
        blocks = kind().blocks(found)
        if blocks:
            yield name, kind.title, blocks


def _pictures(blocks: Sequence[Block]) -> Iterator[Picture]:
    for block in blocks:
        if isinstance(block, Picture):
            yield block
        elif isinstance(block, Details | Group):
            yield from _pictures(block.blocks)


def _drawn(block: Block, drawn: dict[int, Picture]) -> Block:
    """A block with its pictures as they are in the page."""
    if isinstance(block, Picture):
        return drawn[id(block)]
    if isinstance(block, Details | Group):
        return replace(block, blocks=[_drawn(one, drawn) for one in block.blocks])
    return block

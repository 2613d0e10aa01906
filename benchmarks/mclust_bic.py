"""BIC of `AutoMixture` and of mclust 6.0: which cells of the tables are equal, better or worse.

    Rscript tests/fixtures/mclust_bic.R FOLDER > /dev/null   # writes the data sets to FOLDER
    python benchmarks/mclust_bic.py FOLDER [--data iris wreath] [--covariance EII VVV] [--most 9]

The BIC of mclust is in `tests/fixtures/mclust_bic.csv`. A cell is equal if the two differ by at
most 0.5, and not a cell if mclust has no estimate. Cells that are worse are listed, and cells of
ours that have degenerate components on few rows, which are no estimates either, are counted apart.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import Counter
from pathlib import Path

import numpy as np

from mixfold import AutoMixture

FIXTURE = Path(__file__).parents[1] / "tests" / "fixtures" / "mclust_bic.csv"
EQUAL = 0.5
KINDS = ("equal", "better", "better, spurious", "worse", "failed", "mclust has none")

Cell = tuple[str, int]


def of_mclust(name: str) -> dict[Cell, float]:
    """BIC with the sign of scikit-learn; NaN where mclust has no estimate."""
    with FIXTURE.open() as file:
        rows = [row for row in csv.DictReader(file) if row["data"] == name]
    return {
        (row["model"], int(row["components"])): -float(row["bic"].replace("NA", "nan"))
        for row in rows
    }


def kind_of(ours: float, theirs: float, spurious: bool) -> str:
    if np.isnan(theirs):
        return "mclust has none"
    if np.isnan(ours):
        return "failed"
    if abs(ours - theirs) <= EQUAL:
        return "equal"
    if ours > theirs:
        return "worse"
    return "better, spurious" if spurious else "better"


def compare(
    folder: Path, name: str, covariance: list[str], most: int, seed: int, n_init: int
) -> None:
    """Fit all candidates of one data set, and print a row of the table and the worse cells."""
    x, theirs = np.loadtxt(folder / f"{name}.csv", delimiter=","), of_mclust(name)
    known = list(dict.fromkeys(model for model, _ in theirs))
    covariance = [one for one in known if one in covariance] or known
    theirs = {cell: bic for cell, bic in theirs.items() if cell[0] in covariance}
    began = time.process_time()
    auto = AutoMixture(
        range(1, most + 1), covariance, drop=False, n_init=n_init, random_state=seed
    ).fit(x)
    seconds = time.process_time() - began
    counts, worse = Counter[str](), []
    for row in auto.results_.itertuples():
        cell = row.covariance, row.n_components
        kind = kind_of(row.bic, theirs[cell], "degenerate" in row.dropped)
        counts[kind] += 1
        if kind in ("worse", "failed"):
            worse.append(f"{cell[0]} {cell[1]}: {row.bic - theirs[cell]:+.1f} {row.dropped}")
    numbers = " | ".join(str(counts[kind]) for kind in KINDS)
    best = min(theirs, key=lambda cell: np.nan_to_num(theirs[cell], nan=np.inf))
    chosen = auto.best_estimator_
    ours = f"{chosen.model_.family.covariance} {chosen.n_components}"
    print(
        f"| {name} {x.shape} | {numbers} | {best[0]} {best[1]}, {theirs[best]:.1f} | "
        f"{ours}, {auto.bic(x):.1f} | {seconds:.0f} |",
        flush=True,
    )
    for line in worse:
        print(f"  worse: {name} {line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="*")
    parser.add_argument("--covariance", nargs="*", default=[])
    parser.add_argument("--most", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-init", type=int, default=2)
    given = parser.parse_args()
    print(f"| data | {' | '.join(KINDS)} | mclust's best | ours | seconds |")
    print("|---" * (len(KINDS) + 4) + "|")
    for name in given.data or sorted(path.stem for path in given.folder.glob("*.csv")):
        compare(given.folder, name, given.covariance, given.most, given.seed, given.n_init)


if __name__ == "__main__":
    main()

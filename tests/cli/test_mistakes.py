"""A mistake on the command line is one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Run
from mixfold.experiments import study_names

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


# mistakes


def write_mistakes(folder: Path) -> None:
    (folder / "ragged.csv").write_text("a,b\n1,2\n3\n")
    (folder / "words.csv").write_text("a,b\n1,x\n2,y\n")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b\n")
    (folder / "holes.csv").write_text("a,b\n1,2\n,3\n")
    (folder / "infinite.csv").write_text("a,b\n1,2\ninf,3\n")
    (folder / "negative.csv").write_text("a,b\n1,2\n-1,3\n")
    (folder / "other.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "rows.txt").write_text("1 2\n")
    (folder / "damaged.mixfold").write_bytes((folder / "a.mixfold").read_bytes()[:-100])
    (folder / "cut.parquet").write_bytes((folder / "rows.parquet").read_bytes()[:-200])


FIT = ("-k", "2", "-o", "new.mixfold")
MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no such file": (("fit", "nowhere.csv", *FIT), "there is no file 'nowhere.csv'"),
    "no such glob": (("fit", "*.feather", *FIT), "no files match '*.feather'"),
    "kind of file": (("fit", "rows.txt", *FIT), "unknown kind of file"),
    "bundled data": (("fit", "@faith", *FIT), "Did you mean '@faithful'?"),
    "family": (("fit", "rows.parquet", *FIT, "--family", "gausian"), "Did you mean 'gaussian'?"),
    "field of a family": (
        ("fit", "rows.parquet", *FIT, "--family", "gaussian:cup=2"),
        "Did you mean 'cap'?",
    ),
    "learner": (
        ("fit", "rows.parquet", *FIT, "--learner", "onlin-em"),
        "Did you mean 'online-em'?",
    ),
    "covariance": (("fit", "rows.parquet", *FIT, "--covariance", "ful"), "Did you mean 'full'?"),
    "no rank": (
        ("fit", "rows.parquet", *FIT, "--covariance", "factor"),
        "the number of factors, rank=8 or --rank 8",
    ),
    "rank": (("fit", "rows.parquet", *FIT, "--rank", "2"), "use covariance='factor'"),
    "rank of counts": (
        ("fit", "rows.parquet", *FIT, "--family", "poisson", "--rank", "2"),
        "--rank: the poisson family has none",
    ),
    "no covariance": (
        ("fit", "rows.parquet", *FIT, "--family", "poisson", "--covariance", "full"),
        "the poisson family has none",
    ),
    "start": (("fit", "rows.parquet", *FIT, "--init", "kmean"), "Did you mean 'k-means'?"),
    "start that needs an object": (
        ("fit", "rows.parquet", *FIT, "--init", "given"),
        "unknown initializer 'given'",
    ),
    "option name": (
        ("fit", "rows.parquet", *FIT, "--learner", "em", "-O", "tool=1"),
        "Did you mean 'tol'? Known: accelerate, criterion, max_iter, prior_strength, tol",
    ),
    "option value": (
        ("fit", "rows.parquet", *FIT, "--learner", "em", "-O", "max_iter=a"),
        "max_iter=a: int is needed",
    ),
    "option without value": (("fit", "rows.parquet", *FIT, "-O", "tol"), "name=value"),
    "flag": (("fit", "rows.parquet", *FIT, "--sed", "1"), "No such option: --sed"),
    "no k": (("fit", "rows.parquet"), "Missing option '-k'"),
    "k of 0": (("fit", "rows.parquet", "-k", "0", "-o", "new.mixfold"), "-k"),
    "more components than rows": (
        ("fit", "other.csv", "-k", "9", "-o", "new.mixfold"),
        "n_components = 9",
    ),
    "no such command": (("fitt", "rows.parquet"), "Did you mean 'fit'?"),
    "column": (("fit", "rows.parquet", *FIT, "--columns", "size"), "no column 'size'"),
    "weights": (("fit", "rows.parquet", *FIT, "--weights", "v"), "no column 'v'"),
    "words": (("fit", "words.csv", *FIT), "column 'b' is string, not numeric"),
    "ragged": (("fit", "ragged.csv", *FIT), "ragged.csv"),
    "empty": (("fit", "empty.csv", *FIT), "empty.csv is empty"),
    "header only": (("fit", "header.csv", *FIT), "header.csv"),
    "holes": (
        ("fit", "holes.csv", *FIT, "--missing", "error"),
        "missing value in row 2 (counted from 1)",
    ),
    "infinite": (("fit", "infinite.csv", *FIT), "row 2 (counted from 1), column 'a' is inf"),
    "negative": (("fit", "negative.csv", *FIT, "--family", "poisson"), "whole numbers >= 0"),
    "truncated": (("fit", "cut.parquet", *FIT), "cannot read cut.parquet"),
    "different columns": (
        ("fit", "rows.parquet", "other.csv", *FIT),
        "other.csv has no column 'length', which rows.parquet has, and a column 'a', which",
    ),
    "resume from nothing": (("fit", "rows.parquet", *FIT, "--resume"), "--resume needs"),
    "resume from a model": (
        ("fit", "rows.parquet", *FIT, "--checkpoint", "a.mixfold", "--resume"),
        "is a model file",
    ),
    "no folder": (("fit", "rows.parquet", "-k", "2", "-o", "no/m"), "there is no folder no"),
    "a folder": (("fit", "rows.parquet", "-k", "2", "-o", "."), "it is a folder"),
    "unwritable": (("fit", "rows.parquet", "-k", "2", "-o", "/proc/m"), "cannot write /proc/m"),
    "output is input": (("fit", "rows.parquet", "-k", "2", "-o", "rows.parquet"), "both"),
    "no model": (("inspect", "nothing.mixfold"), "cannot read nothing.mixfold"),
    "damaged model": (("inspect", "damaged.mixfold"), "damaged.mixfold is damaged"),
    "foreign model": (("inspect", "rows.parquet"), "rows.parquet is damaged or not"),
    "score damaged": (("score", "damaged.mixfold", "rows.parquet", "-o", "n.csv"), "damaged"),
    "score columns": (("score", "a.mixfold", "other.csv", "-o", "n.csv"), "no column 'length'"),
    "score kind": (
        ("score", "a.mixfold", "rows.parquet", "-o", "n.xls"),
        ".parquet, .csv, .arrow, .arrows, .npy",
    ),
    "score unwritable": (("score", "a.mixfold", "rows.parquet", "-o", "/proc/n.csv"), "/proc"),
    "score truncated": (("score", "a.mixfold", "cut.parquet", "-o", "n.csv"), "cut.parquet"),
    "sample none": (("sample", "a.mixfold", "-n", "0", "-o", "n.csv"), "-n"),
    "sample kind": (
        ("sample", "a.mixfold", "-n", "5", "-o", "n"),
        ".parquet, .csv, .arrow, .arrows, .npy",
    ),
    "sample unwritable": (("sample", "a.mixfold", "-n", "5", "-o", "no/n.csv"), "no folder no"),
    "compare learner": (
        ("compare", "rows.parquet", "-k", "2", "--learners", "em,onlin-em"),
        "Did you mean 'online-em'?",
    ),
    "compare none": (("compare", "rows.parquet", "-k", "2", "--learners", ","), "known are"),
    "compare option": (("compare", "rows.parquet", "-k", "2", "-O", "tol=1"), "learner.name"),
    "compare file": (("compare", "nowhere.csv", "-k", "2"), "there is no file"),
    "compare too few": (
        ("compare", "other.csv", "-k", "1", "--learners", "em"),
        "2 rows are too few",
    ),
    "study": (("reproduce", "elki3"), "unknown study 'elki3'"),
    "study data": (("reproduce", study_names()[0], "--data", "no"), "does not exist"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(run: Run, model: str, tmp_path: Path, mistake: str) -> None:
    write_mistakes(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    arguments, says = MISTAKES[mistake]
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("mixfold: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert says in err
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before

"""The command that chooses the number of components and their covariance."""

from __future__ import annotations

import numpy as np
import pytest

import mixfold
from command_line import Run
from mixfold import AutoMixture, Mixture, datasets


def test_select_is_what_the_estimator_does(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    settings = ("-k", "1:3", "--covariance", "EEE,VVV", "-o", "best.mixfold")
    code, out, err = run("select", "@faithful", *settings)
    assert (code, err) == (0, "")
    saved = mixfold.load("best.mixfold")
    assert isinstance(saved, Mixture)
    auto = AutoMixture([1, 2, 3], ["EEE", "VVV"], random_state=0).fit(datasets.load_faithful())
    np.testing.assert_array_equal(saved.means_, auto.means_)
    lines = [line.split() for line in out.splitlines() if line.split()[1:2] in (["EEE"], ["VVV"])]
    assert [line[:2] for line in lines[:2]] == [["3", "EEE"], ["2", "VVV"]]
    assert len(lines) == 6
    numbers = [float(line[4]) for line in lines]
    assert numbers == sorted(numbers)
    np.testing.assert_allclose(numbers, np.sort(auto.results_.bic), atol=0.006)
    assert "the same model as EEE" in out
    assert "best: 3 components with covariance EEE, by the smallest bic" in out
    assert "saved in best.mixfold" in out


def test_select_without_an_output_writes_nothing(run: Run, rows: str, tmp_path: object) -> None:
    code, out, err = run(
        *("select", rows, "-k", "1,2", "--columns", "length,wait", "--family", "auto"),
        *("--criterion", "held-out", "--seed", "3", "--no-drop"),
    )
    assert (code, err) == (0, "")
    assert "by the largest held-out" in out
    assert "mixfold" not in out


def test_progress_counts_searches_and_passes(run: Run) -> None:
    reports: list[tuple[int, int, int]] = []
    auto = AutoMixture([1, 2, 3], ["EEE", "VVV"], random_state=0, n_init=1)
    auto.progress = lambda *counts: reports.append(counts)
    auto.fit(datasets.load_faithful())
    searches = 3 + 2 + 2 + 1  # numbers of components and merges; one component is one model
    assert [done for done, _, passes in reports if not passes] == list(range(1, searches + 1))
    assert {of for _, of, _ in reports} == {searches}
    passes = [passes for *_, passes in reports if passes]
    assert passes == list(range(1, len(passes) + 1))
    settings = ("-k", "1:2", "--covariance", "EEE", "--n-init", "1", "--progress")
    code, _, err = run("select", "@faithful", *settings)
    assert code == 0
    assert "searching for initial parameters, 1 of 3 searches" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-k", "3:1"), ["-k", "'3:1'", "no number"]),
        (("-k", "two"), ["-k", "'two'", "1:9"]),
        (("-k", "0:2"), ["n_components", "0"]),
        (("--covariance", "VVX"), ["covariance", "'VVX'", "VVV"]),
        (("--family", "poisson", "--covariance", "VVV"), ["covariance", "poisson"]),
        (("--criterion", "bicc"), ["criterion", "'bicc'", "Did you mean 'bic'"]),
        (("-k", "2:400"), ["400", "distinct rows"]),
    ],
)
def test_mistakes_are_one_line(run: Run, arguments: tuple[str, ...], words: list[str]) -> None:
    code, out, err = run("select", "@faithful", *arguments, "-o", "best.mixfold")
    assert (code, out, err.count("\n")) == (2, "", 1)
    for word in words:
        assert word in err


def test_a_file_that_is_no_model_is_not_replaced(run: Run, rows: str) -> None:
    code, _, err = run("select", rows, "-o", rows)
    assert code == 2
    assert "both input and output" in err

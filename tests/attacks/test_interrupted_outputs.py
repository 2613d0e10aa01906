"""Nothing that was learned is lost for want of a place, or to a signal."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from mixfold import IncrementalEM, LinearMixedModel, Mixture
from mixfold.core.errors import LearningWarning, ModelFileError, OutputError
from mixfold.core.value import equal
from mixfold.fitting.fit import Fit
from outputs import Run, X, content

# checkpoints that cannot be written


class At:
    """Does something at the first sign of progress."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.acts = [act]

    def update(self, fit: Fit, length: int | None) -> None:
        if self.acts:
            self.acts.pop()()

    def close(self) -> None:
        return None


def kept_in(folder: Path, **more: Any) -> Mixture:
    folder.mkdir(exist_ok=True)
    settings: dict[str, Any] = {"n_components": 2, "random_state": 0, "learner": "em", **more}
    return Mixture(checkpoint=folder / "c", checkpoint_every=0.0, **settings)


def test_a_folder_that_goes_away_costs_a_warning(tmp_path: Path) -> None:
    model = kept_in(tmp_path / "f")
    model.progress = At(lambda: shutil.rmtree(tmp_path / "f"))
    with pytest.warns(LearningWarning, match="the fit continues: cannot write") as caught:
        model.fit(X)
    assert len(caught) == 1
    assert equal(model.params_, Mixture("gaussian", 2, learner="em", random_state=0).fit(X).params_)


def test_an_interrupt_without_a_checkpoint_keeps_the_model(tmp_path: Path) -> None:
    def act() -> None:
        shutil.rmtree(tmp_path / "f")
        raise KeyboardInterrupt

    model = kept_in(tmp_path / "f")
    model.progress = At(act)
    with (
        pytest.warns(LearningWarning, match="the fit continues: cannot write"),
        pytest.raises(KeyboardInterrupt),
    ):
        model.fit(X)
    assert model.n_seen_ > 0
    assert np.isfinite(model.score(X))


def test_a_checkpoint_that_needs_an_overwritten_memory_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Better none than one from which a fit goes on to a wrong result."""
    learner = IncrementalEM(memory=str(tmp_path / "memory"), max_iter=4, tol=0.0)
    model = kept_in(tmp_path, learner=learner)
    monkeypatch.setattr("mixfold.fitting.checkpoint.write", failing_after(2))
    with pytest.warns(LearningWarning, match="No space left"):
        model.fit(X)
    assert not (tmp_path / "c").exists()


def failing_after(calls: int) -> Callable[..., None]:
    """A function that writes so many files, and then none."""
    from mixfold.fitting.files import write

    left = [None] * calls

    def failing(path: Path, kind: str, content: Any) -> None:
        if not left:
            raise OutputError(f"cannot write {path}: No space left on device")
        left.pop()
        write(path, kind, content)

    return failing


def test_mixed_models_go_on_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    y, groups = X @ [1.0, 2.0], np.repeat(np.arange(12), 5)
    expected = LinearMixedModel().fit(X, y, groups)
    monkeypatch.setattr("mixfold.fitting.checkpoint.write", failing_after(0))
    model = LinearMixedModel(checkpoint=tmp_path / "c", checkpoint_every=0.0)
    with pytest.warns(LearningWarning, match="No space left"):
        model.fit(X, y, groups)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    for path, error in ((tmp_path, OutputError), (tmp_path / "no" / "c", OutputError)):
        with pytest.raises(error, match="cannot write"):
            LinearMixedModel(checkpoint=path).fit(X, y, groups)


def test_impossible_places_are_found_before_the_fit(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    os.mkfifo(tmp_path / "fifo")
    seen: list[int] = []

    def rows() -> Any:
        seen.append(1)
        yield X

    for path in (tmp_path, tmp_path / "no" / "c", tmp_path / "fifo", "/dev/full", ""):
        for settings in ({"checkpoint": path}, {"learner": IncrementalEM(memory=path)}):
            with pytest.raises(OutputError, match="cannot write"):
                Mixture(n_components=1, **settings).fit(rows())
    with pytest.raises(ModelFileError, match="not a checkpoint"):
        Mixture(n_components=1, checkpoint=tmp_path / "data.csv").fit(rows())
    assert not seen
    assert (tmp_path / "data.csv").read_text() == "a,b\n1,2\n"


def test_a_model_that_cannot_be_saved_is_saved_elsewhere(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", "elsewhere")
    code, _, err = run("fit", "in", "-k", "1", "-o", "/dev/full")
    assert code == 2
    assert "cannot write /dev/full: No space left on device; the model is saved in " in err
    (saved,) = Path("elsewhere").rglob("full")
    assert str(saved) in err
    assert mixfold.load(saved).n_seen_ > 0


# SIGTERM


def terminating(monkeypatch: pytest.MonkeyPatch, where: str, before: bool = True) -> None:
    """Send this process a SIGTERM whenever a function is called."""
    module, name = where.rsplit(".", 1)
    owner: Any = sys.modules.get(module) or getattr(
        sys.modules[module.rsplit(".", 1)[0]], module.rsplit(".", 1)[1]
    )
    called = getattr(owner, name)

    def call(*arguments: Any, **more: Any) -> Any:
        if before:
            signal.raise_signal(signal.SIGTERM)
        found = called(*arguments, **more)
        if not before:
            signal.raise_signal(signal.SIGTERM)
        return found

    monkeypatch.setattr(owner, name, call)


def test_sigterm_saves_like_an_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from mixfold.cli import _bar

    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(_bar.Watch, "_title", lambda *_: signal.raise_signal(signal.SIGTERM))
    # one more SIGTERM while what was learned is saved does no harm
    terminating(monkeypatch, "mixfold.fitting.files.replacing", before=False)
    keep = ("--checkpoint", "c", "-o", "t.mixfold")
    code, out, err = run("fit", "in", "-k", "2", "--learner", "em", *keep)
    assert (code, out) == (143, "")
    assert err.startswith("mixfold: terminated in pass 1; the model learned from ")
    assert err.endswith("saved in t.mixfold; continue with --checkpoint c --resume\n")
    assert mixfold.load("t.mixfold").n_seen_ > 0
    assert signal.getsignal(signal.SIGTERM) is handler


def test_sigterm_when_a_fit_is_done_changes_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminating(monkeypatch, "mixfold.cli._files.save_model")
    code, _, err = run("fit", "in", "-k", "1", "-o", "t.mixfold")
    assert (code, err) == (0, "")
    assert mixfold.load("t.mixfold").n_seen_ > 0


@pytest.mark.parametrize(
    "command",
    [
        ("score", "m.mixfold", "in", "-o", "new.csv"),
        ("sample", "m.mixfold", "-n", "9", "-o", "new.csv"),
    ],
)
def test_sigterm_leaves_no_temporary_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    from mixfold.cli import _output

    before = content()
    monkeypatch.setattr(_output.ArrowWriter, "close", lambda _: signal.raise_signal(signal.SIGTERM))
    assert run(*command) == (143, "", "mixfold: terminated\n")
    assert content() == before

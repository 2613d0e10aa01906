"""What the command line shows of names, and of families whose parameters are no means."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from mixfold.cli._tables import components, facts
from mixfold.cli.main import main
from mixfold.core.registry import names
from mixfold.families._gamma_statistics import GammaParams
from mixfold.families.inverse_gamma import InverseGamma


@pytest.mark.parametrize(
    ("arguments", "package"),
    [
        (["fit", "--family", "?"], "families"),
        (["compare", "--family", "?"], "families"),
        (["fit", "--learner", "?"], "learners"),
        (["fit", "--init", "?"], "initializers"),
        (["compare", "--learners", "?"], "learners"),
    ],
)
def test_a_question_mark_lists_all_names(
    arguments: list[str], package: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) in (0, None)
    assert capsys.readouterr().out.split() == list(names(package))


def family_of_scales() -> SimpleNamespace:
    """One whose only attribute is called scales."""
    family = SimpleNamespace(attributes=lambda params: {"scales": params})
    family.for_complete_rows = lambda: family
    return family


def test_means_that_are_infinite_are_shown() -> None:
    params = GammaParams(np.array([[0.5], [0.7]]), np.ones((2, 1)))
    model = SimpleNamespace(
        weights_=np.array([0.25, 0.75]),
        model_=SimpleNamespace(family=InverseGamma()),
        params_=SimpleNamespace(components=params),
        n_features_in_=1,
        feature_names_in_=np.array(["a"], dtype=object),
    )
    out = Console(width=80, record=True, force_terminal=False)
    components(model, out)
    assert out.export_text().count("inf") == 4


def test_long_names_leave_room_for_what_is_said_of_them() -> None:
    out = Console(width=80, record=True, force_terminal=False)
    out.print(facts([("a", "gaussian: whole numbers"), ("long name " * 12, "poisson: counts")]))
    text = out.export_text()
    assert "gaussian: whole numbers" in text
    assert "poisson: counts" in text
    family = family_of_scales()
    model = SimpleNamespace(
        weights_=np.array([0.25, 0.75]),
        model_=SimpleNamespace(family=family),
        params_=SimpleNamespace(components=np.array([[1.5], [3.5]])),
        n_features_in_=1,
        feature_names_in_=np.array(["long name " * 12], dtype=object),
    )
    components(model, out, everything=True)
    text = out.export_text()
    assert all(words in text for words in ("component", "0.2500", "long name long", "3.5"))


def test_components_of_a_family_without_means() -> None:
    family = family_of_scales()
    model = SimpleNamespace(
        weights_=np.array([0.25, 0.75]),
        model_=SimpleNamespace(family=family),
        params_=SimpleNamespace(components=np.array([[1.5, 2.5], [3.5, 4.5]])),
        n_features_in_=2,
        feature_names_in_=np.array(["a", "b"], dtype=object),
    )
    out = Console(width=80, record=True, force_terminal=False)
    components(model, out)
    text = out.export_text()
    assert "1.5" in text
    assert "4.5" in text

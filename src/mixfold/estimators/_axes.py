"""The axes that figures are drawn on."""

from __future__ import annotations

from typing import Any

from mixfold.core.errors import MissingExtraError


def axes_for(ax: Any) -> Any:
    """The given axes, or the current ones of pyplot."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("matplotlib", "studies", "drawing") from error
    return plt.gca() if ax is None else ax

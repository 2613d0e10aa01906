"""Numbers as texts."""

from __future__ import annotations

from math import floor, isfinite, isnan, log10

SHORTEST = 28  # characters of a name that is written at an axis


def number(value: float, scale: float | None = None) -> str:
    """A number with the decimals that suit the scale: three significant digits of the scale."""
    if not isfinite(value):
        return "not known" if isnan(value) else f"{value}"
    scale = abs(value) if scale is None or not (isfinite(scale) and scale > 0.0) else scale
    if scale == 0.0:
        return "0"
    digits = 2 - floor(log10(scale))
    if digits > 8 or max(abs(value), scale) >= 1e12:
        return f"{value:.4g}"
    text = f"{value:,.{max(0, digits)}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0.0 else text


def percent(proportion: float) -> str:
    """A proportion as a percentage with one decimal; small ones have two significant digits."""
    if not isfinite(proportion):
        return "not known"
    if 0.0 < proportion < 0.001:
        return f"{100.0 * proportion:.2g}%" if proportion >= 1e-6 else "less than 0.0001%"
    if 0.999 < proportion < 1.0:
        return f"{100.0 * proportion:.2f}%" if proportion < 0.99995 else "nearly 100%"
    return f"{100.0 * proportion:.1f}%"


def proportion_of(proportion: float, what: str) -> str:
    """A proportion in a sentence: "12.3% of its rows", "nearly all of its rows"."""
    if proportion >= 0.9995:
        return f"nearly all of {what}"
    return f"{percent(proportion)} of {what}" if proportion >= 0.0005 else f"hardly any of {what}"


def whole(n: float) -> str:
    """A number of things."""
    return f"{round(n):,}"


def counted(n: int, what: str) -> str:
    """A number and its noun, such as "3 rows" and "1 row"."""
    return f"{n:,} {what if n == 1 else f'{what}s'}"


def joined(parts: list[str], word: str = "and") -> str:
    """Parts of a sentence: "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def cut(text: str, most: int = SHORTEST) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"

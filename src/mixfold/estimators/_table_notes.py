"""What a mixture knows of the table that it was fitted to, beside its families."""

from __future__ import annotations

from typing import Any

from mixfold.core.errors import InvalidInputError
from mixfold.core.value import value
from mixfold.families.product import Product
from mixfold.sources.dates import type_parts


@value
class TableNotes:
    """The reasons for chosen families, and the types of dates and times.

    `reasons` are one for each factor, or None if no family was chosen. `date_types` are the names
    of Arrow types, of the columns in `date_columns`.
    """

    reasons: tuple[str, ...] | None = None
    date_columns: tuple[str, ...] = ()
    date_types: tuple[str, ...] = ()

    @property
    def dates(self) -> dict[str, str]:
        """The types of dates and times by column."""
        return dict(zip(self.date_columns, self.date_types, strict=True))

    def check(self, learned: Any) -> None:
        """Refuse notes about another family, and types that are none of dates."""
        if self.reasons is not None:
            family = getattr(learned.model, "family", None)
            if not isinstance(family, Product) or len(family.factors) != len(self.reasons):
                raise InvalidInputError(
                    f"it has {len(self.reasons)} reasons for families of other columns"
                )
        if len(self.date_columns) != len(self.date_types):
            raise InvalidInputError(
                f"it has {len(self.date_types)} types of dates for {len(self.date_columns)} columns"
            )
        for kind in self.date_types:
            type_parts(kind)

"""Learning from rows of which some have known labels, as all estimators of mixtures share it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.source import Source
from mixfold.estimators._edge import open_data
from mixfold.estimators._known_labels import KnownLabels
from mixfold.estimators._labelled_data import Labelling, divided
from mixfold.estimators._learned_attributes import LearnedAttributes
from mixfold.estimators._mixture_settings import MixtureSettings
from mixfold.fitting.placement import Placement
from mixfold.models.fixed import Fixed


class LabelledLearning(LearnedAttributes):
    """A mixture that opens data with labels, and may have fixed parameters or a prior."""

    n_components: int
    columns: Any = None
    classes: Any = None
    fixed: Fixed | None = None
    prior: Prior | None = None
    _features: Any = None  # the columns of files that are no labels, while these are read

    @property
    def _has_labels(self) -> bool:
        """Whether rows have labels."""
        learned = self.__dict__.get("_learned")
        return self.classes is not None or (learned is not None and learned.labels is not None)

    def _divided(self, X: Any, labels: Any, sample_weight: Any) -> tuple[Any, Labelling]:
        """The data without a column of labels, and the labels."""
        X, labelling = divided(X, labels)
        if labelling.column is not None and self._chooses_families and self.columns is None:
            self._features = labelling.features(X, sample_weight)
        return X, labelling

    def _table_columns(self) -> Any:
        """The columns of tables that are read; None is all."""
        return self.columns

    @property
    def _chooses_families(self) -> bool:
        """Whether families depend on the columns of the data."""
        return False

    def _labels_for(self, X: Any, labelling: Labelling) -> KnownLabels | None:
        """The labels of a first call, by the data or by `classes`."""
        return labelling.known(self.classes, self.n_components, X)

    def _known_labels(self, labelling: Labelling) -> KnownLabels | None:
        """The labels of the calls before."""
        known = self._learned.labels
        if known is None and labelling.given is not None:
            raise InvalidInputError(
                "labels are given, but the model has been learned without any: give labels in the "
                "first call too (-1 where they are not known), or name them in classes=[...] "
                "before it"
            )
        return known

    def _opened(
        self,
        settings: MixtureSettings,
        X: Any,
        sample_weight: Any,
        labelling: Labelling,
        place: Placement,
        reset: bool,
        least_rows: int = 1,
    ) -> tuple[MixtureSettings, Source]:
        """The rows to learn from, with their labels, and the settings for their columns."""
        known = settings.labels
        if known is not None and not place.is_default:
            raise InvalidInputError(
                f"labels are learned on the CPU only, and the engine or the rows are torch's, on "
                f"{place.device}: leave engine out, and give arrays, tables or files"
            )
        columns = self._table_columns()
        settings = replace(settings, cells=labelling.cells(settings.cells, known))
        if known is not None and labelling.column is not None:
            source = labelling.open_files(
                self, X, sample_weight, columns, settings.cells, known, reset
            )
            self.__dict__.pop("_features", None)
            return settings.bound(source), source
        source = open_data(
            self,
            X,
            sample_weight,
            columns,
            reset=reset,
            least_rows=least_rows,
            device=place.tensor_device,
            cells=settings.cells,
        )
        source = source if known is None else labelling.attached(source, known)
        return settings.bound(source), source

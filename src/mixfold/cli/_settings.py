"""The settings of a model from the command line, and the estimator made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from mixfold.cli._files import load_mixture
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.registry import canonical, find, is_called, names
from mixfold.estimators.mixture import Mixture

TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Settings:
    """Plain values only, so that they can be sent to another process."""

    components: int
    family: str
    covariance: str | None
    learner: str
    options: list[str] = field(default_factory=list)
    init: str = "auto"
    n_init: int = 1
    max_iter: int | None = None
    columns: list[str] | None = None
    seed: int = 0
    threads: int | None = None
    rank: int | None = None
    family_of: list[str] = field(default_factory=list)
    missing: str = "marginalize"
    unseen: str = "error"

    def estimator(self) -> Mixture:
        """Make the estimator; unknown names and invalid values are refused here."""
        return Mixture(
            self._family(),
            self.components,
            learner=with_options(find("learners", self.learner), self.options),
            init=self._init(),
            n_init=self.n_init,
            max_iter=self.max_iter,
            columns=self.columns,
            random_state=self.seed,
            n_threads=self.threads,
            missing=self.missing,
            unseen=self.unseen,
            overrides=self._overrides(),
        )

    @property
    def chooses_families(self) -> bool:
        """Whether columns have families of their own, so that they need not be numeric."""
        return is_called(self.family, "auto")

    def _init(self) -> Any:
        """The name of an initializer, or the parameters of a model file."""
        if Path(self.init).suffix or Path(self.init).is_file():
            return load_mixture(Path(self.init)).params_
        if not is_called(self.init, "auto"):
            find("initializers", self.init)
        return self.init

    def _family(self) -> Any:
        name, _, options = self.family.partition(":")
        if is_called(name, "auto") and not (options or self.covariance or self.rank):
            return "auto"
        family, given = find("families", name), _listed(options)
        for field_name in ("covariance", "rank"):
            value = getattr(self, field_name)
            if value is None:
                continue
            if field_name not in [f.name for f in fields(family)]:
                raise InvalidInputError(f"--{field_name}: the {name} family has none")
            given.append(f"{field_name}={value}")
        return with_options(family, given)

    def _overrides(self) -> dict[Any, Any] | None:
        """Families of columns, each given as column=family or a,b=family:name=value."""
        found: dict[Any, Any] = {}
        for one in self.family_of:
            columns, equals, text = one.partition("=")
            if not equals or not columns:
                raise InvalidInputError(f"--family-of {one!r}: write it as COLUMN=FAMILY")
            name, _, options = text.partition(":")
            chosen = tuple(columns.split(","))
            key = chosen[0] if len(chosen) == 1 else chosen
            if key in found:
                raise InvalidInputError(
                    f"--family-of {one!r}: {columns} has a family already, {found[key]!r}; give one"
                )
            found[key] = with_options(find("families", name), _listed(options))
        return found or None


def _listed(options: str) -> list[str]:
    """Split name=value,name=value."""
    return options.split(",") if options else []


def with_options(cls: type, options: Sequence[str]) -> Any:
    """An instance with fields set from name=value, converted to the fields' types."""
    hints, found = get_type_hints(cls), {}
    known = [f.name for f in fields(cls)]
    for option in options:
        name, equals, text = option.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise InvalidInputError(f"option {option!r}: write it as name=value")
        if name not in known:
            if not known:
                raise InvalidInputError(f"{cls.__name__} has no options, so no {name!r}")
            raise unknown_name(f"option of {cls.__name__}", name, known)
        found[name] = _value(name, text.strip(), hints[name])
    return cls(**found)


def _value(name: str, text: str, hint: Any) -> Any:
    """Text as a value of a field's type; a schedule is name or name:field=value,field=value.

    So are detectors, and learners inside others.
    """
    if f"{name}s" in ("schedules", "detectors", "learners"):
        kind, _, rest = text.partition(":")
        return with_options(find(f"{name}s", kind), _listed(rest))
    kinds = get_args(hint) or (hint,)
    if text in kinds:  # of a Literal
        return text
    if NoneType in kinds and text.lower() in ("none", ""):
        return None
    for kind in kinds:
        if kind is bool and text.lower() in TRUTHS:
            return TRUTHS[text.lower()]
        if kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
        if kind in (str, Any):
            return text
    wanted = " or ".join("none" if k is NoneType else _shown_kind(k) for k in kinds)
    raise InvalidInputError(f"option {name}={text}: {wanted} is needed")


def _shown_kind(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def split_options(learners: Sequence[str], options: Sequence[str]) -> dict[str, list[str]]:
    """Group options learner.name=value by the registered name of the learner."""
    found: dict[str, list[str]] = {learner: [] for learner in learners}
    for option in options:
        learner, dot, rest = option.partition(".")
        if not dot or "=" in learner:
            raise InvalidInputError(f"option {option!r}: write it as learner.name=value")
        name = canonical("learners", learner)
        if name not in found:
            raise unknown_name("learner in an option,", learner, learners)
        found[name].append(rest)
    return found


def learners_named(given: Sequence[str]) -> list[str]:
    """The registered names of a list of learners; an empty list is refused."""
    if not given:
        raise InvalidInputError(f"--learners names none; known are {', '.join(names('learners'))}")
    return [canonical("learners", name) for name in given]

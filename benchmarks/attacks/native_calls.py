"""Calls of the compiled functions with hostile arguments.

Every call ends: with ValueError or TypeError, or with results of the right shapes. Sizes that do
not fit are refused, and how an array lies in memory changes no bit of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from . import Attack, _native_entries

Arguments = dict[str, Any]
HOSTILE = (0.0, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 2.0**31, 1e18)
WHOLE = (-(2**63), -(2**31) - 1, -1, 0, 3, 4, 2**31 - 1, 2**31, 2**64)


@dataclass(frozen=True)
class Call:
    """A compiled function, what it is given, and the shapes of what it returns."""

    name: str
    function: Callable[..., Any]
    arguments: Arguments
    shapes: list[tuple[int, ...]]
    moved: tuple[str, ...] = ()  # arguments that are changed in place

    def results(self) -> list[np.ndarray]:
        """What a call returns and what it has changed, as arrays."""
        given = {
            name: np.copy(value) if name in self.moved and plain(value) else value
            for name, value in self.arguments.items()
        }
        with np.errstate(all="ignore"):
            returned = self.function(**given)
        return flat(returned) + [given[name] for name in self.moved]

    def but(self, **changed: Any) -> Call:
        """The same call with other arguments."""
        return replace(self, arguments=self.arguments | changed)

    def arrays(self, writable: bool = True) -> list[str]:
        """Names of the arguments that are arrays."""
        names = [name for name, value in self.arguments.items() if isinstance(value, np.ndarray)]
        return [name for name in names if writable or name not in self.moved]


def plain(value: Any) -> bool:
    """Whether an argument is an array as NumPy makes it."""
    return isinstance(value, np.ndarray) and value.flags.carray


def flat(returned: Any) -> list[np.ndarray]:
    """All that is returned, as a list of arrays."""
    if isinstance(returned, tuple):
        return [array for part in returned for array in flat(part)]
    return [] if returned is None else [np.asarray(returned)]


def misaligned(array: np.ndarray) -> np.ndarray:
    """The same numbers at an odd address."""
    memory = np.empty(array.nbytes + 1, dtype=np.uint8)
    copy = memory[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    assert array.size == 0 or not copy.flags.aligned
    return copy


def relaid(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same numbers, laid out otherwise in memory."""
    layout = int(rng.integers(6))
    if layout == 0:
        return misaligned(array)
    if layout == 5:
        records = np.zeros(array.shape, dtype=[("flag", "u1"), ("x", array.dtype)])
        records["x"] = array
        return records["x"]
    if layout == 1:
        return np.asfortranarray(array)
    if layout == 2:
        return np.repeat(array, 3, axis=-1)[..., ::3]
    if layout == 3:
        return np.ascontiguousarray(array[::-1])[::-1]
    wide = np.concatenate([array] * 2, axis=-1)
    return misaligned(wide)[..., : array.shape[-1]]


def resized(array: np.ndarray, axis: int, rng: np.random.Generator) -> np.ndarray:
    """An array that is longer or shorter along an axis."""
    length = array.shape[axis]
    other = int(rng.choice([n for n in (0, length - 1, length + 1, 2 * length) if n >= 0]))
    if other == length:
        other = length + 1
    return np.resize(array, (*array.shape[:axis], other, *array.shape[axis + 1 :]))


def refused(call: Call) -> None:
    """The call must end with an error of its arguments."""
    try:
        call.results()
    except (ValueError, TypeError):
        return
    raise AssertionError("was accepted")


def survived(call: Call) -> list[np.ndarray] | None:
    """The results of a call, of the right shapes, or None where it is refused."""
    try:
        results = call.results()
    except (ValueError, TypeError):
        return None
    shapes = [result.shape for result in results]
    if shapes != call.shapes:
        raise AssertionError(f"shapes {shapes} are not {call.shapes}")
    return results


def same(call: Call, other: Call) -> None:
    """Both calls must give the same bits."""
    expected, found = survived(call), survived(other)
    if expected is None or found is None:
        raise AssertionError("was refused")
    for a, b in zip(expected, found, strict=True):
        if a.tobytes() != b.tobytes():
            raise AssertionError("gave other bits")


def otherwise_in_memory(call: Call, rng: np.random.Generator) -> Attack:
    """Arrays at odd addresses, with strides, transposed or reversed."""
    names = call.arrays(writable=False)
    chosen = [name for name in names if rng.random() < 0.5] or names
    other = call.but(**{name: relaid(call.arguments[name], rng) for name in chosen})
    return Attack(f"{call.name}: other memory of {', '.join(chosen)}", partial(same, call, other))


def moved_at_odd_address(call: Call, rng: np.random.Generator) -> Attack:
    """What is changed in place cannot be copied first."""
    if not call.moved:
        return otherwise_in_memory(call, rng)
    name = str(rng.choice(call.moved))
    other = call.but(**{name: misaligned(call.arguments[name])})
    return Attack(f"{call.name}: {name} at an odd address", partial(refused, other))


def of_another_size(call: Call, rng: np.random.Generator) -> Attack:
    """One array is longer or shorter than the others say."""
    name = str(rng.choice(call.arrays()))
    array = call.arguments[name]
    last = name == "rows" or array.size == 0  # other axes might change nothing
    axis = array.ndim - 1 if last else int(rng.integers(array.ndim))
    other = resized(array, axis, rng)
    what = f"{call.name}: {name} of shape {other.shape}, not {array.shape}"
    return Attack(what, partial(refused, call.but(**{name: other})))


def of_another_type(call: Call, rng: np.random.Generator) -> Attack:
    """One argument is of a type of its own; what can be converted may be accepted."""
    name = str(rng.choice(list(call.arguments)))
    value = call.arguments[name]
    strange = [None, "x", b"", [], {}, object(), 1.5, True, np.zeros((1, 1, 1, 1)), np.array(1.0)]
    if isinstance(value, np.ndarray):
        kinds = (np.int64, np.float16, np.float32, ">f8", "U4")
        with np.errstate(invalid="ignore"):
            strange += [value.astype(kind) for kind in kinds]
        strange += [value.astype(object), value[..., None], value.copy().data]
    other = strange[int(rng.integers(len(strange)))]
    what = f"{call.name}: {name} of type {type(other).__name__}"
    return Attack(what, partial(survived_any_shape, call.but(**{name: other})))


def survived_any_shape(call: Call) -> None:
    """A call ends; what it returns depends on what the argument was converted to."""
    try:
        call.results()
    except (ValueError, TypeError):
        return


def with_hostile_numbers(call: Call, rng: np.random.Generator) -> Attack:
    """Infinities, NaN, and numbers far too large or small, in any argument."""
    name = str(rng.choice(list(call.arguments)))
    value = call.arguments[name]
    number: Any = HOSTILE[int(rng.integers(len(HOSTILE)))]
    other: Any
    if isinstance(value, np.ndarray) and value.dtype.kind == "i":
        number = WHOLE[int(rng.integers(len(WHOLE) - 1))]  # the last is no int64
        other = np.where(rng.random(value.shape) < rng.choice([0.1, 1.0]), number, value)
    elif isinstance(value, np.ndarray):
        other = value.copy()
        with np.errstate(over="ignore"):
            other[rng.random(value.shape) < rng.choice([0.1, 1.0])] = number
    elif isinstance(value, float):
        other = number
    else:
        other = number = WHOLE[int(rng.integers(len(WHOLE)))]
    changed = call.but(**{name: other})
    check = survived_any_shape if name == "control" else ended
    return Attack(f"{call.name}: {number} in {name}", partial(check, changed))


def ended(call: Call) -> None:
    """A call ends, with the right shapes if at all."""
    survived(call)


def of_nothing(entry: _native_entries.Entry, rng: np.random.Generator) -> Attack:
    """No components or no columns, as all arguments agree."""
    sizes = _native_entries.Sizes.drawn(rng)
    k, d = ((0, sizes.d), (sizes.k, 0), (0, 0))[int(rng.integers(3))]
    call = made(entry, rng, replace(sizes, k=k, d=d))
    return Attack(f"{call.name}: K = {k}, d = {d}", partial(refused, call))


def without_rows(entry: _native_entries.Entry, rng: np.random.Generator) -> Attack:
    """No rows at all is no error."""
    call = made(entry, rng, replace(_native_entries.Sizes.drawn(rng), n=0))
    return Attack(f"{call.name}: no rows", partial(same, call, call))


def made(
    entry: _native_entries.Entry, rng: np.random.Generator, sizes: _native_entries.Sizes
) -> Call:
    """A call of a function with arguments that it takes."""
    native = import_module("mixfold._native")
    name, arguments, shapes, moved = entry(rng, sizes)
    function = partial(_native_entries.fold_online, native)
    if name != "OnlineMixture":
        function = getattr(native, name)
    return Call(name, function, arguments, shapes, moved)


CHANGES = (
    otherwise_in_memory,
    moved_at_odd_address,
    of_another_size,
    of_another_size,
    of_another_type,
    with_hostile_numbers,
    with_hostile_numbers,
)


def attacks(rng: np.random.Generator, folder: Path) -> Iterator[Attack]:
    """Hostile calls of all functions in turn, without end."""
    while True:
        for entry in _native_entries.ENTRIES:
            yield of_nothing(entry, rng)
            yield without_rows(entry, rng)
            for change in CHANGES:
                yield change(made(entry, rng, _native_entries.Sizes.drawn(rng)), rng)

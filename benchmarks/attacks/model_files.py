"""Model files and checkpoints with correct checksums that say what was never learned.

A file is refused with a ModelFileError, or what it holds can be used: no crash, no endless loop, no
parameter that is not finite, no file written and no error in other words than mixfold's.
"""

from __future__ import annotations

import contextlib
import copy
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from attacks import Attack
from attacks._saved_models import Example, examples
from mixfold.core.errors import ModelFileError
from mixfold.core.value import checksum
from mixfold.fitting.files import FORMAT, VERSION

Tree = Any
Arrays = dict[str, np.ndarray]
Step = str | int

# more of these is more work, which is not an attack
BUDGETS = ("max_iter", "n_init", "draws", "starts", "sample_size")
HOSTILE_NAMES = ("predict", "means_", "__class__", "_learned", "checkpoint", "cluster", "engine")
NUMBERS = (-1, 0, 1, -0.5, 1.5, float("nan"), float("inf"), -float("inf"), 1e308, 1e-308, 1e200)
OTHERS: tuple[Any, ...] = (True, None, "x", [], {}, 2**31, 2**63, 10**40, {"array": "none"})
TEXTS = ("", "x", "float16", "auto", "full", "../file", "__import__('os')", "\ud800", "a" * 10**4)


def pack(tree: Tree, arrays: Arrays, kind: str) -> bytes:
    """The bytes of a file, with a correct checksum."""
    header = {"version": VERSION, "kind": kind, "sha256": checksum(tree, arrays), "schema": tree}
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return bytes(save(arrays, metadata={FORMAT: json.dumps(header)}))


def nodes(tree: Tree, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """The paths of all parts of a tree."""
    yield path
    if isinstance(tree, list):
        for i, item in enumerate(tree):
            yield from nodes(item, (*path, i))
    elif isinstance(tree, dict) and "fields" in tree:
        for name, item in tree["fields"].items():
            yield from nodes(item, (*path, "fields", name))


def at(tree: Tree, path: tuple[Step, ...]) -> Tree:
    """The part of a tree at a path."""
    for step in path:
        tree = tree[step]
    return tree


def put(tree: Tree, path: tuple[Step, ...], part: Tree) -> Tree:
    """The tree with another part at a path."""
    if not path:
        return part
    at(tree, path[:-1])[path[-1]] = part
    return tree


def change_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An array with a few other numbers, or of another shape or type."""
    ways: list[Callable[[], np.ndarray]] = [
        lambda: array[:0],
        lambda: array[1:],
        lambda: np.concatenate([array, array[-1:]]) if array.ndim else array,
        lambda: array[..., 1:] if array.ndim else array,
        lambda: array.T,
        array.ravel,
        lambda: array[None],
        lambda: array.astype(np.float32),
        lambda: array.astype(np.int64) if np.isfinite(array).all() else array,
        lambda: np.zeros_like(array),
        lambda: -array if array.dtype.kind == "f" else array,
        lambda: array * 1e150 if array.dtype == np.float64 else array,
    ]
    if array.size and array.dtype.kind == "f" and rng.random() < 0.6:
        changed = array.copy()
        with np.errstate(over="ignore"):  # in float32
            changed.flat[rng.integers(array.size)] = rng.choice([*NUMBERS, 1e150, -1e150, 1e-150])
        return changed
    return ways[rng.integers(len(ways))]()


def change(tree: Tree, arrays: Arrays, rng: np.random.Generator) -> tuple[str, Tree, Arrays]:
    """One part of a file changed; and which."""
    paths = list(nodes(tree))
    path = paths[rng.integers(len(paths))]
    part, where = at(tree, path), ".".join(str(step) for step in path if step != "fields")
    if isinstance(part, dict) and "array" in part:
        name = part["array"]
        arrays = {**arrays, name: change_array(arrays[name], rng)}
        return f"{where}: array", tree, arrays
    other = change_part(tree, paths, part, rng)
    if name_of(tree, path) in BUDGETS and isinstance(other, int | float) and other > 10:
        other = 0
    return f"{where}: {str(other)[:40]!r}", put(tree, path, other), arrays


def name_of(tree: Tree, path: tuple[Step, ...]) -> Step:
    """What the part at a path is called; a setting has its name elsewhere."""
    if path[:2] == ("fields", "settings") and len(path) == 3:
        found: Step = tree["fields"]["names"][path[2]]
        return found
    return path[-1] if path else ""


def change_part(
    tree: Tree, paths: list[tuple[Step, ...]], part: Tree, rng: np.random.Generator
) -> Tree:
    """Something in place of a number, a text, a list or a value."""
    everything = (*NUMBERS, *OTHERS, *TEXTS)
    kind = rng.integers(10)
    if kind == 0:
        return copy.deepcopy(at(tree, paths[rng.integers(len(paths))]))
    if kind == 1:
        return nested(int(rng.choice([3, 60, 120, 400])))
    if isinstance(part, list) and kind < 8:
        return [part[1:], [*part, *part[-1:]], [*part, 0.5], [], part[::-1]][rng.integers(5)]
    if isinstance(part, dict) and kind < 8:
        return change_value(part, rng)
    choices = TEXTS if isinstance(part, str) else NUMBERS if isinstance(part, float) else everything
    return choices[rng.integers(len(choices))]


def change_value(part: Tree, rng: np.random.Generator) -> Tree:
    """A value of another class, or with other fields."""
    fields = dict(part["fields"])
    if rng.random() < 0.4 or not fields:
        names = ("os_exit", "Gaussian", "EM", "OnFile", "MixtureParams", "Rows", "Poisson", "Given")
        return {"value": names[rng.integers(len(names))], "fields": fields}
    if rng.random() < 0.5:
        fields.pop([*fields][rng.integers(len(fields))])
    else:
        fields[HOSTILE_NAMES[rng.integers(len(HOSTILE_NAMES))]] = 1
    return {**part, "fields": fields}


def nested(depth: int) -> Tree:
    """A list in a list in a list."""
    tree: Tree = []
    for _ in range(depth):
        tree = [tree]
    return tree


def rename_setting(tree: Tree, rng: np.random.Generator) -> tuple[str, Tree]:
    """One more setting, or one in place of another, with a hostile name."""
    fields = tree["fields"]
    name = HOSTILE_NAMES[rng.integers(len(HOSTILE_NAMES))]
    if rng.random() < 0.5:
        fields["names"].append(name)
        fields["settings"].append("watched/written")
    else:
        i = rng.integers(len(fields["names"]))
        fields["names"][i], fields["settings"][i] = name, "watched/written"
    return f"setting {name}", tree


def without_components(tree: Tree, arrays: Arrays) -> tuple[Tree, Arrays]:
    """A mixture of no components at all."""
    text = json.dumps(tree).replace('"k": 2', '"k": 0').replace('"n_components", 2', "")
    return json.loads(text), {name: array[:0] for name, array in arrays.items()}


def crafted(example: Example, rng: np.random.Generator) -> tuple[str, bytes]:
    """A file that says something else than an example, and what."""
    while True:
        tree, arrays = copy.deepcopy(example.tree), dict(example.arrays)
        # of some changes, such as an empty value changed again, no file can be made
        with contextlib.suppress(ValueError, KeyError, IndexError, TypeError):
            what, tree, arrays = change_some(example, tree, arrays, rng)
            return what, pack(tree, arrays, example.kind)


def change_some(
    example: Example, tree: Tree, arrays: Arrays, rng: np.random.Generator
) -> tuple[str, Tree, Arrays]:
    """One or two changes."""
    way = rng.integers(20)
    if way == 0 and example.kind == "model":
        return *rename_setting(tree, rng), arrays
    if way == 1:
        return "no components", *without_components(tree, arrays)
    what, tree, arrays = change(tree, arrays, rng)
    if way == 2:
        more, tree, arrays = change(tree, arrays, rng)
        what += f" and {more}"
    return what, tree, arrays


def damaged(example: Example, rng: np.random.Generator) -> tuple[str, bytes]:
    """A file with other bytes here and there, or fewer, or more."""
    data = bytearray(pack(example.tree, example.arrays, example.kind))
    way = rng.integers(4)
    if way == 0:
        return "truncated", bytes(data[: rng.integers(len(data))])
    if way == 1:
        return "longer", bytes(data) + bytes(rng.integers(256, size=9, dtype=np.uint8))
    if way == 2:
        data[:8] = int(rng.integers(2**62)).to_bytes(8, "little")
        return "length of the header", bytes(data)
    for where in rng.integers(len(data), size=rng.integers(1, 5)):
        data[where] ^= int(rng.integers(1, 256))
    return "flipped bytes", bytes(data)


def use(example: Example, data: bytes, folder: Path) -> bool:
    """Load a file and use what it holds; whether it was accepted."""
    path, watched = folder / "crafted", folder / "watched"
    path.write_bytes(data)
    watched.mkdir(exist_ok=True)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            example.use(path)
        except ModelFileError:
            return False
        finally:
            assert not [*watched.iterdir()], "a file was written"
    return True


def attacks(rng: np.random.Generator, folder: Path) -> Iterator[Attack]:
    """Crafted and damaged files without end."""
    while True:
        several = examples()
        example = several[rng.integers(len(several))]
        make = damaged if rng.random() < 0.1 else crafted
        what, data = make(example, rng)

        def run(example: Example = example, data: bytes = data) -> None:
            use(example, data, folder)

        yield Attack(f"{example.name}: {what}", run)

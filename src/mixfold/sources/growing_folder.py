"""Folders to which files are added."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mixfold.core.errors import SourceError
from mixfold.core.growing_source import Arrived, FilePosition, GrowingPosition, GrowingSource
from mixfold.core.value import replace
from mixfold.sources.csv_files import PLAIN, CsvOptions
from mixfold.sources.growing_parquet import GrowingParquet
from mixfold.sources.growing_text import JSON, GrowingText
from mixfold.sources.location import Location
from mixfold.sources.parquet import Parquet
from mixfold.sources.paths import files_in

TEXT = (".csv", ".tsv", *JSON)
Change = tuple[int, int]  # size, and time of the last change


class GrowingFolder(GrowingSource):
    """A folder of Parquet files, or of text files that grow, with the columns of the first one.

    Files are read in the order of their names, subfolders included; those that are added while
    others are read come after these. Names that begin with . or _ are left out, as files that are
    still being written have them.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Sequence[str] | None = None,
        numbers: bool = True,
        options: CsvOptions = PLAIN,
    ) -> None:
        self.path, self.name = Path(path), str(path)
        self._columns, self._numbers, self._options = columns, numbers, options
        self._position = GrowingPosition([], [], 0, [])
        self._files: dict[str, FilePosition] = {}
        self._read: dict[str, Change] = {}  # files that have been read to their end
        self._current: GrowingSource | None = None
        self._reads_rest = False

    def poll(self, most: int) -> Arrived | None:
        if self._current is not None:
            arrived = self._poll(self._current, most)
            if arrived is not None:
                return arrived
        for path in self._unread():
            self._current = self._open(path)
            arrived = self._poll(self._current, most)
            if arrived is not None:
                return arrived
        return None

    def _poll(self, file: GrowingSource, most: int) -> Arrived | None:
        """The next rows of a file, which is left if there are none."""
        change = _change(Path(file.name))
        before = file.position.rows
        try:
            arrived = file.poll(most)
        except SourceError as error:
            if not self._position.columns:
                raise
            raise SourceError(
                f"a file does not fit those before it: {error}; move it elsewhere, or change it"
            ) from None
        here = file.position
        more = here.rows - before
        self._files[file.name] = here.files[0]
        self._position = replace(here, rows=self._position.rows + more, files=[])
        if arrived is None:
            self._current = None
            file.close()
            if file.waiting() is None or isinstance(file, GrowingText):
                self._read[file.name] = change
        return arrived

    def _unread(self) -> list[Path]:
        """Files that are new or have changed; those that were removed are forgotten."""
        if not self.path.is_dir():
            raise SourceError(f"there is no folder {str(self.path)!r} any more")
        found = files_in(self.path, _is_wanted)
        names = set(map(str, found))
        for known in (self._files, self._read):
            for name in known.keys() - names:
                known.pop(name, None)
        return [path for path in found if self._read.get(str(path)) != _change(path)]

    def _open(self, path: Path) -> GrowingSource:
        file: GrowingSource
        if path.name.lower().endswith(TEXT):
            file = GrowingText(path, self._columns, self._numbers, self._options)
            if self._reads_rest:
                file.read_rest()
        else:
            file = GrowingParquet(path, self._columns, self._numbers)
        here = self._files.get(str(path), FilePosition(str(path), 0, 0, 0, ""))
        if self._position.columns or here.offset:
            file.seek(replace(self._position, rows=0, files=[here]))
        return file

    @property
    def position(self) -> GrowingPosition:
        return replace(self._position, files=[*self._files.values()])

    def seek(self, position: GrowingPosition) -> None:
        self.close()
        self._position = replace(position, files=[])
        self._files = {file.name: file for file in position.files}
        self._read = {}

    def read_rest(self) -> bool:
        changed = not self._reads_rest
        self._reads_rest = True
        self._read = {}
        self.close()
        return changed

    def waiting(self) -> str | None:
        return None if self._current is None else self._current.waiting()

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None


def _is_wanted(path: Location) -> bool:
    name = path.name.lower()
    return not name.startswith((".", "_")) and name.endswith((*TEXT, *Parquet.suffixes))


def _change(path: Path) -> Change:
    try:
        found = path.stat()
    except FileNotFoundError:  # it was removed since the folder was listed
        return -1, -1
    return found.st_size, found.st_mtime_ns

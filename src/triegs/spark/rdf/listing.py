"""Which files exist, and their formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from triegs.errors import InputError
from triegs.events.files import ENDINGS, InputFile, detect_format, find_format
from triegs.spark.rdf.settings import (
    BY_LINE,
    FORMATS,
    WITH_GRAPHS,
    Settings,
    is_pattern,
    split_pattern,
)


def require_paths(settings: Settings) -> None:
    """`InputError` for a path that does not exist, or whose format is unknown."""
    for path in settings.paths:
        if not is_pattern(path):
            if not Path(path).exists():
                raise InputError(f"{path}: no such file or directory", file=path)
            if Path(path).is_file():
                open_file(path, settings)


def list_files(settings: Settings) -> dict[str, int]:
    """The files in order, with their sizes: paths as given, by name inside a directory.

    In directories and globs, hidden files (names that start with a dot or ``_``) and files without
    an RDF ending are skipped. One stat call per file.
    """
    found: dict[str, int] = {}
    for given in settings.paths:
        for path in _list_path(given, settings):
            try:
                found.setdefault(str(path), path.stat().st_size)
            except FileNotFoundError:
                continue  # deleted meanwhile; reported if it was read before
    return found


def _list_path(given: str, settings: Settings) -> Iterator[Path]:
    if is_pattern(given):
        folder, pattern = split_pattern(given)
        for path in sorted(folder.glob(pattern)):
            yield from _list_folder(path, settings) if path.is_dir() else _choose([path], settings)
    elif Path(given).is_dir():
        yield from _list_folder(Path(given), settings)
    else:
        yield Path(given)


def _list_folder(folder: Path, settings: Settings) -> Iterator[Path]:
    yield from _choose(sorted(folder.iterdir()), settings)


def _choose(paths: list[Path], settings: Settings) -> Iterator[Path]:
    for path in paths:
        is_known = settings.format is not None or detect_format(path.name)[0] in FORMATS
        if is_known and not path.name.startswith((".", "_")) and path.is_file():
            yield path


def open_file(path: str, settings: Settings) -> InputFile:
    """A file with its format; `InputError` if that is unknown, or not RDF."""
    known = detect_format(Path(path).name)[0]
    if settings.format is None and known not in FORMATS:
        endings = ", ".join(f".{ending}" for ending, form in ENDINGS.items() if form in FORMATS)
        raise InputError(
            f'{path}: unknown RDF format; use one of the endings {endings}, or the option "format"',
            file=path,
        )
    form, compression = find_format(path, settings.format, settings.compression)
    if settings.graph_time is not None and form not in WITH_GRAPHS:
        raise InputError(f"{path}: graph_time needs N-Quads or TriG", file=path)
    return InputFile(path, Path(path), form, compression)


def is_by_line(file: InputFile, settings: Settings) -> bool:
    """Whether a file can be read from any line, or only as a whole.

    With graph times, a graph's time may be lines before or after a statement, so such a file is
    read as a whole.
    """
    is_plain = file.format in BY_LINE and file.compression == "none"
    return is_plain and settings.graph_time is None

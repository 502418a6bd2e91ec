"""Checks of the options for tabular files: mapping, delimiter, encoding."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from collections.abc import Mapping as Names

from triegs.errors import InputError
from triegs.events.files import InputFile
from triegs.events.mapping import Mapping, parse_mapping
from triegs.names import BASE

#: Columns of a row besides those used in its templates.
OF_ROWS = ("time", "op", "id")
SEPARATED = ("csv", "tsv")
TABLES = (*SEPARATED, "jsonl", "parquet", "arrow")


def read_mapping(
    given: str | Iterable[str] | None,
    base: str | None,
    prefixes: Names[str, str] | None,
    columns: Iterable[str],
) -> Mapping | None:
    """The requested mapping of rows to triples, or None."""
    if given is None:
        if base is not None:
            raise InputError("base applies only to a mapping; give map as well")
        return None
    for name in columns:
        if name not in OF_ROWS:
            raise InputError(
                f"with a mapping, columns renames only {', '.join(OF_ROWS)}, not {name}",
                option="columns",
            )
    return parse_mapping(given, base=base or BASE, prefixes=prefixes)


def require_columns(
    file: InputFile, is_mapped: bool, delimiter: str | None, encoding: str | None
) -> None:
    """Raise `InputError` if an option does not apply to the format of a file."""
    if is_mapped and file.format not in TABLES:
        raise InputError(
            f"{file.name}: a mapping needs a table; {file.format} already contains triples",
            file=file.name,
            option="map",
        )
    if (delimiter or encoding) and file.format not in SEPARATED:
        option = "delimiter" if delimiter else "encoding"
        raise InputError(
            f"{file.name}: {option} is for CSV, not {file.format}", file=file.name, option=option
        )
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n' or delimiter > "~"):
        raise InputError(
            f"the delimiter must be one character such as ; or tab, not {delimiter!r}",
            option="delimiter",
        )
    if encoding is not None:
        try:
            codecs.lookup(encoding)
            "".encode(encoding)
        except (LookupError, ValueError):
            raise InputError(
                f"unknown encoding {encoding!r}; an example is latin-1", option="encoding"
            ) from None

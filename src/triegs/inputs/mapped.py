"""Options of tables: which mapping, which delimiter and encoding, and for which files."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from collections.abc import Mapping as Names

from triegs.errors import InputError
from triegs.inputs.files import InputFile
from triegs.mapping import Mapping, parse_mapping
from triegs.names import BASE

#: Columns that a row has beside those that its templates read.
OF_ROWS = ("time", "op", "id")
SEPARATED = ("csv", "tsv")
TABLES = (*SEPARATED, "jsonl", "parquet", "arrow")


def read_mapping(
    given: str | Iterable[str] | None,
    base: str | None,
    prefixes: Names[str, str] | None,
    columns: Iterable[str],
) -> Mapping | None:
    """The mapping of rows to triples that was asked for, None without one."""
    if given is None:
        if base is not None:
            raise InputError("base is where a mapping has its names; there is no mapping")
        return None
    for name in columns:
        if name not in OF_ROWS:
            raise InputError(
                f"a mapping says what {name} is; columns name {', '.join(OF_ROWS)} beside it"
            )
    return parse_mapping(given, base=base or BASE, prefixes=prefixes)


def require_columns(
    file: InputFile, is_mapped: bool, delimiter: str | None, encoding: str | None
) -> None:
    """`InputError` for a file of a format for which an option makes no sense."""
    if is_mapped and file.format not in TABLES:
        raise InputError(
            f"{file.name}: {file.format} has triples already, and no columns to be mapped",
            file=file.name,
        )
    if (delimiter or encoding) and file.format not in SEPARATED:
        option = "delimiter" if delimiter else "encoding"
        raise InputError(f"{file.name}: {option} is for CSV, not for {file.format}", file=file.name)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n' or delimiter > "~"):
        raise InputError(f"a delimiter is one sign such as ; or a tab, not {delimiter!r}")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
            "".encode(encoding)
        except (LookupError, ValueError):
            raise InputError(f"the encoding {encoding!r} is unknown; one is latin-1") from None

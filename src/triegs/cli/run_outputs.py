"""Checks the output options of ``triegs run`` and opens the outputs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import typer

from triegs.cli.output import FULL, fail
from triegs.cli.progress import Progress, SharedTerminal, is_terminal
from triegs.cli.run import Request
from triegs.cli.run_inputs import Streams, reject
from triegs.errors import InputError
from triegs.events.files import list_files
from triegs.outputs import (
    CannotWrite,
    Format,
    Head,
    Kind,
    Multiplicity,
    Options,
    Outputs,
    TermText,
    find_format,
)
from triegs.outputs.formats import BINARY, ENDINGS, MIXED, RESULTS, SINGLE
from triegs.outputs.sinks import find_placeholders
from triegs.outputs.table import find_width
from triegs.run.reporter import When


def read_options(request: Request, kinds: Iterable[tuple[Kind, ...]]) -> Options:
    """The output options; `kinds` are the result kinds of each query."""
    path = request.output or ""
    try:
        placeholders = set(find_placeholders(path))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--output") from None
    chosen = Format(request.output_format) if request.output_format else None
    kind = chosen or find_format(path) or Format.TABLE
    ending = Path(path).suffix
    if chosen is None and ending and "{" not in ending and find_format(path) is None:
        known = ", ".join(f".{each}" for each in ENDINGS)
        reject(f"unknown extension {ending}; use --format, or one of {known}", "--output")
    multiplicity = Multiplicity(request.multiplicity) if request.multiplicity else None
    terms = TermText(request.result_terms) if request.result_terms else None
    if terms is None and request.map and kind not in RESULTS:
        terms = TermText.PLAIN  # names are written as they were read
    all_kinds = list(kinds)
    if multiplicity is Multiplicity.NONE and any(Kind.CHANGES in each for each in all_kinds):
        reject("changes require their counts", "--multiplicity")
    if terms is not None and kind in RESULTS:
        reject(f"the format {kind} defines the form of terms", "--result-terms")
    if len(all_kinds) > 1 and kind not in MIXED and "query" not in placeholders:
        where = "to the name" if request.output else "to the name of an --output"
        reject(f"{kind} cannot hold several queries; add {{query}} {where}",
              "--output" if request.output else "--format")  # fmt: skip
    if kind in BINARY and request.output is None and sys.stdout.isatty():
        reject(f"will not write {kind} to a terminal; give a file or use a pipe", "--output")
    if kind in SINGLE and not placeholders & {"epoch", "time"}:
        if request.every not in (None, When.END):
            reject(
                f"{kind} holds one result; use --every end, or {{epoch}} in the name", "--output"
            )
        if any(len(each) > 1 for each in all_kinds) and "kind" not in placeholders:
            reject(
                f"{kind} holds one result; --emit both requires {{kind}} in the name", "--output"
            )
    return Options(kind, multiplicity, terms, request.stamps, request.rows)


def is_single(options: Options, path: str | None) -> bool:
    """Whether the output can hold only one result per query."""
    return options.format in SINGLE and not set(find_placeholders(path or "")) & {"epoch", "time"}


def check_targets(request: Request, streams: Streams, others: Iterable[str]) -> None:
    """Reject an output or a quarantine file that would overwrite what the run reads: the files of
    its streams, or `others`.
    """
    targets = {"--output": request.output, "--quarantine": request.quarantine}
    found = {option: path for option, path in targets.items() if path is not None}
    if not found:
        return
    read = [*others, *(file for paths in streams.values() for file in find_inputs(request, paths))]
    for option, target in found.items():
        for path in read:
            if is_same(path, target):
                reject(f"{path} is also an input", option)
    if len(found) > 1 and is_same(*found.values()):
        reject("is also the file of --output", "--quarantine")


def find_inputs(request: Request, paths: Iterable[str]) -> Iterator[str]:
    """The files that are read for these paths, those of directories included."""
    for path in paths:
        try:
            files, _ = list_files(path, request.input_format, None)
        except InputError:  # reported when it is opened
            continue
        yield from (str(file.path) for file in files if file.path is not None)


def is_same(one: str, other: str) -> bool:
    """Whether two paths name the same file, which need not exist; devices and pipes may be shared.

    >>> is_same("a/../b", "b"), is_same("/dev/null", "/dev/null")
    (True, False)
    """
    first, second = Path(one), Path(other)
    if first.exists() and second.exists():
        return first.is_file() and first.samefile(second)
    return first.resolve() == second.resolve()


def open_outputs(
    request: Request,
    options: Options,
    heads: Iterable[Head],
    progress: Progress,
    sizes: Mapping[str, int] | None = None,
) -> Outputs:
    """Open the outputs; `sizes` are those of files written by an earlier run."""
    stdout: Any = sys.stdout.buffer
    is_shown = request.output is None and is_terminal(sys.stdout)
    if is_shown:
        stdout = SharedTerminal(stdout, progress)
    try:
        return Outputs(
            heads, options, request.output, cast(BinaryIO, stdout),
            width=find_width(stdout), is_coloured=is_shown and not os.environ.get("NO_COLOR"),
            sizes=sizes,
        )  # fmt: skip
    except CannotWrite as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL:
            fail(f"error: {error}")
        raise typer.BadParameter(str(error), param_hint="--output") from None

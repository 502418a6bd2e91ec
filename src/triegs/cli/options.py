"""Options that several commands have, declared once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer


class ModeOption(StrEnum):
    """`triegs.mode.Mode`, repeated like those below so that ``--help`` need not load it."""

    MULTIGRAPH = "multigraph"
    RDF = "rdf"


class EngineOption(StrEnum):
    DIRECT = "direct"
    SPARK = "spark"


class LevelOption(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def list_option(*names: str, metavar: str, help: str) -> Any:  # noqa: A002
    return typer.Option(*names, metavar=metavar, help=f"{help} Repeatable.", show_default=False)


def text_option(*names: str, metavar: str, help: str) -> Any:  # noqa: A002
    return typer.Option(*names, metavar=metavar, help=help, show_default=False)


def choice_option(name: str, kind: type[StrEnum], help: str) -> Any:  # noqa: A002
    return typer.Option(name, metavar="|".join(kind), help=help, show_default=False)


Prefixes = Annotated[
    list[str] | None,
    list_option("--prefix", metavar="NAME=IRI", help="Prefix for queries, plain cells and tables."),
]
RuleFiles = Annotated[
    list[str] | None,
    list_option(
        "--rules", metavar="FILE|rdfs|rdfs-plus",
        help="Rules, as Datalog or CONSTRUCT; queries also see what they derive.",
    ),
]  # fmt: skip
Base = Annotated[
    str | None,
    text_option(
        "--base", metavar="IRI",
        help="Base IRI of names in --map, and the empty prefix. Default: urn:triegs:",
    ),
]  # fmt: skip
Sync = Annotated[
    str | None,
    text_option(
        "--sync", metavar="always|100ms|never",
        help="When to sync the log of --state to disk. Default: 100ms.",
    ),
]  # fmt: skip
Mode = Annotated[
    ModeOption | None,
    choice_option(
        "--mode", ModeOption,
        "Count every event that states a triple (multigraph, the default), or once (rdf).",
    ),
]  # fmt: skip
WindowWidth = Annotated[
    str | None,
    text_option(
        "--window", metavar="10s", help="Window width, for queries without a window in their text."
    ),
]
WindowSlide = Annotated[
    str | None,
    text_option("--slide", metavar="5s", help="Slide of the window. Default: its width."),
]
LogLevel = Annotated[
    LevelOption,
    typer.Option(
        "--log-level", metavar="|".join(LevelOption), help="Minimum level of log messages."
    ),
]

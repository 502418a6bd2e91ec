"""Implementation of ``triegs explain``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from triegs.cli.queries import check_root, read_prefixes, read_query
from triegs.cli.rules import read_rule_files
from triegs.compiler import compile_query, legal_plans
from triegs.errors import InputError
from triegs.explain import Format, explain
from triegs.explain.listing import list_plans
from triegs.explain.partitions import list_partitions
from triegs.explain.rule_layout import list_rule_layout
from triegs.explain.rule_partitions import list_rule_partitions
from triegs.explain.rules import explain_rules
from triegs.partition.keys import plan_partitions
from triegs.partition.rule_layout import lay_out_rules
from triegs.partition.rules import Signature, plan_rules
from triegs.partition.sampling import write_term
from triegs.partition.statistics import StreamStatistics

#: The most plans listed; beyond it, a sample.
LISTED = 200
TERMS = ["subject", "predicate", "object"]


class ExplainOptions(NamedTuple):
    """The options of the command."""

    query: str | None
    text: str | None
    prefixes: Collection[str]
    output: str
    root: str | None
    keep: Sequence[str]
    all_plans: bool
    partitions: int | None = None
    sample: Path | None = None
    rules: Sequence[str] = ()


def run_explain(options: ExplainOptions) -> str:
    """The text to print."""
    given, text, prefixes, output, root, keep, all_plans, partitions, sample, rules = options
    if rules:
        return explain_rule_files(options)
    if partitions is not None:
        refuse_plan_options(options, "--partitions")
    if all_plans and output not in (Format.TEXT.value, Format.JSON.value):
        raise typer.BadParameter("--all-plans supports text and json", param_hint="--format")
    if sample is not None and partitions is None:
        raise typer.BadParameter("requires --partitions", param_hint="--sample")
    query = read_query(given, text, prefixes)
    if (
        all_plans or partitions is not None or output == Format.MERMAID.value
    ):  # these do not show warnings
        sys.stderr.writelines(f"warning: {each}\n" for each in query.warnings)
    if partitions is not None:
        if output not in (Format.TEXT.value, Format.JSON.value):
            raise typer.BadParameter("--partitions supports text and json", param_hint="--format")
        observed = None if sample is None else observe_file(sample)
        found = plan_partitions(query, partitions, observed)
        return list_partitions(query, found, Format(output), observed)
    check_root(query, root)
    chosen = compile_query(query, root=root, keep=keep)
    if not all_plans:
        return explain(chosen, output)
    plans, is_sample = legal_plans(query, keep=keep, limit=LISTED)
    if root is not None:
        wanted = (f"?{root.removeprefix('?')}",)
        plans = [plan for plan in plans if any(c.root == wanted for c in plan.components)]
    return list_plans(plans, chosen, Format(output), is_sample)


def explain_rule_files(options: ExplainOptions) -> str:
    """The rules of files and named sets."""
    has_query = options.query is not None or options.text is not None
    if has_query and options.partitions is None:
        message = "shows rules, not a query, unless --partitions is given: give one of them"
        raise typer.BadParameter(message, param_hint="--rules")
    if options.output not in (Format.TEXT.value, Format.JSON.value):
        raise typer.BadParameter("--rules supports text and json", param_hint="--format")
    refuse_plan_options(options, "--rules")
    if options.sample is not None and options.partitions is None:
        raise typer.BadParameter("requires --partitions", param_hint="--sample")
    prefixes = read_prefixes(options.prefixes)
    rules = read_rule_files(options.rules, prefixes)
    if options.partitions is not None:
        data = None if options.sample is None else read_triples(options.sample)
        output = Format(options.output)
        if has_query:
            query = read_query(options.query, options.text, options.prefixes)
            counts = Counter(map(Signature.of, data or ()))
            layout, sending = lay_out_rules({"query": query}, rules, options.partitions, counts)
            return list_rule_layout(layout, sending, counts, output, prefixes)
        plan = plan_rules(rules, data)
        return list_rule_partitions(plan, options.partitions, output, prefixes)
    return explain_rules(rules, Format(options.output), prefixes)


def refuse_plan_options(options: ExplainOptions, other: str) -> None:
    """Reject the options about one plan, which another option leaves no use for."""
    given = {"--root": options.root, "--keep": options.keep, "--all-plans": options.all_plans}
    for option, value in given.items():
        if value:
            raise typer.BadParameter(f"not supported with {other}", param_hint=option)


def read_triples(path: Path) -> list[tuple[str, str, str]]:
    """The triples of a file, each once."""
    table = read_sample(path)
    if table is None:
        return []
    subjects, predicates, objects = (map(write_term, table[name].to_pylist()) for name in TERMS)
    return list(dict.fromkeys(zip(subjects, predicates, objects, strict=True)))


def observe_file(path: Path) -> StreamStatistics | None:
    """Statistics of a stream from a file of its events; None if it has no event."""
    from triegs.partition.sampling import sample_statistics

    table = read_sample(path)
    return None if table is None else sample_statistics(table)


def read_sample(path: Path) -> Any:
    """A table of the terms of a file of events; None if it has no event."""
    import pyarrow as pa

    from triegs.events import open_input

    try:
        with open_input(path) as source:
            tables = [pa.Table.from_batches([batch]).select(TERMS) for batch in source]
    except InputError as problem:
        raise typer.BadParameter(str(problem), param_hint="--sample") from None
    if bad := sum(source.report.quarantined.values()):
        sys.stderr.write(f"{path}: {bad:,} of {source.report.read:,} records are malformed\n")
    return pa.concat_tables(tables) if tables else None

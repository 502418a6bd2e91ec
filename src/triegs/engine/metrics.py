"""Figures of a running engine, as a dictionary and as a card for notebooks."""

from __future__ import annotations

from typing import Any

from triegs.engine.internals import EngineInternals
from triegs.notebook import MOST_SHOWN, write_card, write_table


def collect_metrics(state: EngineInternals, *, relations: bool) -> dict[str, Any]:
    """The figures of `triegs.Engine.metrics`."""
    state.pins.end_leases()
    core, queries = state.core, state.queries
    durable: dict[str, Any] = {}
    if state.checkpoint_manager is not None:
        durable["durable"] = state.checkpoint_manager.metrics()
    more: dict[str, Any] = {}
    if state.windows.reasoning.is_used:
        more["rules"] = state.windows.reasoning.measure()
    if core.worker_pool is not None:
        more["workers"] = core.worker_pool.describe()
    if relations:
        measured = state.store.measure_relations()
        more["relations"] = {name: found._asdict() for name, found in measured.items()}
    return {
        "epochs": state.epoch,
        "updates": state.updates,
        "refused": state.refused,
        "affected_bindings": core.affected,
        "stored_answers": core.count_stored(),
        "queries": len(queries),
        "stalled": sorted(name for name, q in list(queries.items()) if q.error is not None),
        "pins": state.pins.describe(measure=relations),
        "holds": dict(state.holds),
        "held_epochs": len(state.store.held()),
        "windows": state.windows.metrics(),
        "aggregates": [each.describe() for each in list(state.aggregates.values())],
        **durable,
        "terms": state.dictionary.metrics()._asdict(),
        **state.store.statistics()._asdict(),
        **more,
    }


def render_html(state: EngineInternals) -> str:
    """A card with the main figures and the first queries. Cost: those."""
    windows = state.windows.metrics()
    facts = [
        ("mode", state.mode.value),
        ("epoch", f"{state.epoch:,}" + (", closed" if state.is_closed else "")),
        ("updates", f"{state.updates:,} taken, {state.refused:,} refused"),
    ]
    if state.windows.is_used:
        facts.append(("watermark", windows["watermark"]))
        counts = ", ".join(f"{windows[name]:,} {name}" for name in ("retained", "pending", "late"))
        facts.append(("events", counts))
    if state.checkpoint_manager is not None:
        facts.append(("directory", str(state.checkpoint_manager.directory)))
    queries = list(state.queries.values())
    rows = [(q.name, q.describe_state(), " ".join(q.query.head)) for q in queries[:MOST_SHOWN]]
    left = len(queries) - len(rows)
    note = f"and {left:,} more" if left > 0 else ""
    return write_card("Engine", facts) + (
        write_table(("query", "class", "head"), rows, note) if rows else ""
    )

"""Figures of a server in the text format of Prometheus.

What happens here is counted here; what the engine knows is read from `Engine.metrics` when somebody
asks, by a collector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

#: Seconds, from an empty epoch to a large one.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Telemetry:
    """The figures of one server. From any thread."""

    def __init__(self, read_engine: Callable[[], dict[str, Any]]) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "triegs_http_requests", "Requests by route, method and status.",
            ["route", "method", "status"], registry=registry,
        )  # fmt: skip
        self.request_s = Histogram(
            "triegs_http_request_seconds", "Time to the end of a response.", ["route"],
            buckets=BUCKETS, registry=registry,
        )  # fmt: skip
        self.epoch_s = Histogram(
            "triegs_epoch_seconds", "Time to publish an epoch.", buckets=BUCKETS, registry=registry
        )
        self.rows = Counter(
            "triegs_ingested_rows", "Rows by outcome.", ["outcome"], registry=registry
        )
        self.subscribers = Gauge("triegs_subscribers", "Open subscriptions.", registry=registry)
        self.responses = Gauge(
            "triegs_snapshot_responses", "Responses that hold a snapshot.", registry=registry
        )
        registry.register(EngineCollector(read_engine))

    def write(self) -> bytes:
        """All figures as text."""
        return generate_latest(self.registry)


#: Ages by which pins are counted.
AGES_S = (1, 10, 60, 600)
#: Metric, help, and where `Engine.metrics` has it.
COUNTERS = (
    ("epochs", "Published epochs.", ("epochs",)),
    ("updates", "Applied updates.", ("updates",)),
    ("refused", "Refused updates.", ("refused",)),
    ("late_events", "Events at or before the watermark.", ("windows", "late")),
    ("ahead_events", "Events too far ahead of their stream.", ("windows", "ahead")),
    ("refused_events", "Timed events that were refused.", ("windows", "refused")),
    ("log_bytes", "Bytes written to the log.", ("durable", "bytes")),
    ("log_syncs", "Syncs of the log.", ("durable", "syncs")),
)
GAUGES = (
    ("queries", "Registered queries.", ("queries",)),
    ("live_bytes", "Graph and views.", ("live_bytes",)),
    ("shared_bytes", "Blocks that sets of one id share.", ("shared_bytes",)),
    ("retained_bytes", "Memory that only held epochs need.", ("retained_bytes",)),
    ("debt_bytes", "Memory that is free for reuse.", ("debt_bytes",)),
    ("term_bytes", "The dictionary.", ("terms", "bytes")),
    ("window_bytes", "Events that windows retain.", ("windows", "bytes")),
    ("stored_answers", "Tuples of materialised joins.", ("stored_answers",)),
    ("held_epochs", "Epochs that something holds.", ("held_epochs",)),
    ("pending_events", "Events that wait for the watermark.", ("windows", "pending")),
    ("watermark_ms", "Event time up to which results are published.", ("windows", "watermark")),
    ("log_unsynced_records", "Records that are not on disk yet.", ("durable", "unsynced")),
    ("queue_bytes", "Bodies that wait for their epoch.", ("server", "queue_bytes")),
    ("queue_requests", "Requests that wait for the updater.", ("server", "queue_requests")),
    ("queue_lag_seconds", "How long the oldest of them has waited.", ("server", "lag_s")),
)


class EngineCollector(Collector):
    """Reads the engine when the figures are asked for."""

    def __init__(self, read: Callable[[], dict[str, Any]]) -> None:
        self._read = read

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering does not read the engine."""
        return ()

    def collect(self) -> Iterable[Metric]:
        found = self._read()
        for name, text, path in COUNTERS:
            if (value := find_value(found, path)) is not None:
                yield CounterMetricFamily(f"triegs_{name}", text, value=value)
        for name, text, path in GAUGES:
            if (value := find_value(found, path)) is not None:
                yield GaugeMetricFamily(f"triegs_{name}", text, value=value)
        yield GaugeMetricFamily(
            "triegs_stalled_queries", "Queries that are stalled.", value=len(found["stalled"])
        )
        ages = [pin["age_s"] for pin in found["pins"]]
        yield GaugeMetricFamily("triegs_pins", "Open snapshots.", value=len(ages))
        by_age = GaugeMetricFamily(
            "triegs_pins_older", "Open snapshots of at least this age.", labels=["seconds"]
        )
        for least in AGES_S:
            by_age.add_metric([str(least)], sum(age >= least for age in ages))
        yield by_age
        yield GaugeMetricFamily(
            "triegs_oldest_pin_seconds", "Age of the oldest.", value=max(ages, default=0)
        )


def find_value(found: Any, path: tuple[str, ...]) -> float | None:
    """The number at a path; None if there is none.

    >>> find_value({"terms": {"bytes": 7}}, ("terms", "bytes")), find_value({}, ("durable", "x"))
    (7, None)
    """
    for name in path:
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found if isinstance(found, int | float) else None

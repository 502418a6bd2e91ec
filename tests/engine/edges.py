"""Edges as updates, and results as multiplicities by row."""

from __future__ import annotations

P, Q, R = (f"<http://ex/{name}>" for name in "pqr")


def rows(result):
    return {tuple(row): row._count for row in result.answers("python")}


def add(*edges):
    return [("+", *edge) for edge in edges]


def remove(*edges):
    return [("-", *edge) for edge in edges]

"""Aggregates over streams: sliding windows without joins, and exact sums of doubles."""

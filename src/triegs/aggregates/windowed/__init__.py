"""Aggregates over windows of grouped events.

`functions` names what is computed, `groups` numbers groups, `events` has the columns of the events
that a window may still need, and `aggregation` slides windows over them. Terms, streams and epochs
are unknown here: a key is a row of integers, an event a time, a key and a value.
"""

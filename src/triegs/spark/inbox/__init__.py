"""``format("triegs")`` as a sink: events from a Spark job into the inbox of an engine directory.

Read in this order: `sink` (options and writers), `staging` (task files and commits), `claims`
(which writer owns a source).
"""

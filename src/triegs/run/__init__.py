"""Running queries over an input: events in, epochs, answers out.

`driver` ties it together and is the place to start reading: `epochs` feeds the engine, `reporting`
reads it and writes, `stopping` and `following` are about where an input ends.
"""

"""Many lanes on many cores: measured on those that are here, simulated beyond. Read this first.

A *lane* here is an engine with a query and a stream of its own. `mixes` makes lanes, `fixed_work`
runs them through the same slides on any number of threads, `accounting` says where the processor
time went, `open_loop` lets slides arrive by a timetable, and `simulator` predicts what more cores
would do from measured service times. Only figures of `simulator` are simulated, and they say so.
"""

"""Windows over streams of timed events: what comes and what expires, slide by slide.

`manager` ties it together and is the place to start reading.
"""

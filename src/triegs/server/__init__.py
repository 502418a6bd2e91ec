"""``triegs serve``: one engine behind HTTP.

Reading order: `app` (the routes), `service` (what requests share), `updater` (the one thread that
changes the engine), then the handlers: `ingest`, `queries`, `subscriptions`, `sparql`,
`operations`. `security` decides who may do what; `bodies`, `parameters` and `problems` are how
requests are read and refused, `formats`, `responses` and `pipe` how results are written. The event
loop never calls what may take long: bodies are read and results written in threads, changes are
made by the updater.
"""

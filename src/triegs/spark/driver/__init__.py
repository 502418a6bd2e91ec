"""The pipeline whose engine runs in the driver.

```
DataFrame ─► executors: check, encode ─► driver: one micro-batch at a time ─► engine ─► sinks
                                                                              └─► snapshots
```
Read in this order: `pipeline` (a running pipeline), `micro_batch` (each batch exactly once),
`label_codes` (integer events without Python on the executors); for readers in Spark,
`snapshot_server` (in the driver), `snapshot_client` and `snapshot_reader` (in Spark's processes).
"""

"""Lanes: engines side by side that share nothing and publish the same epochs. Read this first.

```
one call ──► every lane prepares its epoch (threads) ──► all have? ──► every lane publishes
                                                     └── one has not: all abort, nobody publishes
```
`lanes` is the public class. `together` runs one change in all lanes in two phases. `assignment`
divides lanes among threads, `schedule` lists the forms that a division can take, `controller`
measures them and picks, `crew` has the threads and `placement` the CPUs they run on. `balance`
moves queries between lanes.

Inside one epoch, a lane is not divided: its epoch runs on one thread. What divides it would belong
between `schedule`, which would get the lane as several tasks, and the kernels.
"""

from triegs.lanes.lanes import Lanes

__all__ = ["Lanes"]

"""How often the gate fails a night on which nothing has changed, over simulated seasons.

    python -m tests.benchmarks season                 # every family, an hour on one core
    python -m tests.benchmarks season --only pinned --nights 600

A night fails if `compare` would end with status 4 or 5, for any reason. Its rate is that of all
nights, with an interval by season, since nights of a season share the runs they are compared with.
"""

import numpy as np

from tests.benchmarks.harness import Recorder
from tests.support.seasons import COARSE, Family, failure_rates

SMALL, WIDE = (2, 30), (2, 1000)
SIZES = (20, 50, 200, 1000)

FAMILIES = {
    "whole, 8 rows": Family(groups=0, rows=(8, 8)),
    "whole, 30 rows": Family(groups=0, rows=(30, 30)),
    "whole, 1,000 rows": Family(groups=0, rows=(1000, 1000)),
    "1 group of 100": Family(groups=1),
    "24 groups of 2 to 30": Family(rows=SMALL),
    "24 groups of 100": Family(),
    "24 groups of 2 to 1,000": Family(rows=WIDE),
    "24 of 50, nulls .1%": Family(rows=(50, 50), nulls=0.001),
    "24 of 100, nulls .2%": Family(nulls=0.002),
    "24 of 2 to 30, nulls .5%": Family(rows=SMALL, nulls=0.005),
    "24 of 100, nulls .5%": Family(nulls=0.005),
    "24 of 2 to 1,000, nulls .5%": Family(rows=WIDE, nulls=0.005),
    "a tenth of 24 of 2 to 6 repeats a row": Family(rows=(2, 6), repeats=6, repeated=0.1),
    "24 of 10 to 200, rows five times": Family(rows=(10, 200), repeats=5),
    "whole, 100 rows five times": Family(groups=0, rows=(500, 500), repeats=5),
    "whole, 20 items in 100 copies": Family(groups=0, rows=(2000, 2000), repeats=100),
    "whole, 20 items in 100 copies, nulls .2%": Family(
        groups=0, rows=(2000, 2000), repeats=100, nulls=0.002
    ),
    **{
        f"{shape}, whole of {size}": Family(groups=0, rows=(size, size), shape=shape)
        for shape in COARSE
        for size in SIZES
    },
    "yes/no .8, 24 of 2 to 30": Family(rows=SMALL, shape="yes/no .8"),
    "yes/no .8, 24 of 100, nulls .5%": Family(shape="yes/no .8", nulls=0.005),
    "pinned, yes/no .8, whole of 50": Family(
        groups=0, rows=(50, 50), shape="yes/no .8", pinned=True
    ),
    "documents, 24 of 100": Family(document=5, cluster=True),
    "documents, 24 of 10 to 50, nulls .5%": Family(
        rows=(10, 50), document=5, cluster=True, nulls=0.005
    ),
    "documents, 24 of 100, nulls .5%": Family(document=5, cluster=True, nulls=0.005),
    "t, 3 degrees, 24 of 2 to 30": Family(rows=SMALL, shape="t3"),
    "t, 3 degrees, 24 of 100": Family(shape="t3"),
    "2% zeros, 24 of 100": Family(shape="zeros"),
    "skewness 4, 24 of 2 to 30": Family(rows=SMALL, shape="skewed"),
    "skewness 4, 24 of 100": Family(shape="skewed"),
    "90% reused, 24 of 20": Family(rows=(20, 20), reused=0.9),
    "90% reused, 24 of 100": Family(reused=0.9),
    "90% reused, 24 of 2 to 1,000": Family(rows=WIDE, reused=0.9),
    "pinned, whole, 100 rows": Family(groups=0, pinned=True),
    "pinned, 24 of 2 to 30": Family(rows=SMALL, pinned=True),
    "pinned, 24 of 100, nulls .2%": Family(pinned=True, nulls=0.002),
    "pinned, documents, 24 of 100, nulls .2%": Family(
        document=5, cluster=True, pinned=True, nulls=0.002
    ),
    "pinned, 90% reused, 24 of 100": Family(pinned=True, reused=0.9),
    "4 measures, whole, 100 rows": Family(groups=0, measures=4),
    "4 measures, 24 of 2 to 30, nulls .5%": Family(rows=SMALL, nulls=0.005, measures=4),
    "outside: documents without --cluster, whole of 1,000": Family(
        groups=0, rows=(1000, 1000), document=5
    ),
    "outside: documents without --cluster, 24 of 100": Family(document=5),
    "outside: 20 short items in 100 copies": Family(
        groups=0, rows=(2000, 2000), repeats=100, found=False
    ),
    "outside: 100 short rows five times": Family(groups=0, rows=(500, 500), repeats=5, found=False),
    "outside: 24 of 10 to 200 short rows, five times": Family(
        rows=(10, 200), repeats=5, found=False
    ),
    "outside: 20 items in 100 samples": Family(
        groups=0, rows=(2000, 2000), repeats=100, found=False, sampled=0.5
    ),
    "outside: 100 rows in five samples": Family(
        groups=0, rows=(500, 500), repeats=5, found=False, sampled=0.5
    ),
}
"""The promise holds for each of these but those outside of it."""


def season(record: Recorder, nights: int = 3000, only: str = "", seed: int = 1) -> None:
    """Measure how often the gate fails a night on which nothing has changed.

    `nights` of each family, or of those whose names hold `only`, in percent, at 95% and at 99%.
    Wholes without groups are cheap, and have ten times as many.
    """
    for name, family in FAMILIES.items():
        if only in name:
            number = nights if family.groups else 10 * nights
            rates = 100 * failure_rates(family, number, seed=seed)
            at_95, at_99 = ([*np.round(own, 2)] for own in rates.T)
            record.add(what=name, n=number, at_95=at_95, at_99=at_99)

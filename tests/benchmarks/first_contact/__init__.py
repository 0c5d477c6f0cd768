"""First contact with a GPU: one command that says what works there and how fast.

`python -m tests.benchmarks.gpu --first-contact` runs the parts in `PARTS`, each in a process of its
own, so that a part that breaks the device or runs over its time costs the others nothing.
"""

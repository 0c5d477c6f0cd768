"""The commit protocol under a seeded scheduler: real code, a simulated clock, store and processes.

    python -m tests.simulation 17            # the interleaving of seed 17, step by step
    python -m tests.simulation 0 2000        # seeds 0 to 1999, and what each has found

`world` schedules actors one at a time, in the order of simulated moments; `places` puts
it where the project asks for clocks, threads and processes. `store` and `disk` are what a run can
write to: each read, write and deletion is a step. `runs` are launchers and `pool` their
workers, which call the project's own functions, for `commands`. `watch` looks at the folder after
every change, and `play` draws a world and plays it to its end.
"""

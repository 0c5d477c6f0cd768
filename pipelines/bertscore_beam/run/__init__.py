"""The machinery that all jobs share: output folder and lock, runner, workers, progress.

This room does not know what a job computes: no texts, no scores, no models. In the order of a run:

    job.py          the one way through a run: plan, lock, stages, outcome
    endings.py      errors of the work, signals, a lost folder
    runner.py       the Beam runner that the options name, and what it needs
    remote_job.py   the job of a service: submitted, watched, cancelled, and found again
    lock.py         one run at a time on a folder
    folder.py       the folder: its files, and whether its run has succeeded
    identity.py     the settings that two runs of a folder must share
    neighbours.py   no run's folder is inside another's
    temporary.py    folders of which nothing is kept
    text_import.py  the stage before all others: files of text become Parquet
    loading.py      from options to settings of all workers, and the scorer that each one loads
    run_step.py     a step in a pipeline: in a process of the pool, or where Beam runs it
    pool.py         the processes of this machine, and what is sent to and fro
    gpus.py         which GPU each of them computes on
    child.py        the other end of the pipe: a process that knows no Beam
    counters.py     what steps count
    activity.py     what processes are at work on
    progress.py     the stages of a job, and the line that shows how far one is
    output.py       exit statuses, outcomes, and text for people and logs
"""

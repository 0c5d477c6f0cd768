"""The machinery that all jobs share: output folder, runner, workers, progress.

This room does not know what a job computes: no texts, no scores, no models. In the order of a run:

    job.py          what a job is given: a folder, and phases that are done
    phases.py       a job is phases: items, work on each, and a fold
    endings.py      errors of the work, signals, a lost folder
    runner.py       the Beam runner that the options name
    beam_options.py what Beam's options say, and whether a job can run with them
    remote_job.py   the job of a service: submitted, watched, cancelled, and found again
    folder.py       the folder: its files, and whether its run has succeeded
    identity.py     the settings that two runs of a folder must share
    neighbours.py   no run's folder is inside another's
    temporary.py    folders of which nothing is kept
    text_import.py  before all other phases: files of text become Parquet
    loading.py      from options to settings of all workers, and the scorer that each one loads
    run_step.py     phases as one pipeline, whose work the pool does, or workers of Beam
    pool.py         the processes of this machine, and what is sent to and fro
    gpus.py         which GPU each of them computes on
    child.py        the other end of the pipe: a process that knows no Beam
    counters.py     what steps count for a service
    activity.py     what processes are at work on
    progress.py     the line that shows how far phases are
    output.py       exit statuses, outcomes, and text for people and logs
"""

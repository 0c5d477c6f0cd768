"""Estimate rescaling baselines: what random pairs of sentences score, by language and layer.

prepare.py checks the options, and resume.py what the output folder holds already. The stages then
follow each other: extract.py reads sentences from files, sample.py samples them, pair.py pairs them
at random, moments.py scores the pairs, and write_table.py writes the tables. stages.py puts what
needs no other files into pipelines. job.py says what a run is, from its plan to its exit status.
"""

"""Estimate rescaling baselines: what random pairs of sentences score, by language and layer.

baseline_plan.py checks the options, and what the output folder holds already. The stages then
follow each other: extract.py reads sentences from files, sample.py samples them and pairs them at
random, layer_moments.py scores the pairs, and baseline_tables.py writes the tables. extract.py
and layer_moments.py do not use Beam; collect_sentences.py and job.py put them into pipelines.
job.py also describes a run, from its plan to its exit status.
"""

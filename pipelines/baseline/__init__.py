"""The baseline job: what random pairs of sentences score, by language, model and layer.

options.py   what the command is told
layout.py    where everything lies in the output folder
prepare.py   check the options, and hold them against the output folder
stages.py    the four pipelines: extract, sample, pair, score
command.py   one after the other until the tables are there
tables.py    moments -> table, provenance, picture
compare.py   two tables against each other
"""

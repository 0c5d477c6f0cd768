"""The baseline job: what random pairs of sentences score, by language, model and layer.

options.py   what the command is told
layout.py    where everything lies in the output folder
prepare.py   check the options
folder.py    what the output folder holds, and whether a run may continue in it
stage.py     one pipeline of the job, and how far it is
collect.py   files -> sentences -> the sample of each language
score.py     sample -> pairs -> moments of each model
command.py   one after the other until the tables are there
tables.py    moments -> table, checks, description
picture.py   what is drawn of them
sides.py     what can be compared: tables, folders of them, what is published
compare.py   two tables against each other
"""

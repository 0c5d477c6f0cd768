"""The command line: main.py knows all commands; the only room that prints.

A command reads its options, runs a job or answers a question, and returns an exit status. It does
not know how the work is done.
"""

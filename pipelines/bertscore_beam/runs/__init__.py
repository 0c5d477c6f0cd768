"""A scored run as data: open it, read the scores of its rows, look rows up in its index.

Beam is not known here. What a run writes for later runs is made by these modules too.
"""

"""Sentences of Common Crawl: list the WET files, fetch one, read its pages, sample and pair.

A file is the unit of work and of failure: it is read to its end or it fails, and it never gives
fewer pages without saying so. This room knows neither Beam nor models.
"""

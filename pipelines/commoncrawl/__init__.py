"""Texts of Common Crawl: list the WET files of a crawl, fetch one, read its pages.

`listing.py` says which files there are and in which order to take them, `fetch.py` brings one file
to this machine, `warc.py` reads it. A file is the unit of work and of failure: it is read to its
end or it fails, and it never gives fewer pages without saying so.
"""

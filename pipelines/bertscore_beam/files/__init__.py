"""Files, local or in an object store: paths, reading, writing, deleting, searching.

This room knows fsspec. It does not know what is in a file, nor what a job or a run is.
"""

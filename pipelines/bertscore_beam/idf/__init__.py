"""The idf job: count document frequencies over the references of a dump, and save one table.

This room does not score. The scoring job uses its counting steps for `--idf corpus`.
"""

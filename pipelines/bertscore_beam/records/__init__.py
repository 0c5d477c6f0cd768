"""A scored run as data: records of parts, resume, rejects, groups, its index and look-ups."""

from .job import IMPORT as IMPORT

"""Options of `bertscore-beam idf`."""

from dataclasses import dataclass

from bertscore_beam.options.base import DumpOptions


@dataclass(frozen=True, kw_only=True)
class IdfOptions(DumpOptions):
    """Count document frequencies over references, and write the table to the file `output`."""

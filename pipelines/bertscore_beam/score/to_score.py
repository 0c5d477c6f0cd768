"""What a worker is told to score: a split, and where its idf tables are."""

from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from bertscore_beam.dump.splits import Split
from bertscore_beam.idf.saved import SavedIdf
from bertscore_beam.idf.tables import IdfTables


@dataclass(frozen=True, slots=True)
class ToScore:
    """A split, and its idf tables by name; None without any."""

    split: Split
    idf: SavedIdf | None = None


@dataclass
class WithIdf(beam.PTransform):
    """Splits -> ToScore, once the idf tables are saved.

    The tables are a side input of this quick step and not of the long one that scores. While a
    stage with a side input has work, Prism (2.77) keeps a core busy with asking whether the side
    input is ready. And the tables are read once a process instead of once a bundle.

    Attributes:
        tables: Singleton with the idf tables; None without any.
        path: Their file.
    """

    tables: beam.PCollection[IdfTables] | None
    path: str | None

    def expand(self, splits: beam.PCollection[Split]) -> beam.PCollection[ToScore]:
        """Name the tables beside every split."""
        if self.tables is None:
            return splits | "NoIdf" >> beam.Map(ToScore).with_output_types(ToScore)
        saved = self.tables | "NameIdf" >> beam.Map(SavedIdf.of, self.path)
        named = beam.Map(ToScore, AsSingleton(saved)).with_output_types(ToScore)
        return splits | "NameTables" >> named

"""The index of a run, in its pipeline: built from the pieces of its parts by all workers.

    totals --> runs of pieces --> Reshuffle --> rows by bucket --GroupByKey--> files of a bucket

Rows cross as entries of 48 bytes, some dozens of one bucket together: no machine sorts them all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import apache_beam as beam
from apache_beam.typehints import no_annotations

from bertscore_beam.idf.tables import IdfTables
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.run_step import RunStep
from bertscore_beam.run.step import Each
from bertscore_beam.runs.index import (
    WORDS,
    Bucket,
    Fragment,
    PieceRun,
    declare_index,
    read_pieces,
    runs_to_index,
    write_bucket,
)
from bertscore_beam.score.run_parts import indexed_parts, parts_of_run
from bertscore_beam.score.spec import ScoreSpec
from bertscore_beam.score.summary import RunTotals


@dataclass
class IndexRun(beam.PTransform):
    """The totals of a run -> None, when its index is written.

    Attributes:
        spec: The run.
        idf: Side input with the idf tables, or None.
        packs: Side input that is there when the records are packed.
    """

    spec: ScoreSpec
    idf: Any
    packs: Any

    @no_annotations  # Beam has no type hint for the side input
    def expand(self, totals: beam.PCollection[RunTotals]) -> beam.PCollection[None]:
        """Group entries by bucket."""
        folder = self.spec.folder
        read = Each(partial(read_pieces, folder=folder), attrgetter("name"))
        found = (
            totals
            # PieceRun: names of parts, known when every split has been tried.
            | "PiecesOfRun" >> beam.FlatMap(_runs, self.idf, self.packs, spec=self.spec)
            | "SpreadPieces" >> beam.Reshuffle()
            | "ReadPieces"
            >> beam.ParDo(RunStep(read)).with_output_types(tuple[tuple[str, int, int], Any])
        )
        signatures, reasons = (
            beam.pvalue.AsList(
                found
                | f"{name}OfPieces" >> beam.FlatMap(words).with_output_types(str)
                | f"{name}Once" >> beam.Distinct()
            )
            for name, words in (("Signatures", _signatures), ("Reasons", _reasons))
        )
        written = (
            found
            | "OfBuckets" >> beam.Filter(_is_of_bucket)
            # (bucket, its rows): 48 MB each.
            | "GroupByBucket" >> beam.GroupByKey()
            | "WriteBucket" >> beam.Map(_write, signatures, reasons, folder=folder)
        )
        return (
            written
            | "BucketsWritten" >> beam.combiners.ToList()
            | "DeclareIndex" >> beam.Map(_declare, signatures, reasons, folder=folder)
        )


def _runs(
    _: RunTotals, idf: IdfTables | None, packs: Sequence[str], *, spec: ScoreSpec
) -> Iterator[PieceRun]:
    return runs_to_index(spec.folder, indexed_parts(parts_of_run(spec, idf).records()))


def _is_of_bucket(found: tuple[Bucket, Fragment]) -> bool:
    return found[0][2] != WORDS


def _signatures(found: tuple[Bucket, Fragment]) -> Iterable[str]:
    return () if _is_of_bucket(found) else found[1][1].values()


def _reasons(found: tuple[Bucket, Fragment]) -> Iterable[str]:
    return () if _is_of_bucket(found) else found[1][2].values()


def _write(
    grouped: tuple[Bucket, Iterable[Fragment]],
    signatures: Sequence[str],
    reasons: Sequence[str],
    *,
    folder: OutputFolder,
) -> tuple[Bucket, int]:
    bucket, fragments = grouped
    return write_bucket(folder, bucket, fragments, sorted(signatures), sorted(reasons))


def _declare(
    written: Sequence[tuple[Bucket, int]],
    signatures: Sequence[str],
    reasons: Sequence[str],
    *,
    folder: OutputFolder,
) -> None:
    if written:  # otherwise it was there, or there is no row
        declare_index(folder, written, sorted(signatures), sorted(reasons))

"""The heart of the job in one file: Parquet in, idf of the corpus, scored Parquet out, resumed.

    python docs/heart.py 'configs/demo/sample/news-*.parquet' scored

Other options go to Beam, such as `--runner`. docs/architecture.md says what the job adds.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.shared import Shared

from bertscore_core import BertScorer, DocumentFrequencies, IdfTable, ScorerConfig

CONFIG = ScorerConfig(idf=True)
MEASURES = ("precision", "recall", "f1")
Split = tuple[str, int]  # a file, and the number of one of its row groups


def list_splits(pattern: str) -> list[Split]:
    """Find the files of a pattern, on a disk or in a store, and cut each into its row groups."""
    filesystem, place = fsspec.url_to_fs(pattern)
    paths = [filesystem.unstrip_protocol(path) for path in sorted(filesystem.glob(place))]
    return [(path, group) for path in paths for group in range(open_file(path).num_row_groups)]


def open_file(path: str) -> pq.ParquetFile:
    """Open a Parquet file wherever it is."""
    filesystem, place = fsspec.url_to_fs(path)
    return pq.ParquetFile(filesystem.open(place))


class WithModel(beam.DoFn):
    """A step that needs the model, which all threads of a process share."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    def setup(self) -> None:
        """Load the model, once in a process."""
        self.scorer: BertScorer = self.shared.acquire(lambda: BertScorer(CONFIG))


class CountDocuments(WithModel):
    """Counts in how many references of a split each token is."""

    def process(self, split: Split) -> Iterator[DocumentFrequencies]:
        """Count the references of one split."""
        path, group = split
        references = open_file(path).read_row_group(group, ["reference"])["reference"].to_pylist()
        texts = [text for text in references if text is not None]
        yield DocumentFrequencies.from_tokens(self.scorer.tokenizer.encode(texts))


class ScoreSplit(WithModel):
    """Writes the scored part of a split, unless it is there; returns sums over its rows."""

    def __init__(self, shared: Shared, output: str) -> None:
        super().__init__(shared)
        self.output = output

    def process(self, split: Split, counted: DocumentFrequencies) -> Iterator[dict[str, float]]:
        """Score one split with the document frequencies of the corpus."""
        tokenizer = self.scorer.tokenizer
        idf = IdfTable(
            frequencies=counted, tokenizer=tokenizer.fingerprint, max_length=tokenizer.max_length
        )
        path, group = split
        rows = open_file(path).read_row_group(group)
        texts = json.dumps([rows["candidate"].to_pylist(), rows["reference"].to_pylist()])
        # What decides the scores. A part that has the same record need not be made again.
        made_of = [str(self.scorer.signature(idf)), hashlib.sha256(texts.encode()).hexdigest()]
        name = hashlib.sha256(f"{path} {group}".encode()).hexdigest()[:16]
        filesystem, part = fsspec.url_to_fs(f"{self.output}/part-{name}.parquet")
        if filesystem.exists(part):
            record = json.loads(pq.ParquetFile(filesystem.open(part)).metadata.metadata[b"record"])
            if record["made_of"] == made_of:
                yield record["sums"]
                return
        scored, sums = self.score(rows, idf)
        metadata = {b"record": json.dumps({"made_of": made_of, "sums": sums}).encode()}
        with filesystem.open(f"{part}.draft", "wb") as stream:
            pq.write_table(scored.replace_schema_metadata(metadata), stream)
        filesystem.mv(f"{part}.draft", part)  # whole or not at all
        yield sums

    def score(self, rows: pa.Table, idf: IdfTable) -> tuple[pa.Table, dict[str, float]]:
        """Add columns of scores; a row that lacks a text has none, and a reason."""
        pairs = zip(rows["candidate"].to_pylist(), rows["reference"].to_pylist(), strict=True)
        whole = {place: pair for place, pair in enumerate(pairs) if None not in pair}
        candidates, references = zip(*whole.values(), strict=True) if whole else ((), ())
        scores = self.scorer.score(list(candidates), list(references), idf=idf)
        sums = {"rows": float(len(rows)), "scored": float(len(whole))}
        for measure in MEASURES:
            found = dict(zip(whole, getattr(scores, measure).tolist(), strict=True))
            column = pa.array([found.get(place) for place in range(len(rows))], pa.float32())
            rows = rows.append_column(f"bertscore_{measure}", column)
            sums[measure] = sum(found.values())
        reasons = [None if place in whole else "a text is missing" for place in range(len(rows))]
        return rows.append_column("bertscore_error", pa.array(reasons, pa.string())), sums


def add_up(sums: Any) -> dict[str, float]:
    """Add up the sums of splits, in any order."""
    total = dict.fromkeys(("rows", "scored", *MEASURES), 0.0)
    for each in sums:
        total = {name: value + each[name] for name, value in total.items()}
    return total


def conclude(total: dict[str, float], output: str) -> None:
    """Write the means; this file says that the run is complete."""
    means = {measure: total[measure] / total["scored"] for measure in MEASURES}
    with fsspec.open(f"{output}/_SUCCESS", "wt") as stream:
        json.dump({"rows": total["rows"], "scored": total["scored"], **means}, stream)


def main() -> None:
    """Run the pipeline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input")
    parser.add_argument("output")
    flags, of_beam = parser.parse_known_args()
    filesystem, folder = fsspec.url_to_fs(flags.output)
    filesystem.makedirs(folder, exist_ok=True)
    if filesystem.exists(f"{folder}/_SUCCESS"):
        filesystem.rm(f"{folder}/_SUCCESS")
    shared = Shared()
    with beam.Pipeline(options=PipelineOptions(of_beam)) as pipeline:
        splits = pipeline | beam.Create(list_splits(flags.input)) | beam.Reshuffle()
        counted = (
            splits
            | beam.ParDo(CountDocuments(shared))
            | beam.CombineGlobally(DocumentFrequencies.merge)
        )
        (
            splits
            | beam.ParDo(ScoreSplit(shared, flags.output), beam.pvalue.AsSingleton(counted))
            | beam.CombineGlobally(add_up)
            | beam.Map(conclude, flags.output)
        )


if __name__ == "__main__":
    main()

"""Pair the samples, score the pairs with every model, and add the sums up."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam

from bertscore_core.moments import Moments
from pipelines.baseline import layout
from pipelines.baseline.collect import SampleRecord
from pipelines.baseline.prepare import BaselineJob, BaselineModel, digest_of
from pipelines.baseline.stage import Run, Stage
from pipelines.commoncrawl.sampling import part_bits
from pipelines.io.files import delete_many, join, list_files, read_bytes, read_many
from pipelines.lock import RunLock
from pipelines.transforms.hints import with_accelerator
from pipelines.transforms.moments import PairsToScore, ScorePairParts, pairs_to_score
from pipelines.transforms.pairs import PairingPlan, PairPart, PairSentences
from pipelines.transforms.sample import lanes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsRecord:
    """The pairs of one language.

    Attributes:
        language: Their language.
        sample: Digest of the sample they are made of.
        parts: Files that hold them.
    """

    language: str
    sample: str
    parts: tuple[PairPart, ...]

    @classmethod
    def from_json(cls, data: bytes) -> "PairsRecord":
        """Read what the pipeline wrote."""
        fields = json.loads(data)
        fields["parts"] = tuple(PairPart.from_plain(part) for part in fields["parts"])
        return cls(**fields)

    @property
    def digest(self) -> str:
        """Digest of what the pairs are made of. 16 hexadecimal digits."""
        return digest_of(f"{self.sample} {[(part.name, part.rows) for part in self.parts]}")

    @property
    def rows(self) -> int:
        """Number of pairs."""
        return sum(part.rows for part in self.parts)


def make_pairs(
    job: BaselineJob, samples: Mapping[str, SampleRecord], run: Run, lock: RunLock | None = None
) -> dict[str, PairsRecord]:
    """Pair the sample of every language that has one; what is there is not made again.

    Raises:
        TypeError, ValueError: a record is not what this version writes.
    """
    pairs = {
        code: found
        for code, sample in samples.items()
        if (found := _find_pairs(job, sample)) is not None
    }
    missing = {
        code: sample for code, sample in samples.items() if code not in pairs and sample.found >= 2
    }
    for code, sample in missing.items():
        folder = f"{layout.PAIRS_FOLDER}/{code}"
        old = [join(job.output, folder, name) for name in list_files(join(job.output, folder))]
        delete_many([join(job.output, layout.pairs_record_path(code))])
        delete_many(old)
        plan = PairingPlan(sample=sample.digest, bits=part_bits(sample.found // 2))
        transform = PairSentences(
            output=job.output, seed=job.options.seed, plans={code: plan}, lock=lock
        )
        # One language at a time: a runner on one machine keeps what it shuffles in memory.
        run(
            Stage(
                words=f"Pairing sentences of {code}",
                build=partial(create_and, lanes_of(sample.blocks(job.output)), transform),
            )
        )
        record = _find_pairs(job, sample)
        if record is None:
            raise RuntimeError(f"the pairs of {code} were not written; run the command again")
        pairs[code] = record
    return pairs


def create_and(elements: Sequence[Any], transform: beam.PTransform, root: beam.Pipeline) -> Any:
    """Apply a transform to elements that travel in the job itself."""
    return root | beam.Create(elements) | transform


def spread_and(elements: Sequence[Any], transform: beam.PTransform, root: beam.Pipeline) -> Any:
    """Do the same with the elements spread over the workers first."""
    return root | beam.Create(elements) | beam.Reshuffle() | transform


def _find_pairs(job: BaselineJob, sample: SampleRecord) -> PairsRecord | None:
    """Return the pairs that are there already, if they are those of a sample."""
    try:
        data = read_bytes(join(job.output, layout.pairs_record_path(sample.language)))
    except FileNotFoundError:
        return None
    record = PairsRecord.from_json(data)
    return record if record.sample == sample.digest else None


def score_pairs(
    job: BaselineJob,
    model: BaselineModel,
    pairs: Mapping[str, PairsRecord],
    run: Run,
    lock: RunLock | None = None,
) -> dict[str, Moments]:
    """Score the pairs of every language with one model; what is there is not scored again.

    Returns:
        The sums over all pairs of a language.
    """
    parts = {code: _parts(model, record) for code, record in pairs.items()}
    pending = [part for code in parts for part in _pending(job, model, code, parts[code])]
    if pending:
        waiting = set(pending)
        transform = with_accelerator(
            ScorePairParts(
                config=model.config,
                backend=model.settings.backend_version,
                output=job.output,
                lock=lock,
            ),
            job.options.accelerator,
        )
        rows = {
            part.moments.removeprefix(f"{layout.MOMENTS_FOLDER}/"): record.rows
            for code, record_of in pairs.items()
            for part, record in zip(parts[code], record_of.parts, strict=True)
            if part in waiting
        }
        run(
            Stage(
                words=f"Scoring {sum(rows.values()):,} pairs with {model.name}",
                build=partial(spread_and, pending, transform),
                folder=layout.MOMENTS_FOLDER,
                amounts=rows,
                unit="pairs",
                scores=True,
            )
        )
    return {code: _merge(job, parts[code]) for code in parts}


def _parts(model: BaselineModel, record: PairsRecord) -> list[PairsToScore]:
    digest = digest_of(f"{record.digest} {model.digest}")
    return [pairs_to_score(record.language, model.name, part.name, digest) for part in record.parts]


def _pending(
    job: BaselineJob, model: BaselineModel, language: str, parts: list[PairsToScore]
) -> list[PairsToScore]:
    """Return the parts without sums, and delete sums of other pairs or other settings."""
    folder = layout.moments_folder(language, model.name)
    there = {f"{folder}/{name}" for name in list_files(join(job.output, folder))}
    wanted = {part.moments for part in parts}
    stale = {path for path in there - wanted if path.count("/") == folder.count("/") + 1}
    delete_many([join(job.output, path) for path in sorted(stale)])
    return [part for part in parts if part.moments not in there]


def _merge(job: BaselineJob, parts: list[PairsToScore]) -> Moments:
    """Add up the sums of all parts; integers, so that the order does not matter."""
    paths = [join(job.output, part.moments) for part in parts]
    found = read_many(paths)
    return Moments.merge(
        Moments.from_bytes(_there(data, path), path)
        for data, path in zip(found, paths, strict=True)
    )


def _there(data: Any, path: str) -> bytes:
    if data is None:
        raise RuntimeError(f"the sums {path} were not written; run the command again")
    return bytes(data)

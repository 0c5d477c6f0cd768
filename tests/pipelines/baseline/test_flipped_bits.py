"""A flipped bit in what a baseline run keeps is noticed, or changes no table."""

import random
import shutil

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.baseline import sources
from bertscore_beam.baseline.extract import ReadFile, SentenceIndex, read_rows, write_sentences
from bertscore_beam.crawl.sentences import FILE_SCHEMA
from bertscore_beam.dump.parquet import seal_in, write_part
from bertscore_beam.run.output import BROKEN, DONE, UNUSABLE
from bertscore_core.errors import InputError
from tests.support.crawls import TABLES, read_tables, run_baseline


def flipped(data, bit):
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def sentences_of(number):
    texts = [f"sentence {row} of {number}" for row in range(number)]
    ranks = np.random.default_rng(number).integers(0, 2**63, (3, number), dtype=np.uint64)
    return pa.table([pa.array(texts), *map(pa.array, ranks)], schema=FILE_SCHEMA)


def test_a_flipped_bit_of_a_file_of_sentences_is_noticed_or_changes_nothing(folder, tmp_path):
    path = tmp_path / "sentences"
    record = ReadFile(file="a", bytes=3, sha256="b", retries=[], rows={"en": 0, "de": 0})
    write_sentences(str(path), record, [("en", sentences_of(40)), ("de", sentences_of(30))])
    sound, name = path.read_bytes(), f"{sources.SENTENCES_FOLDER}/x.pq"

    def read():
        index = SentenceIndex(folder)
        index.refresh()
        rows = [
            table.to_pydict()
            for language in record.rows
            for names in (FILE_SCHEMA.names, *zip(FILE_SCHEMA.names))
            for table in read_rows(folder, name, language, names)
        ]
        return index.files("en", ["a"]), rows

    folder.write(name, sound)
    before, noticed, errors = read(), 0, set()
    assert (before[0][name], len(before[1])) == (record, 2 * (1 + len(FILE_SCHEMA)))
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    chance = random.Random(1)
    bits = chance.sample(range(8 * footer), 30)
    bits += chance.sample(range(8 * footer, 8 * len(sound)), 120)
    for bit in bits:
        folder.write(name, flipped(sound, bit))
        try:
            assert read() == before, bit
        except InputError as error:
            errors.add(str(error).partition(": got ")[0] + str(error).rpartition(" wrote it. ")[2])
            noticed += 1
    path = folder.path(name)
    assert errors == {
        f"{path!r} is damaged"
        "Delete it and run the same command again: it reads that file once more."
    }
    assert noticed > 75


def test_a_flipped_bit_of_a_record_or_of_pairs_is_noticed_or_changes_nothing(folder):
    data = write_part(pa.table({"candidate": ["a b", "c"], "reference": ["d", "e f"]}))
    part = sources.PairPart(
        language="en", name="p", rows=2, same_host=0, overlap=[1, 2], seal=seal_in(data)
    )
    how = {"wanted": 4, "host_cap": 1, "listing": "l", "files": {"files": []}, "is_last": True}
    record = sources.PairsRecord(language="en", found=4, sample="s", parts=(part,), **how)
    path = sources.pairs_record_path("en")
    sources.write_record(folder, record)
    sound, noticed = folder.read(path), 0
    for bit in random.Random(2).sample(range(8 * len(sound)), 300):
        folder.write(path, flipped(sound, bit))
        found = sources.read_record(folder, "en")
        assert found in (None, record), bit
        noticed += found is None
    assert noticed > 150
    pairs = sources.pairs_path("en", "p")
    folder.write(pairs, data)
    sound, noticed = sources.read_pairs(folder, pairs, part.seal), 0
    assert sound.num_rows == 2
    for bit in random.Random(2).sample(range(8 * len(data)), 400):
        folder.write(pairs, flipped(data, bit))
        try:
            assert sources.read_pairs(folder, pairs, part.seal).equals(sound), bit
        except InputError as error:
            assert f"Delete '{path}' and run the same command again" in str(error)  # noqa: PT017
            noticed += 1
    assert noticed > 300


@pytest.mark.long
@pytest.mark.job
@pytest.mark.model
def test_tables_of_a_folder_with_a_flipped_bit_are_the_same_or_there_are_none(
    tmp_path, crawl, model, finished, tables, capsys
):
    """Its tables are made again from its sums, from its pairs, or from its sentences."""
    output, chance = tmp_path / "out", random.Random(0)
    for number in range(24):
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(finished, output)
        for name in TABLES:
            (output / name).unlink()
        for gone in ("_moments", "_pairs")[: number % 3]:
            shutil.rmtree(output / gone)
        kinds: dict[tuple[str, str], list] = {}
        for path in sorted(path for path in output.rglob("*") if path.is_file()):
            kinds.setdefault((path.relative_to(output).parts[0], path.suffix), []).append(path)
        path = chance.choice(chance.choice(list(kinds.values())))
        bit = chance.randrange(8 * path.stat().st_size)
        path.write_bytes(flipped(path.read_bytes(), bit))
        where = f"{path.relative_to(output)}, bit {bit}"
        status, said = run_baseline(crawl, output, model), capsys.readouterr().err
        assert status in (DONE, BROKEN, UNUSABLE), where
        assert "Traceback" not in said, where
        if status == DONE:
            assert read_tables(output) == tables, where
        else:
            assert "Delete " in said or "--overwrite" in said, (where, said)

"""A flipped bit below an output folder is noticed, or changes no value that a command shows."""

import json
import random
import shutil
from collections import Counter
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.plan import Imports
from bertscore_beam.dump.read_rows import read_split
from bertscore_beam.files.listing import Stored
from bertscore_beam.idf.idf_tables import IdfTables, load_idf
from bertscore_beam.options.row_options import RowOptions
from bertscore_beam.pages.explain_rows import read_stored, row_config
from bertscore_beam.records.finished import (
    RowPlace,
    check_parts,
    open_finished,
    read_columns,
    read_part_columns,
)
from bertscore_beam.records.lookup import PartsOfInput, find_rows, look_up_in_tables
from bertscore_beam.records.records import IDF_FILE
from bertscore_beam.records.row_scores import SignedRows, read_row_scores
from bertscore_beam.records.score_tables import ScoreTables, delete_tables, list_earlier
from bertscore_beam.run.folder import OutputFolder
from bertscore_beam.run.runner import Runner
from bertscore_beam.score.prepare import plan_score, resume_score
from bertscore_core.errors import BertScoreError
from bertscore_core.model import kept_encoders
from tests.support import mixed
from tests.support.jobs import own
from tests.support.records import records_in

pytestmark = [pytest.mark.model, pytest.mark.job, pytest.mark.process]

SPLIT_ROWS = 20


@pytest.fixture(scope="module")
def scored(tmp_path_factory, tiny_folder):
    """A run of two files, with languages, idf, baselines, groups, metrics and rejects."""
    folder = tmp_path_factory.mktemp("flips")
    table = mixed.mixed_table(80)
    texts = table["candidate"].to_pylist()
    texts[7] = None
    table = table.set_column(table.schema.get_field_index("candidate"), "candidate", [texts])
    dump = mixed.write_mixed(folder / "dump", [table.slice(0, 50)])
    lines = table.slice(50).select(["id", "candidate", "reference", "lang"]).to_pylist()
    (dump / "more.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    mapping = mixed.write_mapping(
        folder / "languages.yaml", mixed.language_entries(tiny_folder, folder)
    )
    more = {
        "idf": "corpus",
        "rescale": True,
        "group_by": ["lang"],
        "metrics": ["chrf"],
        "split_rows": SPLIT_ROWS,
        "max_reject_fraction": 0.5,
        "keep_input": True,
        "workers": 1,
    }
    chosen = mixed.language_options(dump, folder / "out", mapping, **more)
    same = {"languages": mapping, "language_column": "lang", "device": "cpu", **more}
    config = {"input": [str(dump)], "output": str(folder / "out"), **same}
    (folder / "score.yaml").write_text(yaml.safe_dump(config))
    assert cli.main(["score", "--config", str(folder / "score.yaml"), "--quiet"]) == cli.DONE
    return folder, chosen


def rows_of_parts(out):
    """The digests and settings of the rows of each part, with its input and first row."""
    found = []
    folder = OutputFolder(str(out))
    for record in records_in(out).values():
        part = read_row_scores(folder.path(record.part_name), Stored(record.part_bytes, "", ""))
        found.append((record.input_name, record.offset, part))
    return sorted(found, key=lambda one: one[:2])


def reused(out, parts, tables=None):
    """What `--reuse` takes from a run for its own rows; None for a row that is scored again."""
    source = OutputFolder(str(out))
    taken = {}
    for name, first, part in parts:
        rows = np.arange(first, first + len(part.entries))
        digests = np.stack([part.highs, part.entries["low"]], axis=1)
        signed = SignedRows(codes=part.entries["setting"], signatures=part.signatures)
        if tables is None:
            places = [PartsOfInput(source, name, source.each_stored(name)).look_up]
        else:
            listed = list_earlier(tables, source)
            places = [partial(look_up_in_tables, ScoreTables(tables, source, listed), name)]
        found = find_rows(places, rows, digests, signed)
        if tables is not None:
            delete_tables(tables)
        for row, is_found, values, reason in zip(
            rows.tolist(), found.found.tolist(), found.values, found.reasons.tolist(), strict=True
        ):
            taken[name, row] = (values.tobytes(), reason) if is_found else None
    return taken


def kept_plan(out, options):
    """What the same command does next, as far as it reads the folder's plan and records."""
    planned = plan_score(options, Runner.of(options))
    _, diff = resume_score(planned, OutputFolder(str(out)))
    splits = [split.part_name for split in planned.plan.splits]
    return splits, planned.plan.digest, sorted(split.part_name for split in diff.done)


def imported(out, planned):
    """What is read of the imports of a run: footers by file, and rows by part."""
    imports = Imports(folder=str(out), are_made=True)
    splits = [split for split in planned.plan.splits if split.data]
    return {text.key: imports.layout(text) for text in planned.texts} | {
        split.part_name: read_split(split) for split in splits
    }


def readers(out, options, parts_read):
    """What is read of a run, by what reads it. Each gives a value, or a `BertScoreError`."""

    planned = plan_score(options, Runner.of(options))
    parts = sorted(out.glob("[!_]*/*.parquet"))
    names = sorted({name for part in parts for name in pq.read_schema(part).names})

    def tables(finished):
        return [part.table for part in read_columns(finished, names)]

    def stored(finished):
        place = RowPlace(finished.records[0].input_name, 3)
        (row,) = read_stored(finished, [place])
        return row.scores, row.signature, row_config(finished, row, RowOptions()).model

    def finished():
        opened = open_finished(str(out))
        check_parts(opened)
        return opened.notes, opened.summary, opened.records

    return {
        "a finished run": finished,
        "columns": lambda: tables(open_finished(str(out))),
        "a row": lambda: stored(open_finished(str(out))),
        "idf": lambda: load_idf(str(out / IDF_FILE)).to_bytes(),
        "plan": lambda: kept_plan(out, options),
        "imports": lambda: imported(out, planned),
        "same place": lambda: reused(out, parts_read),
        "tables": lambda: reused(out, parts_read, tables=own(out.parent / "tables")),
    }


COMMANDS = (
    ("check", "OUT", "--parts"),
    ("groups", "OUT", "--by", "lang", "--json"),
    ("compare", "OUT", "OTHER", "--by", "lang", "--json"),
    ("report", "OUT", "--against", "OTHER", "--output", "PAGE", "--json"),
)


def shown(words, capsys):
    """The status of a command, and what it prints if it succeeds."""
    status = cli.main(list(words))
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.out if status == cli.DONE else None


@contextmanager
def flipped(path, bit):
    """Flip a bit of a file, and put it back afterwards."""
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << bit % 8
    path.write_bytes(damaged)
    try:
        yield
    finally:
        path.write_bytes(whole)


def same(found, expected):
    """Tell whether what is read after damage is what was read before, apart from what is absent."""
    if isinstance(expected, dict):  # rows that are scored again are no values
        return all(found[row] in (None, value) for row, value in expected.items())
    if isinstance(expected, tuple) and isinstance(expected[0], list):  # what is done next
        splits, digest, done = expected
        return found[:2] == (splits, digest) and set(found[2]) <= set(done)
    return found == expected


LONG = pytest.param(400, marks=[pytest.mark.long, pytest.mark.timeout(1800)])


@pytest.mark.parametrize("flips", [20, LONG])
def test_a_flipped_bit_is_noticed_or_changes_no_value(scored, capsys, flips):
    folder, options = scored
    out, page = folder / "out", str(folder / "page.html")
    other = folder / "other"
    if not other.exists():
        shutil.copytree(out, other)
    parts_read = rows_of_parts(out)
    read = readers(out, options, parts_read)
    before = {name: value() for name, value in read.items()}
    named = {"OUT": str(out), "OTHER": str(other), "PAGE": page}
    commands = [[named.get(word, word) for word in words] for words in COMMANDS]
    printed = [shown(words, capsys) for words in commands]
    assert None not in printed
    paths = sorted(path for path in out.rglob("*") if path.is_file())
    chance = random.Random(flips)
    outcomes = Counter()
    for number in range(flips):
        path = chance.choice(paths)
        bit = chance.randrange(8 * path.stat().st_size)
        with flipped(path, bit):
            where = f"{path.relative_to(out)}, bit {bit}"
            is_noticed = False
            for name, value in read.items():
                if name == "plan" and path.suffix == ".parquet":
                    continue  # a plan takes long, and reads no rows
                if name == "imports" and not {"_input", "imports"} & {*path.parts}:
                    continue
                try:
                    found = value()
                except BertScoreError:
                    is_noticed = True
                    continue
                assert same(found, before[name]), f"{name} shows {where}"
                is_noticed = is_noticed or found != before[name]
            if number % 50 == 0:
                for words, expected in zip(commands, printed, strict=True):
                    assert shown(words, capsys) in (None, expected), f"{words[0]} shows {where}"
        outcomes[path.relative_to(out).parts[0], is_noticed] += 1
    assert sum(number for (_, is_noticed), number in outcomes.items() if is_noticed) > flips / 2


HEADER_BYTES = 40
"""Those of a page's header, and a few more."""


def test_a_flipped_bit_of_the_header_of_a_page_loses_no_row_of_a_column(scored):
    """No checksum covers it: read alone, a column had fewer rows without an error."""
    out = scored[0] / "out"
    run = open_finished(str(out))
    record = run.records[0]
    path, name = out / record.file, "bertscore_f1"
    whole = read_part_columns(run.folder, record, [name])
    group = pq.read_metadata(path).row_group(0)
    (column,) = (
        group.column(index)
        for index in range(group.num_columns)
        if group.column(index).path_in_schema == name
    )
    starts = {column.data_page_offset, column.dictionary_page_offset} - {None}
    noticed = 0
    for bit in (8 * start + bit for start in starts for bit in range(8 * HEADER_BYTES)):
        with flipped(path, bit):
            try:
                assert read_part_columns(run.folder, record, [name]).equals(whole), bit
            except BertScoreError:
                noticed += 1
    assert noticed > HEADER_BYTES


@pytest.mark.parametrize("is_one", [True, False])
def test_a_flipped_bit_of_an_idf_table_is_noticed_or_changes_no_weight(scored, is_one):
    data = (scored[0] / "out" / IDF_FILE).read_bytes()
    tables = IdfTables.from_bytes(data)
    if is_one:
        data = next(iter(tables.tables.values())).to_bytes()
    whole, noticed = IdfTables.from_bytes(data).to_bytes(), 0
    for bit in random.Random(0).sample(range(8 * len(data)), 400):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert IdfTables.from_bytes(bytes(damaged)).to_bytes() == whole, bit
        except BertScoreError:
            noticed += 1
    assert noticed > 200


def test_a_flipped_bit_of_a_kept_encoder_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv(kept_encoders.CACHE_VARIABLE, str(tmp_path))
    chance = random.Random(0)
    for number in range(30):
        with kept_encoders.new_encoder("key", 100) as made:
            made.write_bytes(b"<net/>" * 20)
            made.with_suffix(".bin").write_bytes(bytes(range(200)))
        assert kept_encoders.find_encoder("key", lambda path: path.read_bytes()) is not None
        files = sorted(path for path in (tmp_path / "encoders" / "key").iterdir())
        path = files[number % len(files)]
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        assert kept_encoders.find_encoder("key", lambda path: path.read_bytes()) is None

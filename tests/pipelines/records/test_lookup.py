"""The rows of earlier parts: read from parts, sorted in tables, and found in both."""

import os
import random
import threading
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.dump import columns
from bertscore_beam.dump.digests import RowDigests, digest_texts, key_column
from bertscore_beam.dump.parquet import SETTINGS_KEY
from bertscore_beam.dump.splits import part_name
from bertscore_beam.files.listing import Stored
from bertscore_beam.files.read import in_parallel
from bertscore_beam.records import score_tables
from bertscore_beam.records.lookup import (
    PartsOfInput,
    WantedRows,
    equal_settings,
    find_rows,
    look_up_in_tables,
)
from bertscore_beam.records.record import PartRecord, part_to_bytes
from bertscore_beam.records.row_scores import (
    ENTRY,
    NO_REASON,
    NO_SETTING,
    VALUES,
    ScoreTable,
    SignedRows,
    read_row_scores,
    reasons_of,
)
from bertscore_beam.records.score_tables import (
    TABLES_FOLDER,
    ScoreTables,
    list_earlier,
    map_table,
    table_to_bytes,
)
from bertscore_core.errors import InputError
from bertscore_core.stats.score_statistics import ScoreSummary
from tests.core.test_score_changes import NOW
from tests.support.faults import Faults
from tests.support.jobs import own
from tests.support.records import flip_column
from tests.support.s3 import s3_bucket

OTHER = replace(NOW, num_layers="5")
INPUT = "shard.parquet"


@dataclass(frozen=True, kw_only=True, eq=False)
class MadeUp:
    digests: np.ndarray
    values: np.ndarray
    signed: SignedRows
    reasons: tuple[str, ...]

    def __len__(self):
        return len(self.values)

    @property
    def scored(self):
        return ~np.isnan(self.values["raw_precision"])

    @property
    def table(self):
        entries = np.zeros(len(self), dtype=ENTRY)
        highs, entries["low"] = self.digests.T
        entries["setting"] = self.signed.codes
        for name in VALUES.names:
            entries[name] = self.values[name]
        return ScoreTable(
            highs=highs, entries=entries, signatures=self.signed.signatures, reasons=self.reasons
        )


def made_up(count, seed=0, signatures=(NOW,)):
    """Return rows with random digests and scores, of which some have a reason."""
    random = np.random.default_rng(seed)
    values = np.zeros(count, dtype=VALUES)
    for name in ("raw_precision", "raw_recall", "raw_f1"):
        values[name] = random.random(count, dtype=np.float32)
    values["candidate_tokens"] = random.integers(2, 512, count)
    values["text_tokens"] = values["candidate_tokens"] - 1
    values["unknown_tokens"] = random.integers(0, values["text_tokens"] + 1)
    values["truncated"] = random.random(count) < 0.1
    values["reason"] = np.where(random.random(count) < 0.1, 0, NO_REASON)
    return MadeUp(
        digests=random.integers(0, 2**64, (count, 2), dtype=np.uint64),
        values=values,
        signed=SignedRows(
            codes=random.integers(0, len(signatures), count).astype(np.uint16),
            signatures=tuple(signature.format() for signature in signatures),
        ),
        reasons=("empty_candidate",),
    )


def part_of(rows, name=INPUT, start=0):
    """Return rows as the bytes of a part, as a run without a baseline writes them."""
    values, scored = rows.values, rows.scored
    texts = pa.array(values["text_tokens"])
    table = pa.table(
        {
            "text": ["same"] * len(rows),
            **{
                column: pa.array(values[f"raw_{measure}"], mask=~scored)
                for measure, column in columns.SCORES.items()
            },
            columns.BEST_REFERENCE: values["best_reference"],
            columns.CANDIDATE_TOKENS: values["candidate_tokens"],
            columns.REFERENCE_TOKENS: values["reference_tokens"],
            columns.TEXT_TOKENS: texts,
            columns.UNKNOWN: (values["unknown_tokens"] / values["text_tokens"]).astype(np.float32),
            columns.TRUNCATED: values["truncated"],
            columns.WINDOWS: values["windows"],
            columns.ERROR: pa.array(reasons_of(values["reason"], rows.reasons), pa.string()),
            columns.KEY: key_column(rows.digests),
        }
    ).replace_schema_metadata({SETTINGS_KEY: rows.signed.note()})
    record = PartRecord(
        part_name=part_name(name, start),
        input_name=name,
        row_offset=start,
        num_rows=len(rows),
        file_rows=None,
        file_size=0,
        file_version="",
        digests=RowDigests(references="x", rows="x"),
        job_digest="",
        idf="",
        summary=ScoreSummary(),
    )
    return part_to_bytes(table, record, token="0" * 16)


def store(root, pieces, name=INPUT):
    """Write parts one after the other as those of one input; return the folder."""
    folder, start = own(root), 0
    for piece in pieces:
        folder.write(part_name(name, start), part_of(piece, name, start))
        start += len(piece)
    return folder


def tables_of(source, output=None):
    """Return the tables of a run, which are made in an output folder: by default its own."""
    output = source if output is None else output
    return ScoreTables(output, source, list_earlier(output, source))


def look_up(place, digests, *, start=0, signature=NOW):
    """Look up rows in tables, or in the parts of the input that a folder has."""
    if isinstance(place, ScoreTables):
        where = partial(look_up_in_tables, place, "x")
    else:
        where = PartsOfInput(place, INPUT, place.each_stored(INPUT)).look_up
    positions = np.arange(start, start + len(digests))
    signed = SignedRows.of(len(digests), [(np.arange(len(digests)), signature)])
    return find_rows([where], positions, digests, signed)


def table_files(folder):
    names = [name for name in folder.files(TABLES_FOLDER) if name.endswith(".rows")]
    return {name: folder.read(f"{TABLES_FOLDER}/{name}") for name in sorted(names)}


def same_values(rows, piece):
    assert rows.found.all()
    for name in set(VALUES.names) - {"reason"}:
        assert (rows.values[name] == piece.values[name]).all()
    words = reasons_of(piece.values["reason"], piece.reasons)
    assert rows.reasons.tolist() == words.tolist()


def flipped(data, place, bit):
    """Bytes with one bit changed."""
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


@pytest.mark.parametrize("count", [0, 1, 50])
def test_rows_of_a_part_come_back_as_they_were(tmp_path, count):
    piece = made_up(count, signatures=(NOW, OTHER))
    piece.values["raw_precision"][7:9] = np.nan
    store(tmp_path, [piece])
    path = tmp_path / part_name(INPUT, 0)
    back = read_row_scores(str(path), Stored(path.stat().st_size, "", ""))
    expected = piece.table
    assert (back.highs == expected.highs).all()
    assert back.signatures == expected.signatures
    assert (np.isnan(back.entries["raw_precision"]) == ~piece.scored).all()
    for name in set(ENTRY.names) - {"reason"}:
        assert (back.entries[name] == expected.entries[name])[piece.scored].all()


def test_texts_with_other_references_have_other_keys():
    candidates = pa.chunked_array([["a cat"] * 6])
    references = pa.chunked_array(
        [[["a dog"], ["a dog", "a cow"], ["a cow", "a dog"], ["a dog", None], [], None]]
    )
    assert len(np.unique(digest_texts(candidates, references), axis=0)) == 6
    single = digest_texts(candidates[:1], pa.chunked_array([["a dog"]]))
    assert (single == digest_texts(candidates[:1], references[:1])).all()  # they are scored alike


def test_a_part_with_a_flipped_bit_is_refused_or_gives_the_same_rows(tmp_path):
    """A bit may be in columns that are not read, or in what no value follows from."""
    piece, noticed, chance = made_up(50, signatures=(NOW, OTHER)), 0, random.Random(1)
    folder = store(tmp_path, [piece])
    path = tmp_path / part_name(INPUT, 0)
    data = path.read_bytes()
    for place in range(0, len(data), 11):
        path.write_bytes(flipped(data, place, chance.randrange(8)))
        found = look_up(folder, piece.digests)
        expected = piece.signed.codes == 0
        assert (found.failures, found.found.sum()) in ((0, expected.sum()), (1, 0))
        f1 = found.values["raw_f1"][found.found]
        assert not len(f1) or (f1 == piece.values["raw_f1"][expected]).all()
        noticed += found.failures
    assert noticed > len(data) / 11 / 2


def test_one_damaged_part_costs_no_other(tmp_path):
    pieces = [made_up(20, seed) for seed in range(3)]
    folder = store(tmp_path, pieces)
    flip_column(tmp_path / part_name(INPUT, 20), columns.F1)
    digests = np.concatenate([piece.digests for piece in pieces])
    for place in (folder, tables_of(folder)):
        found = look_up(place, digests)
        assert found.found.reshape(3, 20).all(axis=1).tolist() == [True, False, True]
        assert found.failures == 1


@pytest.mark.parametrize(
    ("most", "rows"), [(1_000_000, [1199]), (1000, [799, 400]), (100, [400, 399, 400])]
)
def test_every_row_is_found_in_tables_whatever_files_are_called(tmp_path, monkeypatch, most, rows):
    monkeypatch.setattr(score_tables, "TABLE_ROWS", most)
    pieces = [made_up(400, seed) for seed in range(3)]
    pieces[1].values["raw_precision"][7] = np.nan  # has no score
    tables = tables_of(store(tmp_path / "n1", pieces), own(tmp_path / "n2"))
    same_values(look_up(tables, pieces[2].digests), pieces[2])
    assert [len(table.entries) for table in tables.each(0)] == rows
    order = np.random.default_rng(9).permutation(400)
    found = look_up(tables, pieces[1].digests[order])
    assert np.flatnonzero(~found.found).tolist() == np.flatnonzero(order == 7).tolist()
    assert not look_up(tables, made_up(400, seed=77).digests).found.any()
    assert not (tmp_path / "n1" / "_work").exists()


def test_rows_are_found_only_under_settings_of_equal_scores(tmp_path):
    piece = made_up(200, signatures=(NOW, OTHER))
    folder = store(tmp_path, [piece])
    newer = replace(NOW, torch="9.0", baseline="custom@1")
    for place in (folder, tables_of(folder)):
        for code, signature in ((0, NOW), (1, OTHER), (0, newer)):
            found = look_up(place, piece.digests, signature=signature)
            assert (found.found == (piece.signed.codes == code)).all()


def test_a_row_is_compared_once_a_setting_however_often_its_texts_repeat(tmp_path, monkeypatch):
    piece, compared, take = made_up(200), [], WantedRows.take

    def counted(wanted, rows, *given):
        compared.append(len(rows))
        return take(wanted, rows, *given)

    piece.digests[:] = piece.digests[0]
    folder = store(tmp_path, [piece])
    monkeypatch.setattr(WantedRows, "take", counted)
    for place in (folder, tables_of(folder)):
        assert not look_up(place, piece.digests, signature=OTHER).found.any()
    assert compared == [200, 200, 200]  # where they were, in that part, in the table


def test_settings_and_reasons_that_parts_number_otherwise_are_those_of_the_rows(tmp_path):
    many = [replace(NOW, idf=f"corpus@{number:08x}") for number in range(20)]
    pieces = [
        made_up(100, seed, signatures=np.random.default_rng(seed).permutation(many).tolist())
        for seed in range(5)
    ]
    pieces = [replace(piece, reasons=(f"reason {seed % 2}",)) for seed, piece in enumerate(pieces)]
    tables = tables_of(store(tmp_path, pieces))
    for piece in pieces:
        own_setting = np.array(piece.signed.signatures)[piece.signed.codes]
        for signature in many[:3]:
            found = look_up(tables, piece.digests, signature=signature)
            assert (found.found == (own_setting == signature.format())).all()
            reasons = reasons_of(piece.values["reason"], piece.reasons)
            assert (found.reasons == reasons)[found.found].all()


def test_more_settings_than_a_part_has_codes_are_compared():
    codes = equal_settings((*(["damaged"] * 70_000), NOW.format()), (NOW.format(),))
    assert np.flatnonzero(codes != NO_SETTING).tolist() == [70_000]


def test_texts_of_two_settings_are_both_found(tmp_path):
    piece = made_up(20, signatures=(NOW, OTHER))
    piece.digests[10:] = piece.digests[:10]
    piece.signed.codes[:10], piece.signed.codes[10:] = 1, 0
    tables = tables_of(store(tmp_path, [piece]))
    for signature, expected in ((NOW, slice(10, 20)), (OTHER, slice(0, 10))):
        found = look_up(tables, piece.digests[:10], signature=signature)
        assert found.found.all()
        assert (found.values["raw_f1"] == piece.values["raw_f1"][expected]).all()


def test_digests_that_share_a_half_are_told_apart(tmp_path):
    piece = made_up(40)
    piece.digests[:30, 0] = 5
    piece.digests[30:, 1] = 6
    tables = tables_of(store(tmp_path, [piece]))
    same_values(look_up(tables, piece.digests), piece)
    strange = piece.digests.copy()
    strange[:, 1] += np.uint64(1)
    assert not look_up(tables, strange).found.any()


def test_row_that_is_there_twice_keeps_the_scores_of_its_own_place(tmp_path):
    piece = made_up(20)
    piece.digests[10:] = piece.digests[:10]
    folder = store(tmp_path, [piece])
    same_values(look_up(folder, piece.digests), piece)
    found = look_up(tables_of(folder), piece.digests)  # elsewhere the first of the two counts
    assert (found.values["raw_f1"] == np.tile(piece.values["raw_f1"][:10], 2)).all()


def test_same_file_cut_and_shifted_otherwise_is_found_without_tables(tmp_path):
    pieces = [made_up(30, seed) for seed in range(4)]
    folder = store(tmp_path, pieces)
    digests = np.concatenate([piece.digests for piece in pieces])
    assert look_up(folder, digests[10:95], start=10).found.all()
    assert look_up(folder, digests[12:95], start=10).found.sum() >= 80
    # A part that ends before the rows is not read any further than its footer.
    path = tmp_path / part_name(INPUT, 90)
    for after in path.parent.iterdir():
        if after != path:
            after.unlink()
    assert not look_up(folder, digests[90:], start=120).found.any()
    assert look_up(folder, digests[90:], start=119).found.all()


@pytest.mark.parametrize("damage", [*range(4), "gone", "a FIFO", "a folder"])
@pytest.mark.parametrize("of_tables", [True, False])
def test_damaged_files_are_no_scores_and_stop_nothing(tmp_path, of_tables, damage):
    """A table that is damaged or gone is made again; nothing else can be in its place."""
    piece = made_up(30)
    folder = store(tmp_path, [piece])
    tables = tables_of(folder)
    same_values(look_up(tables, piece.digests), piece)
    (path,) = tmp_path.rglob("*.rows" if of_tables else "part-*")
    data = path.read_bytes()
    path.unlink()
    if damage == "a FIFO":
        os.mkfifo(path)
    elif damage == "a folder":
        path.mkdir()
    elif damage != "gone":
        path.write_bytes([data[:-8], data[:-3], b"", data[: len(data) // 2]][damage])
    if of_tables:
        again = ScoreTables(folder, folder, tables._list)
        found = look_up(again, piece.digests)
        assert found.found.all() == (damage not in ("a FIFO", "a folder"))
        assert (found.failures > 0) == (damage in ("a FIFO", "a folder"))
    else:
        assert not look_up(folder, piece.digests).found.any()


def test_a_table_with_any_flipped_bit_is_refused(tmp_path):
    data, chance = table_to_bytes([made_up(20, signatures=(NOW, OTHER)).table]), random.Random(1)
    path = tmp_path / "table"
    for place in range(0, len(data), 7):
        path.write_bytes(flipped(data, place, chance.randrange(8)))
        with open(path, "rb") as file, pytest.raises(ValueError, match="than were written"):
            map_table(file)


def test_a_list_of_parts_with_a_flipped_bit_is_refused(tmp_path):
    piece = made_up(20)
    folder = store(tmp_path, [piece])
    tables = tables_of(folder)
    path = tmp_path / tables._list
    path.write_bytes(flipped(path.read_bytes(), 40, 1))
    found = look_up(tables, piece.digests)
    assert (found.found.any(), found.failures) == (False, 1)


def test_of_equal_rows_those_of_the_first_part_count_whoever_makes_the_tables(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(score_tables, "TABLE_ROWS", 20)
    pieces = [made_up(20, seed, signatures=((NOW, OTHER), (NOW,))[seed > 0]) for seed in range(12)]
    pieces[0].signed.codes[:] = 0
    pieces[11].digests[:] = pieces[0].digests
    folder = store(tmp_path, pieces)
    digests = np.concatenate([piece.digests for piece in pieces[:11]])
    f1 = np.concatenate([piece.values["raw_f1"] for piece in pieces[:11]])
    written = []
    for turn in (0, 7):
        tables = tables_of(folder)
        assert not table_files(folder)
        assert len([*tables.each(turn)]) == 12
        found = look_up(tables, digests)
        assert (found.values["raw_f1"] == f1).all()
        written.append(table_files(folder))
        score_tables.delete_tables(folder)
    assert written[0] == written[1]
    assert not folder.files(TABLES_FOLDER)


def test_threads_make_each_table_once(tmp_path, monkeypatch):
    monkeypatch.setattr(score_tables, "TABLE_ROWS", 30)
    pieces = [made_up(30, seed) for seed in range(4)]
    tables, made, lock = tables_of(store(tmp_path, pieces)), [], threading.Lock()
    to_bytes = score_tables.table_to_bytes

    def counted(parts):
        with lock:
            made.append(parts)
        return to_bytes(parts)

    monkeypatch.setattr(score_tables, "table_to_bytes", counted)
    found = in_parallel(lambda piece: look_up(tables, piece.digests), pieces * 3, 6)
    assert all(rows.found.all() for rows in found)
    assert len(made) == 4


def test_a_table_that_cannot_be_written_is_tried_once_and_costs_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(score_tables, "TABLE_ROWS", 30)
    pieces = [made_up(30), made_up(30, 1)]
    tables = tables_of(store(tmp_path, pieces))
    tries, to_bytes = [], score_tables.table_to_bytes

    def failing(parts):
        tries.append(parts)
        if len(tries) == 2:
            raise MemoryError("made up by a test")
        return to_bytes(parts)

    monkeypatch.setattr(score_tables, "table_to_bytes", failing)
    digests = np.concatenate([piece.digests for piece in pieces])
    for _ in range(2):
        found = look_up(tables, digests)
        assert (found.failures, found.found.sum()) == (1, 30)
    assert len(tries) == 2


@pytest.mark.process
@pytest.mark.parametrize("held", [2**30, 1_200_000, 0])
def test_tables_of_an_object_store_are_fetched_once_as_far_as_they_may(monkeypatch, held):
    """Rows of others are not found, and that is counted."""
    monkeypatch.setattr(score_tables, "TABLE_ROWS", 20_000)
    monkeypatch.setattr(score_tables, "HELD_BYTES", held)
    disturbed: list[Faults] = []
    with s3_bucket(disturbed) as url:
        pieces = [made_up(20_000, seed) for seed in range(2)]
        tables, count = tables_of(store(f"{url}/out", pieces), own(f"{url}/next")), 50
        for turn in range(2):
            rows = np.sort(np.random.default_rng(turn).permutation(20_000)[:count])
            digests = np.concatenate(
                [piece.digests[rows] for piece in (*pieces, made_up(20_000, 7))]
            )
            disturbed[0].requests = requests = []
            found = look_up(tables, digests)
            disturbed[0].requests = None
            f1 = np.concatenate([piece.values["raw_f1"][rows] for piece in pieces])
            hits = np.flatnonzero(found.found)
            assert (hits < 2 * count).all()
            assert (found.values["raw_f1"][hits] == f1[hits]).all()
            gets = [path for kind, path in requests if kind == "GET" and ".rows" in path]
            of_tables = min(2, held // (20_000 * score_tables._ROW))
            assert len(gets) == (of_tables if turn == 0 else 0), requests
            assert (len(hits), found.failures) == (count * of_tables, 2 - of_tables)


def test_settings_in_a_note_fit_the_rows():
    signed = made_up(50, signatures=(NOW, OTHER)).signed
    signed.codes[3] = NO_SETTING
    back = SignedRows.of_note(signed.note(), 50)
    assert (back.codes == signed.codes).all()
    for note, rows in ((signed.note(), 51), ("{}", 1), ("[]", 1)):
        with pytest.raises((ValueError, KeyError, TypeError)):
            SignedRows.of_note(note, rows)


def test_what_is_no_part_is_named(tmp_path):
    with pytest.raises(InputError, match="does not hold the scores of rows"):
        read_row_scores(__file__, Stored(os.path.getsize(__file__), "", ""))

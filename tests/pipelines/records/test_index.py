"""The rows of a run under digests: pieces, the index built from them, and look-ups in both."""

import json
import os
import random
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertscore_beam.dump.digests import RowDigests
from bertscore_beam.dump.splits import part_name
from bertscore_beam.files.checked import from_json
from bertscore_beam.files.read import in_parallel, read_bytes
from bertscore_beam.records import index as index_module
from bertscore_beam.records.index import (
    INDEX_FILE,
    INDEX_FOLDER,
    chunks_to_index,
    declare_index,
    index_chunk,
    read_index,
    write_index,
    write_index_file,
)
from bertscore_beam.records.lookup import EarlierRun, equal_settings
from bertscore_beam.records.record import PartRecord
from bertscore_beam.records.row_scores import (
    NO_REASON,
    NO_SETTING,
    VALUES,
    RowScores,
    SignedRows,
    reasons_of,
    rows_file,
    rows_from_bytes,
    rows_to_bytes,
)
from bertscore_beam.run.pool import Pool, opening
from bertscore_core.errors import InputError
from bertscore_core.stats.score_statistics import ScoreSummary
from tests.core.test_score_changes import NOW
from tests.support.faults import Faults
from tests.support.jobs import own
from tests.support.pool_steps import be_killed, lack_memory
from tests.support.s3 import s3_bucket

OTHER = replace(NOW, num_layers="5")
INPUT = "shard.parquet"
ROOT = Path(__file__).resolve().parents[3]


def made_up(count, seed=0, signatures=(NOW,)):
    """Return rows with random digests and scores, of which some have a reason or no score."""
    random = np.random.default_rng(seed)
    values = np.zeros(count, dtype=VALUES)
    for name in ("raw_precision", "raw_recall", "raw_f1"):
        values[name] = random.random(count, dtype=np.float32)
    values["candidate_tokens"] = random.integers(2, 512, count)
    values["text_tokens"] = values["candidate_tokens"] - 2
    values["unknown_tokens"] = random.integers(0, values["text_tokens"] + 1)
    values["truncated"] = random.random(count) < 0.1
    values["reason"] = np.where(random.random(count) < 0.1, 0, NO_REASON)
    return RowScores(
        digests=random.integers(0, 2**64, (count, 2), dtype=np.uint64),
        values=values,
        signed=SignedRows(
            codes=random.integers(0, len(signatures), count).astype(np.uint16),
            signatures=tuple(signature.format() for signature in signatures),
        ),
        reasons=("empty_candidate",),
    )


def store(folder, pieces, input_name=INPUT):
    """Write pieces one after the other as those of one input; return the names of their parts."""
    names, start = [], 0
    for piece in pieces:
        names.append(part_name(input_name, start))
        folder.write(rows_file(names[-1]), rows_to_bytes(piece))
        start += len(piece)
    return names


def parts_of(names, rows, content="x"):
    """Return the records of parts, each of so many rows."""
    record = PartRecord(
        part_name="",
        input_name=INPUT,
        row_offset=0,
        num_rows=rows,
        file_rows=None,
        file_size=0,
        file_version="",
        digests=RowDigests(candidates=content, references=content, rows=content),
        job_digest="",
        idf="",
        summary=ScoreSummary(),
    )
    return [replace(record, part_name=name) for name in names]


def indexed(tmp_path, *pieces):
    """Return a folder with pieces and their index, and the names of their parts."""
    folder = own(tmp_path / "out")
    names = store(folder, pieces)
    write_index(folder, parts_of(names, len(pieces[0])))
    return folder, names


def files_of(folder):
    return {name: folder.read(f"{INDEX_FOLDER}/{name}") for name in folder.files(INDEX_FOLDER)}


def look_up(run, digests, *, name="gone.parquet", start=0, signature=NOW):
    """Look up rows in a folder, or in the same earlier run again."""
    earlier = run if isinstance(run, EarlierRun) else EarlierRun(run.root)
    positions = np.arange(start, start + len(digests))
    signed = SignedRows.of(len(digests), [(np.arange(len(digests)), signature)])
    return earlier.find(name, positions, digests, signed)


def same_values(rows, piece):
    assert rows.found.all()
    for name in set(VALUES.names) - {"reason"}:
        assert (rows.values[name] == piece.values[name]).all()
    words = reasons_of(piece.values["reason"], piece.reasons)
    assert rows.reasons.tolist() == words.tolist()


def test_pieces_come_back_as_they_were_and_damage_is_named():
    piece = made_up(50, signatures=(NOW, OTHER))
    data = rows_to_bytes(piece)
    assert data == rows_to_bytes(rows_from_bytes(data, "x"))
    back = rows_from_bytes(data, "x")
    assert (back.digests == piece.digests).all()
    assert (back.values == piece.values).all()
    assert (back.signed.codes == piece.signed.codes).all()
    assert (back.signed.signatures, back.reasons) == (piece.signed.signatures, piece.reasons)
    with pytest.raises(InputError, match="'x' does not hold the scores of rows"):
        rows_from_bytes(data[:-20], "x")


def flipped(data, place, bit):
    """Bytes with one bit changed."""
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def test_a_piece_with_any_flipped_bit_is_refused():
    """Also one without its digest, which is no piece of a version that wrote none."""
    data, random_bits = (rows_to_bytes(made_up(50, signatures=(NOW, OTHER))), random.Random(1))
    for place in range(len(data)):
        with pytest.raises(InputError, match="does not hold the scores of rows"):
            rows_from_bytes(flipped(data, place, random_bits.randrange(8)), "x")
    with pytest.raises(InputError, match="does not hold the scores of rows"):
        rows_from_bytes(data[:-32], "x")


def test_an_index_entry_with_any_flipped_bit_is_not_taken_and_counted(tmp_path):
    """Or the bit was in its key, or made it another row: then it is not found."""
    failures, random_bits = 0, random.Random(1)
    piece = made_up(3)
    folder, _ = indexed(tmp_path, piece)
    (rows,) = (tmp_path / "out").rglob("*.rows")
    sound, width = rows.read_bytes(), index_module.ROW.itemsize
    sorted_digests = piece.digests[np.argsort(piece.digests[:, 0])]
    for place in range(len(sound)):
        rows.write_bytes(flipped(sound, place, random_bits.randrange(8)))
        rows_found = look_up(folder, sorted_digests)
        assert np.flatnonzero(~rows_found.found).tolist() == [place // width]
        failures += rows_found.failures
    is_checked = width - 10  # all but the low half and the setting, which make it another row
    assert failures == 3 * is_checked


def test_an_index_whose_description_has_a_flipped_bit_is_no_other_index(tmp_path):
    """Some bits change nothing that is read, such as white space between two values."""
    folder, _ = indexed(tmp_path, made_up(3, signatures=(NOW, OTHER)))
    about, index = tmp_path / "out" / INDEX_FILE, read_index(folder)
    sound, random_bits = about.read_bytes(), random.Random(1)
    for place in range(len(sound)):
        about.write_bytes(flipped(sound, place, random_bits.randrange(8)))
        assert read_index(folder) in (None, index)


def test_one_damaged_piece_costs_no_other(tmp_path):
    pieces = [made_up(20, seed) for seed in range(3)]
    folder = own(tmp_path / "out")
    names = store(folder, pieces)
    path = tmp_path / "out" / rows_file(names[1])
    path.write_bytes(flipped(path.read_bytes(), 100, 3))
    digests = np.concatenate([piece.digests for piece in pieces])
    found = look_up(folder, digests, name=INPUT).found
    assert found.reshape(3, 20).all(axis=1).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("file_rows", "files"), [(1_000_000, [1199]), (1000, [799, 400]), (100, [400, 399, 400])]
)
def test_every_row_is_found_in_the_index_whatever_files_are_called(
    tmp_path, monkeypatch, file_rows, files
):
    monkeypatch.setattr(index_module, "FILE_ROWS", file_rows)
    pieces = [made_up(400, seed) for seed in range(3)]
    pieces[1].values["raw_precision"][7] = np.nan  # has no score
    folder, _ = indexed(tmp_path, *pieces)
    assert [file.rows for file in read_index(folder).files] == files
    same_values(look_up(folder, pieces[2].digests), pieces[2])
    order = np.random.default_rng(9).permutation(400)
    found = look_up(folder, pieces[1].digests[order])
    assert np.flatnonzero(~found.found).tolist() == np.flatnonzero(order == 7).tolist()
    assert not look_up(folder, made_up(400, seed=77).digests).found.any()


def test_rows_are_found_only_under_settings_of_equal_scores(tmp_path):
    piece = made_up(200, signatures=(NOW, OTHER))
    folder, _ = indexed(tmp_path, piece)
    assert set(read_index(folder).signatures) == {NOW.format(), OTHER.format()}
    for name in ("gone.parquet", INPUT):
        for code, signature in enumerate((NOW, OTHER)):
            found = look_up(folder, piece.digests, name=name, signature=signature)
            assert (found.found == (piece.signed.codes == code)).all()
    newer = replace(NOW, torch="9.0", baseline="custom@1")
    assert look_up(folder, piece.digests, signature=newer).found.sum() == sum(
        piece.signed.codes == 0
    )


def test_words_are_written_once_and_settings_compared_once_for_all_files(tmp_path, monkeypatch):
    """Files number the words in the order in which their rows have them."""
    monkeypatch.setattr(index_module, "FILE_ROWS", 100)
    many = [replace(NOW, idf=f"corpus@{number:08x}") for number in range(20)]
    pieces = [
        made_up(100, seed, signatures=np.random.default_rng(seed).permutation(many).tolist())
        for seed in range(5)
    ]
    pieces = [replace(piece, reasons=(f"reason {seed % 2}",)) for seed, piece in enumerate(pieces)]
    folder, _ = indexed(tmp_path, *pieces)
    about = folder.read(INDEX_FILE).decode()
    words = [*(one.format() for one in many), "reason 0", "reason 1"]
    assert [about.count(json.dumps(word)) for word in words] == [1] * 22
    equal_settings.cache_clear()
    for piece in pieces:
        own_setting = np.array(piece.signed.signatures)[piece.signed.codes]
        for signature in many[:3]:
            found = look_up(folder, piece.digests, signature=signature)
            assert (found.found == (own_setting == signature.format())).all()
            reasons = reasons_of(piece.values["reason"], piece.reasons)
            assert (found.reasons == reasons)[found.found].all()
    assert equal_settings.cache_info().misses == 3


def test_more_settings_than_a_file_has_codes_are_compared():
    codes = equal_settings((*(["damaged"] * 70_000), NOW.format()), (NOW.format(),))
    assert np.flatnonzero(codes != NO_SETTING).tolist() == [70_000]


def test_texts_of_two_settings_are_both_found(tmp_path):
    piece = made_up(20, signatures=(NOW, OTHER))
    piece.digests[10:] = piece.digests[:10]
    piece.signed.codes[:10], piece.signed.codes[10:] = 1, 0
    folder, _ = indexed(tmp_path, piece)
    for signature, expected in ((NOW, slice(10, 20)), (OTHER, slice(0, 10))):
        found = look_up(folder, piece.digests[:10], signature=signature)
        assert found.found.all()
        assert (found.values["raw_f1"] == piece.values["raw_f1"][expected]).all()


def test_digests_that_share_a_half_are_told_apart(tmp_path):
    piece = made_up(40)
    piece.digests[:30, 0] = 5
    piece.digests[30:, 1] = 6
    folder, _ = indexed(tmp_path, piece)
    same_values(look_up(folder, piece.digests), piece)
    strange = piece.digests.copy()
    strange[:, 1] += np.uint64(1)
    assert not look_up(folder, strange).found.any()


def test_row_that_is_there_twice_keeps_the_scores_of_its_own_place(tmp_path):
    folder = own(tmp_path / "out")
    piece = made_up(20)
    piece.digests[10:] = piece.digests[:10]
    store(folder, [piece])
    assert not look_up(folder, piece.digests).found.any()  # no index yet
    same_values(look_up(folder, piece.digests, name=INPUT), piece)
    folder, _ = indexed(tmp_path, piece)
    found = look_up(folder, piece.digests)  # elsewhere the first of the two counts
    assert (found.values["raw_f1"] == np.tile(piece.values["raw_f1"][:10], 2)).all()


def test_same_file_cut_and_shifted_otherwise_is_found_without_an_index(tmp_path):
    folder = own(tmp_path / "out")
    pieces = [made_up(30, seed) for seed in range(4)]
    store(folder, pieces)
    digests = np.concatenate([piece.digests for piece in pieces])
    assert look_up(folder, digests[10:95], name=INPUT, start=10).found.all()
    assert look_up(folder, digests[12:95], name=INPUT, start=10).found.sum() >= 80
    assert not look_up(folder, digests, name="other.parquet").found.any()


def test_index_is_built_once_and_replaced_when_parts_change(tmp_path):
    piece = made_up(30)
    folder, names = indexed(tmp_path, piece)
    files = folder.files(INDEX_FOLDER)
    before = (tmp_path / "out" / INDEX_FILE).stat().st_mtime_ns
    for left in ("0123", chunks_to_index(folder, parts_of(names, 30, "y"))[0].index):
        folder.write(f"{INDEX_FOLDER}/{left}/00007.keys", b"")  # as by a run that was cut off
    folder, _ = indexed(tmp_path, piece)
    assert (tmp_path / "out" / INDEX_FILE).stat().st_mtime_ns == before
    assert folder.files(INDEX_FOLDER) == files
    write_index(folder, parts_of(names[:1], 30, "y"))
    assert len(folder.files(INDEX_FOLDER)) == len(files) == 2
    assert not files.keys() & folder.files(INDEX_FOLDER).keys()


NO_INDEX = {
    "no JSON": "{",
    "deep": "[" * 200_000,
    "a list": "[1]",
    "null": "null",
    "a number": "1",
    **{
        f"{name} is {value!r:.30}": {name: value}
        for name, values in {
            "format": [99, None],
            "id": ["..", "a\0b", None],
            "files": [
                *([], ["x"], [{}], {}, None),
                *(
                    [{"number": 0, "rows": 30, "signatures": [NOW.format()], "reasons": []} | wrong]
                    for wrong in (
                        {"number": 1},
                        {"number": None},
                        {"signatures": None},
                        {"signatures": [[]]},
                        {"reasons": None},
                        {"reasons": ["x"] * 300},
                        *({"rows": rows} for rows in ([], "x", -1, 1e400, None, 31)),
                    )
                ),
            ],
        }.items()
        for value in values
    },
}
"""What may be in the place of `index.json`: a whole text, or other values in it."""


@pytest.mark.parametrize("content", NO_INDEX.values(), ids=NO_INDEX)
def test_damaged_index_finds_nothing_and_stops_nothing(tmp_path, content):
    piece = made_up(30)
    folder, _ = indexed(tmp_path, piece)
    about = tmp_path / "out" / INDEX_FILE
    sound = from_json(about.read_bytes())
    about.write_text(content if isinstance(content, str) else json.dumps(sound | content))
    assert not look_up(folder, piece.digests).found.any()
    same_values(look_up(folder, piece.digests, name=INPUT), piece)


def test_an_index_that_is_a_fifo_is_not_waited_for(tmp_path):
    folder, _ = indexed(tmp_path, made_up(30))
    about = tmp_path / "out" / INDEX_FILE
    about.unlink()
    os.mkfifo(about)
    assert not look_up(folder, made_up(30).digests).found.any()


@pytest.mark.parametrize("suffix", [".keys", ".rows", ".pq"])
@pytest.mark.parametrize("damage", [*range(4), "gone", "a FIFO", "a folder"])
def test_damaged_files_are_no_scores_and_stop_nothing(tmp_path, suffix, damage):
    """Those of the index and of its pieces."""
    piece = made_up(30)
    folder, _ = indexed(tmp_path, piece)
    for path in (tmp_path / "out").rglob(f"*{suffix}"):
        data = path.read_bytes()
        path.unlink()
        if damage == "a FIFO":
            os.mkfifo(path)
        elif damage == "a folder":
            path.mkdir()
        elif damage != "gone":
            path.write_bytes([data[:-8], data[:-3], b"", data[: len(data) // 2]][damage])
    is_piece = suffix == ".pq"
    assert look_up(folder, piece.digests).found.all() == is_piece
    (tmp_path / "out" / INDEX_FILE).unlink()
    assert look_up(folder, piece.digests, name=INPUT).found.all() != is_piece


@pytest.mark.parametrize(("damage", "times"), [(b"torn", 1), (None, 3)])
def test_damaged_file_of_an_object_store_is_fetched_once(tmp_path, monkeypatch, damage, times):
    """A missing one is asked for again: the store may only have been out of reach."""
    piece, fetched, read = made_up(30), [], read_bytes
    folder, _ = indexed(tmp_path, piece)
    (keys,) = (tmp_path / "out").rglob("*.keys")
    sound = keys.read_bytes()
    keys.unlink()
    if damage is not None:
        keys.write_bytes(damage)
    monkeypatch.setattr(index_module, "is_remote", lambda _: True)
    monkeypatch.setattr(index_module, "read_bytes", lambda path: fetched.append(path) or read(path))
    earlier = EarlierRun(folder.root)
    for _ in range(3):
        assert not look_up(earlier, piece.digests).found.any()
    of_index = [path for path in fetched if f"/{INDEX_FOLDER}/" in path]
    assert of_index == [str(keys)] * times
    keys.write_bytes(sound)
    assert look_up(earlier, piece.digests).found.all() == (damage is None)


@pytest.mark.parametrize("suffix", [".keys", ".rows"])
def test_of_equal_rows_those_of_the_first_part_count_and_a_damaged_file_costs_no_other(
    tmp_path, monkeypatch, suffix
):
    monkeypatch.setattr(index_module, "FILE_ROWS", 20)
    pieces = [made_up(20, seed, signatures=((NOW, OTHER), (NOW,))[seed > 0]) for seed in range(12)]
    pieces[0].signed.codes[:] = 0
    pieces[11].digests[:] = pieces[0].digests
    folder, _ = indexed(tmp_path, *pieces)
    digests = np.concatenate([piece.digests for piece in pieces[:11]])
    f1 = np.concatenate([piece.values["raw_f1"] for piece in pieces])
    found = look_up(folder, digests)
    assert found.found.all()
    assert (found.values["raw_f1"] == f1[:220]).all()
    for number in (0, 4):
        (path,) = (tmp_path / "out").rglob(f"{number:05}{suffix}")
        path.write_bytes(b"torn")
    found = look_up(folder, digests)
    assert (found.failures, found.found.reshape(11, 20).all(axis=1).sum()) == (2, 10)
    assert not found.found[80:100].any()
    assert (found.values["raw_f1"][:20] == f1[220:]).all()


def test_every_machine_writes_the_same_bytes_whatever_comes_first(tmp_path, monkeypatch):
    """As runners do that hand the pieces over in any order, and repeat bundles."""
    monkeypatch.setattr(index_module, "FILE_ROWS", 140)
    folder = own(tmp_path / "out")
    pieces = [made_up(70, seed, ((NOW, OTHER), (OTHER,))[seed % 2]) for seed in range(6)]
    pieces[1].digests[:50] = pieces[0].digests[:50]
    pieces[1].values["raw_f1"][:] = pieces[0].values["raw_f1"]
    pieces[5] = replace(pieces[5], reasons=("another",))
    parts = parts_of(store(folder, pieces), 70)
    chunks = chunks_to_index(folder, parts)
    assert [len(chunk.parts) for chunk in chunks] == [2] * 3
    write_index(folder, parts)
    files, about = files_of(folder), folder.read(INDEX_FILE)
    index = read_index(folder)
    assert [len(file.reasons) for file in index.files] == [1, 1, 2]
    assert index.files[0].rows < 140  # of equal texts and settings the first ones count
    assert chunks_to_index(folder, parts) == []
    write_index(folder, parts)
    for turn in range(2):
        folder.delete(INDEX_FILE)
        random.Random(turn).shuffle(chunks)
        write_index_file(folder, chunks[0])
        declare_index(folder, [write_index_file(folder, chunk) for chunk in chunks])
        assert (files_of(folder), folder.read(INDEX_FILE)) == (files, about)


@pytest.mark.process
def test_the_processes_of_a_run_build_the_index_of_one(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "FILE_ROWS", 70)
    pieces = [made_up(70, seed, (NOW, OTHER)) for seed in range(5)]
    folder, names = indexed(tmp_path, *pieces)
    files, about = files_of(folder), folder.read(INDEX_FILE)
    folder.delete(INDEX_FILE)
    with opening(Pool(1, restarts=0, at_once=2)):
        write_index(folder, parts_of(names, 70))
    assert (files_of(folder), folder.read(INDEX_FILE)) == (files, about)
    assert len(files) == 10


@pytest.mark.process
@pytest.mark.parametrize("write", [write_index_file, be_killed, lack_memory])
def test_index_that_cannot_be_written_stops_nothing_and_no_other_stays(
    tmp_path, monkeypatch, caplog, write
):
    """That of an earlier run would speak of other settings; here a folder is in the way."""
    pieces = [made_up(30), made_up(30, 1)]
    folder, names = indexed(tmp_path, *pieces)
    monkeypatch.setattr(index_module, "FILE_ROWS", 30)
    parts = parts_of(names, 30, "y")
    _, last = chunks_to_index(folder, parts)
    folder.write(f"{INDEX_FOLDER}/{last.index}/00001.rows/in-the-way", b"")
    monkeypatch.setattr(index_module, "write_index_file", write)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'pipelines'}")
    with opening(Pool(1, restarts=0)):
        write_index(folder, parts)
    assert "index_not_written" in caplog.text
    words = {write_index_file: "00001.rows", be_killed: "killed", lack_memory: "Memory"}
    assert words[write] in caplog.text
    assert (read_index(folder), files_of(folder)) == (None, {})
    same_values(look_up(folder, pieces[0].digests, name=INPUT), pieces[0])


@pytest.mark.parametrize("by_service", [False, True])
def test_few_files_are_written_at_the_same_time(tmp_path, monkeypatch, by_service):
    """They take the memory, however many processes or threads a run has."""
    monkeypatch.setattr(index_module, "FILE_ROWS", 30)
    folder = own(tmp_path / "out")
    parts = parts_of(store(folder, [made_up(30, seed) for seed in range(8)]), 30)
    writing, counts, write, lock = [], [], write_index_file, threading.Lock()

    def write_slowly(folder, chunk):
        with lock:
            writing.append(chunk)
            counts.append(len(writing))
        time.sleep(0.02)
        written = write(folder, chunk)
        with lock:
            writing.remove(chunk)
        return written

    monkeypatch.setattr(index_module, "write_index_file", write_slowly)
    monkeypatch.setattr(index_module.pool, "ask", lambda function, *given: function(*given))
    if by_service:
        chunks = chunks_to_index(folder, parts)
        written = in_parallel(lambda chunk: next(index_chunk(folder, chunk)), chunks)
        declare_index(folder, written)
    else:
        with opening(Pool(4, restarts=0, at_once=4)):
            write_index(folder, parts)
    assert (max(counts), len(read_index(folder).files)) == (2, 8)


@pytest.mark.process
@pytest.mark.parametrize("held", [2**30, 1_250_000, 0])
def test_files_of_an_object_store_are_fetched_once_as_far_as_they_may(monkeypatch, held):
    monkeypatch.setattr(index_module, "FILE_ROWS", 20_000)
    monkeypatch.setattr(index_module, "HELD_BYTES", held)
    disturbed: list[Faults] = []
    with s3_bucket(disturbed) as url:
        folder = own(f"{url}/out")
        pieces = [made_up(20_000, seed) for seed in range(2)]
        write_index(folder, parts_of(store(folder, pieces), 20_000))
        earlier, count = EarlierRun(folder.root), 50
        for turn in range(2):
            rows = np.sort(np.random.default_rng(turn).permutation(20_000)[:count])
            digests = np.concatenate(
                [piece.digests[rows] for piece in (*pieces, made_up(20_000, 7))]
            )
            disturbed[0].requests = requests = []
            found = look_up(earlier, digests)
            disturbed[0].requests = None
            f1 = np.concatenate([piece.values["raw_f1"][rows] for piece in pieces])
            hits = np.flatnonzero(found.found)
            assert (hits < 2 * count).all()
            assert (found.values["raw_f1"][hits] == f1[hits]).all()
            of_index = [path for _, path in requests if ".keys" in path or ".rows" in path]
            assert len(requests) - len(of_index) <= (4 if turn == 0 else 0)
            files = min(2, held // 1_200_000)  # each pair takes as many bytes
            assert len(of_index) == (2 * files if turn == 0 else 0)
            assert len(hits) == count * files

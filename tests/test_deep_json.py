"""JSON that others wrote may nest deeper than can be read: every reader takes it as damaged."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.baseline.table_difference import read_table
from bertscore_beam.dump import columns
from bertscore_beam.dump.parquet import write_part
from bertscore_beam.dump.plan_file import plan_from_bytes
from bertscore_beam.idf.counting import count_from_bytes
from bertscore_beam.idf.idf_tables import IdfTables
from bertscore_beam.records.record import record_from_json
from bertscore_beam.run.folder import RUN_FILE, OutputFolder, read_run
from bertscore_beam.run.neighbours import check_stands_alone
from bertscore_core import (
    ConfigError,
    IdfError,
    InputError,
    ModelLoadError,
    Moments,
    SignatureError,
    UnknownModelError,
)
from bertscore_core.baseline import read_made_with
from bertscore_core.errors import load_json
from bertscore_core.model.resolve import read_json, resolve_model
from bertscore_core.registry import parse_layers

DEEP = b"[" * 200_000
ROOT = Path(__file__).parents[1]


def in_arrays(**more):
    buffer = io.BytesIO()
    np.savez(buffer, head=np.frombuffer(DEEP, dtype=np.uint8), **more)
    return buffer.getvalue()


def in_set():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("tables.json", DEEP)
    return b"bertscore-idf-set/1\n" + buffer.getvalue()


def in_parquet(key):
    return write_part(pa.table({"x": [1]}).replace_schema_metadata({key: DEEP}))


def model_with(folder, **contents):
    weights = (2).to_bytes(8, "little") + b"{}"
    files = {"config.json": b'{"model_type": "bert"}', "model.safetensors": weights} | contents
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return resolve_model(str(folder))


def table_beside(folder):
    (folder / "en.tsv").write_text("LAYER,P,R,F\n0,0.1,0.1,0.1\n")
    (folder / "en.json").write_bytes(DEEP)
    return str(folder / "en.tsv")


def run_in(folder):
    (folder / RUN_FILE).write_bytes(DEEP)
    return OutputFolder(str(folder))


DAMAGED = {
    "any": (lambda _: load_json(DEEP), ValueError, "brackets within brackets"),
    "a file of layers": (
        lambda _: parse_layers(DEEP, "x"),
        ConfigError,
        "x is not a file of layers",
    ),
    "a model's configuration": (
        lambda folder: model_with(folder, **{"config.json": DEEP}),
        UnknownModelError,
        "no readable config.json",
    ),
    "a header of weights": (
        lambda folder: model_with(
            folder, **{"model.safetensors": len(DEEP).to_bytes(8, "little") + DEEP}
        ).loaded_bytes(),
        ModelLoadError,
        "no readable safetensors header",
    ),
    "a table's description": (
        lambda folder: read_table(table_beside(folder)),
        ConfigError,
        "does not describe a baseline table",
    ),
    "_run.json": (lambda folder: read_run(run_in(folder)), SignatureError, "is damaged"),
    "an idf table": (lambda _: IdfTables.from_bytes(in_arrays()), IdfError, "is not an idf table"),
    "a count": (lambda _: count_from_bytes(in_set()), IdfError, "a count is damaged"),
    "sums of scores": (lambda _: Moments.from_bytes(in_arrays()), InputError, "holds no sums"),
    "a plan": (
        lambda _: plan_from_bytes(in_parquet("bertscore.plan"), "x"),
        InputError,
        "is not a plan",
    ),
}
"""Readers that refuse a damaged file, with the error."""

LEFT_OUT = {
    "a table's maker": (lambda _: read_made_with(DEEP), None),
    "a model's list of parts": (
        lambda folder: model_with(folder, **{"modules.json": DEEP}).config,
        {"model_type": "bert"},
    ),
    "other files of a model": (lambda folder: read_json(run_in(folder) and folder / RUN_FILE), {}),
    "a run above": (lambda folder: check_stands_alone(run_in(folder).path("out"), []), None),
    "an object of a folder": (lambda folder: run_in(folder).read_json(RUN_FILE), {}),
    "a record": (lambda _: record_from_json(DEEP), None),
    "Spark's columns": (lambda _: columns.describe_columns({columns.SCHEMA_KEY: DEEP}, []), {}),
}
"""Readers that go on without a damaged file, with what they return."""


@pytest.mark.parametrize(("read", "error", "words"), DAMAGED.values(), ids=DAMAGED)
def test_deep_nesting_is_refused_as_damage_is(tmp_path, read, error, words):
    with pytest.raises(error, match=words):
        read(tmp_path)


@pytest.mark.parametrize(("read", "expected"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_deep_nesting_is_left_out_as_damage_is(tmp_path, read, expected):
    assert read(tmp_path) == expected

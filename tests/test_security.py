"""What comes from outside runs no code, and what is inside does not get out.

Models, tables and configs that would make a file if they were trusted; a canary in every text,
looked for in everything a run says and writes; passwords in addresses and flags; hostile names.
"""

import json
import os
import pickle
import posixpath
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, strategies as st
from safetensors.torch import load_file

from bertscore_beam.cli import main as cli
from bertscore_beam.dump.input_names import input_names
from bertscore_beam.dump.splits import part_name
from bertscore_beam.files.listing import HIDDEN_PREFIXES
from bertscore_beam.files.paths import join
from bertscore_beam.options.values import load_yaml
from bertscore_core import BertScorer, ConfigError, IdfError, IdfTable, ModelLoadError, ScorerConfig
from tests.support.dumps import pair_rows, write_dump
from tests.support.s3 import over_http, s3_bucket

CANARY = "zqcanaryqz"
SECRET = "hunter2hunter2"


class MakesAFile:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def model_folder(tiny_folder, tmp_path) -> Path:
    """Return a copy of a tiny model that a test may change."""
    return Path(shutil.copytree(tiny_folder("bert"), tmp_path / "model"))


def tiny_config(folder: Path, **changes) -> ScorerConfig:
    return ScorerConfig(model=str(folder), num_layers=1, max_length=32, device="cpu", **changes)


def change_json(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_trap_springs_when_it_is_trusted(tmp_path):
    """The tests below can fail."""
    pickle.loads(pickle.dumps(MakesAFile(tmp_path / "mark")))  # noqa: S301
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("safe", "allowed", "words"),
    [
        (None, False, "allow them with allow_pickle_weights"),
        (b"nothing", False, "got no readable safetensors header"),
        # torch refuses anything but tensors; older torch would have run it.
        (None, True, "cannot be loaded"),
    ],
    ids=["unasked", "beside a broken safe file", "allowed, and read as weights alone"],
)
def test_pickled_weights_run_nothing(model_folder, tmp_path, safe, allowed, words):
    weights = load_file(model_folder / "model.safetensors")
    (model_folder / "model.safetensors").unlink()
    trapped = {**weights, "trap": MakesAFile(tmp_path / "mark")}
    torch.save(trapped, model_folder / "pytorch_model.bin")
    if safe is not None:
        (model_folder / "model.safetensors").write_bytes(safe)
    with pytest.raises(ModelLoadError, match=words):
        BertScorer(tiny_config(model_folder, allow_pickle_weights=allowed))
    assert not (tmp_path / "mark").exists()


CODE = """
from pathlib import Path
from transformers import BertConfig, BertModel
Path({mark!r}).touch()

class OwnConfig(BertConfig):
    model_type = "own"

class OwnModel(BertModel):
    config_class = OwnConfig
"""


@pytest.fixture
def model_with_code(model_folder, tmp_path, monkeypatch):
    """Return a model of an unknown architecture with code that makes a file, and that file."""
    mark = tmp_path / "mark"
    change_json(
        model_folder / "config.json",
        model_type="own",
        auto_map={"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"},
    )
    (model_folder / "own.py").write_text(CODE.format(mark=str(mark)))
    # Where transformers copies the code to before it runs it.
    modules = tmp_path / "modules"
    modules.mkdir()
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(modules))
    monkeypatch.setattr(sys, "path", [*sys.path, str(modules)])
    return model_folder, mark


def test_code_that_comes_with_a_model_is_refused(model_with_code):
    folder, mark = model_with_code
    with pytest.raises(ModelLoadError, match=r"comes with code of its own, of which nothing was"):
        BertScorer(tiny_config(folder))
    assert not mark.exists()


def test_code_that_comes_with_a_model_runs_when_asked_for_by_name(model_with_code):
    folder, mark = model_with_code
    scorer = BertScorer(tiny_config(folder, trust_remote_code=True))
    assert type(scorer.encoder.model).__name__ == "OwnModel"
    assert mark.exists()


def test_the_job_has_no_way_to_ask_for_code(capsys, tmp_path):
    flags = ["--input", "in", "--output", str(tmp_path), "--trust-remote-code"]
    assert cli.main(["score", *flags]) == cli.UNUSABLE
    assert "unknown argument '--trust-remote-code'" in capsys.readouterr().err


def test_code_of_a_known_architecture_is_left_alone(model_with_code):
    folder, mark = model_with_code
    change_json(folder / "config.json", model_type="bert")
    scorer = BertScorer(tiny_config(folder, backend="torch"))
    assert type(scorer.encoder.model).__name__ == "BertModel"
    assert not mark.exists()


def test_pickles_in_an_idf_table_are_refused(tmp_path):
    mark, path = tmp_path / "mark", tmp_path / "table.npz"
    trap = np.array([MakesAFile(mark)], dtype=object)
    np.savez(path, head=trap, ids=trap, counts=trap)
    with pytest.raises(IdfError, match="is not an idf table"):
        IdfTable.from_bytes(path.read_bytes())
    np.save(tmp_path / "table.npy", trap)
    for data in ((tmp_path / "table.npy").read_bytes(), pickle.dumps(MakesAFile(mark))):
        with pytest.raises(IdfError, match=r"it is no \.npz archive"):
            IdfTable.from_bytes(data)
    assert not mark.exists()


@pytest.mark.parametrize("tag", ["!!python/object/apply:pathlib.Path.touch", "!!python/name:os."])
def test_python_in_yaml_is_refused(tmp_path, tag):
    config = tmp_path / "config.yaml"
    config.write_text(f"output: {tag} [{tmp_path / 'mark'}]\n")
    with pytest.raises(ConfigError, match="could not determine a constructor for the tag"):
        load_yaml(str(config))
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("rubbish", [bytes(range(256)) * 8, b"\x00" * 999, b"LAYER,P,R,F\n\xff"])
def test_a_baseline_of_rubbish_is_a_clear_error(tmp_path, capsys, rubbish):
    path = tmp_path / "baseline.csv"
    path.write_bytes(rubbish)
    dump = write_dump(tmp_path / "dump", [3])
    flags = ["--input", str(dump), "--output", str(tmp_path / "out"), "--device", "cpu"]
    assert cli.main(["score", *flags, "--rescale", "--baseline", str(path)]) == cli.UNUSABLE
    assert re.search(r"cannot be read|is not a baseline table", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def write_canaries(folder: Path) -> None:
    """Write a dump whose every text holds the canary: good rows, bad rows, bad files."""
    rows = pair_rows(40)
    texts = {
        name: [f"{CANARY} {text} {CANARY}" for text in rows[name]]
        for name in ("candidate", "reference")
    }
    texts["candidate"][3] = texts["reference"][5] = None
    texts["candidate"][7] = texts["reference"][9] = ""
    folder.mkdir()
    pq.write_table(pa.table(texts), folder / "a-rows.parquet", row_group_size=10)
    damaged = pa.array([f"{CANARY} \xff".encode("latin-1")] * 4).view(pa.string())
    pq.write_table(pa.table({"candidate": damaged, "reference": damaged}), folder / "bytes.parquet")
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table(texts), folder / "torn.parquet", **plain)
    content = bytearray((folder / "torn.parquet").read_bytes())
    first = content.index(CANARY.encode())
    content[first - 4 : first] = b"\xff\xff\xff\x7f"  # the length of the first text
    (folder / "torn.parquet").write_bytes(content)


def score(dump: Path, output: Path, temporary: Path) -> subprocess.CompletedProcess[bytes]:
    """Score with two worker processes, under an umask that is not the usual one."""
    temporary.mkdir()
    command = [sys.executable, "-m", "bertscore_beam", "score", "--input", str(dump), "--output"]
    command += [str(output), "--workers", "2", "--split-rows", "10", "--idf", "corpus"]
    environment = {**os.environ, "TMPDIR": str(temporary), "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.run(
        [*command, "--device", "cpu"],
        capture_output=True,
        env=environment,
        umask=0o027,
        check=False,
    )


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def everything_in(path: Path) -> bytes:
    """Return a file's bytes, and of a table also its metadata and its columns, uncompressed."""
    data = path.read_bytes()
    if data[:4] != b"PAR1":
        return data
    # Pieces end with a digest of what comes before it.
    table = pq.read_table(pa.BufferReader(data[: data.rindex(b"PAR1") + 4]))
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    buffers = [bytes(buffer) for chunk in chunks for buffer in chunk.buffers() if buffer]
    return b"".join([data, repr(table.schema.metadata).encode(), *buffers])


@pytest.mark.long
@pytest.mark.process
def test_texts_appear_in_parts_alone_and_new_files_have_the_permissions_of_new_files(tmp_path):
    """In a run to the end, and in one into a folder where a part cannot be written."""
    folder = tmp_path
    write_canaries(folder / "dump")
    whole = score(folder / "dump", folder / "out", folder / "tmp")
    (folder / "broken").mkdir()
    (folder / "broken" / "a-rows.parquet").write_bytes(b"in the way")
    broken = score(folder / "dump", folder / "broken", folder / "broken-tmp")
    said = whole.stdout + whole.stderr + broken.stdout + broken.stderr
    assert CANARY.encode() not in said
    assert whole.returncode == cli.BROKEN  # a split could not be read
    assert b"Traceback" not in whole.stderr
    assert broken.returncode == cli.BROKEN
    assert b"Error" in broken.stderr
    assert not files_below(folder / "broken-tmp")
    written = [*files_below(folder / "out"), *files_below(folder / "broken")]
    holding = [path for path in written if CANARY.encode() in everything_in(path)]
    names = {str(path.relative_to(folder)) for path in holding}
    parts = {name for name in names if not name.endswith(".pq")}
    assert {name.partition("/part-")[0] for name in parts} <= {
        f"{output}/{dump}.parquet" for output in ("out", "broken") for dump in ("a-rows", "bytes")
    }
    assert all(name.startswith("broken/_work/") for name in names - parts)  # parts to come
    assert len(names) >= 4  # the canary is there to be found
    assert (folder / "out" / "_summary.json") in written
    made = (folder / "out").rglob("*")
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in made}
    assert modes == {(False, 0o640), (True, 0o750)}


@pytest.mark.job
def test_passwords_of_addresses_are_in_no_name_record_or_log(tmp_path, capfd):
    """Of two hosts, so that their names become names of folders; one file fails, one is gone."""
    with s3_bucket() as bucket:
        dump = write_dump(tmp_path / "dump", [6])
        for name in ("a", "bad"):
            fsspec.filesystem("s3").put(str(dump / "shard-000.parquet"), f"{bucket}/{name}.parquet")
        fsspec.filesystem("s3").pipe_file(f"{bucket}/bad.parquet", b"PAR1 not PAR1")
        address = over_http(f"{bucket}/a.parquet").replace("//", f"//me:{SECRET}@{SECRET}@")
        other = address.replace("127.0.0.1", "localhost") + f"?X-Amz-Signature={SECRET}"
        bad = over_http(f"{bucket}/bad.parquet").replace("//", f"//me:{SECRET}@") + f"?pwd={SECRET}"
        flags = ["--input", address, other, bad, "--output", str(tmp_path / "out")]
        flags += ["--device", "cpu", "--max-reject-fraction", "1"]
        flags += ["--", f"--s3_secret_access_key={SECRET}"]
        assert cli.main(["score", *flags]) == cli.DONE
        gone = ["--input", other.replace("a.parquet", "gone.parquet"), "--output", f"{tmp_path}/no"]
        assert cli.main(["score", *gone, "--device", "cpu"]) != cli.DONE
    said = capfd.readouterr()
    assert SECRET not in said.out + said.err
    assert re.search(r"\*\*\*.*gone\.parquet", said.err)
    run = json.loads((tmp_path / "out" / "_run.json").read_text())
    assert "X-Amz-Signature=***" in run["options"]["input"][1]
    parts = [
        path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("part-*.parquet")
    ]
    assert {path.parts[0].partition("%3A")[0] for path in parts} == {"127.0.0.1", "localhost"}
    for path in files_below(tmp_path / "out"):
        assert SECRET not in str(path)
        assert SECRET.encode() not in everything_in(path)


HOSTILE = st.lists(
    st.text(st.sampled_from("a.-_ ~%:*?[]#\\\n\x00\x7f\u202e\udc80é"), max_size=6)
    | st.sampled_from([".", "..", "...", "_manifest", "_SUCCESS", "%2E%2E", "s3:", "part-0"]),
    min_size=1,
    max_size=5,
).map("/".join)
# As inputs are found: local ones made absolute, addresses as they are.
LOCAL = HOSTILE.map(lambda name: os.path.abspath(f"/data/{name}"))
REMOTE = st.sampled_from(["s3://bucket/", "https://host/", "memory://"])
PATHS = LOCAL | st.builds(str.__add__, REMOTE, HOSTILE)


@given(paths=st.lists(PATHS, min_size=1, max_size=6, unique=True))
def test_no_name_leads_out_of_the_output_folder_or_hides_there(paths):
    names = input_names(paths)
    assert len(set(names.values())) == len(paths)
    for name in names.values():
        part = part_name(name, 0)
        path = join("/out", part)
        assert posixpath.normpath(path) == path
        assert path.startswith("/out/")
        assert not any(piece.startswith(HIDDEN_PREFIXES) for piece in part.split("/"))
        assert not re.search(r"[\x00-\x1f\x7f\\:]", part)

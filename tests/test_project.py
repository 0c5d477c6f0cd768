"""The files around the code: pins, licence, changelog, the demo's sample and the configs."""

import os
import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bertscore_beam.options.score_options import ScoreOptions
from bertscore_beam.options.values import load_yaml

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "configs" / "demo" / "sample"
TESTED_EXTRAS = ("demo", "baseline", "delta", "results", "tune", "s3", "gcs", "gcp", "test", "dev")
CONFIGS = sorted((ROOT / "configs").glob("*/*.yaml"))
JOB_CONFIGS = [path for path in CONFIGS if path.name != "sentences.yaml"]
SCORE_CONFIGS = [path for path in JOB_CONFIGS if path.parent.name in ("demo", "score")]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIREMENTS = [
    Requirement(line)
    for lines in (PROJECT["dependencies"], *(EXTRAS[name] for name in TESTED_EXTRAS))
    for line in lines
]
PINS = [
    line
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
VERSIONS = {canonicalize_name(name): version for name, version in (p.split("==") for p in PINS)}


@pytest.fixture(scope="module")
def sample() -> dict[str, pa.Table]:
    return {path.name: pq.read_table(path) for path in sorted(SAMPLE.glob("*.parquet"))}


def test_the_extra_all_is_all_that_users_may_want():
    (all_of_it,) = map(Requirement, EXTRAS["all"])
    assert all_of_it.name == PROJECT["name"]
    assert all_of_it.extras == EXTRAS.keys() - {"all", "test", "dev", "docs"}


def test_nobody_is_told_to_install_a_name_that_is_not_published():
    places = "README.md docs/*.md configs/**/* pipelines/**/*.py bertscore_core/**/*.py"
    for path in (path for place in places.split() for path in ROOT.glob(place) if path.is_file()):
        assert b"bertscore-beam[" not in path.read_bytes(), path


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda r: r.name)
def test_every_requirement_is_pinned_within_its_range(requirement):
    assert requirement.specifier.contains(VERSIONS[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("name", ["apache-beam", "torch", "transformers"])
def test_the_libraries_that_move_scores_have_one_range(name):
    ranges = {str(line.specifier) for line in REQUIREMENTS if line.name == name}
    assert len(ranges - {""}) == len(ranges) == 1


@pytest.mark.process
def test_make_explains_an_interpreter_that_is_missing(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    own = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    words = ["make", "demo", "PYTHON=no-such-python"]
    done = subprocess.run(words, cwd=tmp_path, env=own, capture_output=True, text=True)
    assert done.returncode != 0
    assert "No interpreter 'no-such-python'. Install Python 3.11 or later" in done.stderr


def test_the_committed_sample_is_what_the_script_makes(sample):
    made = runpy.run_path(str(SAMPLE.with_name("make_sample.py")))["make_tables"]()
    assert sorted(made) == sorted(sample)
    for name, table in made.items():
        assert table.schema.equals(sample[name].schema), name
        assert table.equals(sample[name].combine_chunks()), name


def test_the_sample_is_small_and_shows_what_real_dumps_contain(sample):
    paths = list(SAMPLE.glob("*.parquet"))
    assert sum(path.stat().st_size for path in paths) < 200_000
    assert all(pq.ParquetFile(path).num_row_groups > 1 for path in paths)
    ids = pa.chunked_array([chunk for table in sample.values() for chunk in table["id"].chunks])
    assert 300 <= len(ids) == pc.count_distinct(ids).as_py() < 1000
    single = sample["news-europe.parquet"]
    candidates = single["candidate"].to_pylist()
    assert candidates.count(None) == 1
    assert candidates.count("") == 1
    languages = {code for table in sample.values() for code in table["language"].to_pylist()}
    assert len(languages) >= 12
    references = sample["several-references.parquet"]["reference"].to_pylist()
    assert {len(texts) for texts in references} == {2, 3}
    assert pa.types.is_timestamp(single.schema.field("created").type)
    assert pa.types.is_struct(single.schema.field("meta").type)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_and_every_key_of_a_job_open_with_a_comment(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    if path not in JOB_CONFIGS:
        return
    keys = [number for number, line in enumerate(lines) if re.match(r"(# )?[a-z_]+:( |$)", line)]
    assert len(keys) >= len(yaml.safe_load("\n".join(lines)))
    bare = [lines[n] for n in keys if n == 0 or not lines[n - 1].startswith("#")]
    assert bare == []


@pytest.mark.parametrize("path", SCORE_CONFIGS, ids=lambda path: path.stem)
def test_every_score_config_is_accepted_by_the_strict_options(path):
    options = ScoreOptions.from_mapping(load_yaml(str(path)), str(path))
    assert options.input
    # What runs here writes into the checkout, and only where git ignores it.
    assert options.output.startswith("build/") or "your-bucket" in options.output

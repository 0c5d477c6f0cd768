"""Which earlier scores may be taken over, by their signatures."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bertscore_core import Signature, signature as module
from bertscore_core.signature import SCORE_CHANGES, exact_fields, moving_fields, score_differences

CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
KEPT = "Rows keep their BERTScore in float32"
"""How "Scores" begins in a release that moved means, or rows in other formats, alone."""
VERSIONS = {"version": "0.3.0", "torch": "2.13.0", "transformers": "5.23.0"}
SETTINGS = {"dtype": "float32", "backend": "openvino-2026.4.1", **VERSIONS}
NOW = Signature(**dict.fromkeys(Signature.__slots__, "any") | SETTINGS)


def test_every_release_that_moved_float32_rows_is_in_the_table():
    releases = dict(
        re.findall(r"^## \[([\d.]+)\](.*?)(?=^## |\Z)", CHANGELOG.read_text(), re.M | re.S)
    )
    scores = {name: text.partition("\n### Scores\n\n")[2] for name, text in releases.items()}
    assert scores["0.1.0"]
    moved = [name for name, text in scores.items() if text and not text.startswith(KEPT)]
    assert list(SCORE_CHANGES["version"]) == moved[::-1]


@pytest.mark.parametrize("name", sorted({*Signature.__slots__} - {"baseline", *VERSIONS}))
def test_other_settings_hinder(name):
    earlier = replace(NOW, **{name: "other"})
    assert score_differences(earlier, NOW) == {name: ("other", getattr(NOW, name))}
    assert score_differences(NOW, earlier) == {name: (getattr(NOW, name), "other")}


def test_baseline_never_hinders():
    assert score_differences(replace(NOW, baseline="custom@1"), NOW) == {}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_name_of_a_model_hinders_only_if_the_digest_of_its_weights_is_not_known(dtype):
    known = replace(NOW, dtype=dtype, weights="7521cd5f6bef")
    renamed = replace(known, model="snapshots/abc")
    assert score_differences(known, renamed) == {}
    assert exact_fields(known) == exact_fields(renamed)
    assert moving_fields(known, renamed) == frozenset()
    other = replace(renamed, weights="7521cd5f6bee")
    assert set(score_differences(known, other)) == {"model", "weights"}
    unknown = replace(known, weights=""), replace(renamed, weights="")
    assert set(score_differences(*unknown)) == {"model"}


@pytest.mark.parametrize(
    ("dtype", "backend", "two", "hinders"),
    [
        ("float32", "openvino-2026.4.1", ("auto", "sdpa"), False),
        ("float32", "torch", ("sdpa", "auto"), False),
        ("float16-true", "torch", ("auto", "sdpa"), False),  # packed texts are in batch_tokens
        ("bfloat16", "openvino-2026.4.1", ("auto", "sdpa"), True),
        ("float32", "torch", ("auto", "eager"), True),
    ],
)
def test_attention_hinders_only_where_it_moves_scores(dtype, backend, two, hinders):
    earlier, now = (replace(NOW, dtype=dtype, backend=backend, attention=one) for one in two)
    assert score_differences(earlier, now) == ({"attention": two} if hinders else {})
    assert exact_fields(earlier) == exact_fields(now)


@pytest.mark.parametrize(
    ("name", "earlier", "now", "hinders"),
    [
        ("version", "0.1.0", "0.1.9", False),
        ("version", "0.1.9", "0.2.0", True),
        ("version", "0.2.0", "0.3.0", False),
        ("version", "0.2.0", "0.2.0.dev1", False),
        # Whether a later version moved scores is not known to this one.
        ("version", "0.3.0", "0.2.0", True),
        ("version", "strange", "0.2.0", True),
        ("torch", "2.12.1", "2.13.0+cpu", True),
        ("torch", "2.13.0+cpu", "2.12.1", True),
        ("torch", "2.13.0", "2.14.0", False),
        ("transformers", "5.1.0", "5.23.0", False),
        ("backend", "openvino-2026.4.1", "openvino-2026.5.0", False),
        ("backend", "openvino-2026.5.0", "openvino-2027.1.0", True),
    ],
)
def test_version_hinders_only_if_scores_moved_on_the_way(monkeypatch, name, earlier, now, hinders):
    changes = {"version": ("0.1.0", "0.2.0"), "torch": ("2.13.0",), "transformers": ()}
    changes["openvino"] = ("2027.0.0",)
    monkeypatch.setattr(module, "SCORE_CHANGES", changes)
    actual = score_differences(replace(NOW, **{name: earlier}), replace(NOW, **{name: now}))
    assert actual == ({name: (earlier, now)} if hinders else {})


@pytest.mark.parametrize("name", [*VERSIONS, "backend"])
def test_every_version_hinders_in_reduced_formats(name):
    reduced = replace(NOW, dtype="bfloat16", batch_tokens="1024")
    other = replace(reduced, **{name: getattr(reduced, name) + ".1"})
    assert set(score_differences(other, reduced)) == {name}
    assert score_differences(reduced, reduced) == {}


def test_moving_fields_are_those_of_final_scores_in_either_order():
    other = replace(NOW, num_layers="5", baseline="custom@1", transformers="5.99.0")
    assert moving_fields(NOW, other) == moving_fields(other, NOW) == {"num_layers", "baseline"}
    newer = replace(NOW, version="0.3.9")
    assert moving_fields(newer, NOW) == moving_fields(NOW, newer) == frozenset()
    low, later = replace(NOW, dtype="bfloat16"), replace(NOW, dtype="bfloat16", torch="3.0")
    assert moving_fields(low, later) == {"torch"}

"""Signatures: one line, and both forms parse."""

import dataclasses

import pytest
from hypothesis import example, given, strategies as st

from bertscore_core import Signature, SignatureError

FIELDS = [field.name for field in dataclasses.fields(Signature)]
VALUES = {name: name for name in FIELDS}


@example(values=["  "] * len(FIELDS))
@given(values=st.lists(st.text(max_size=20), min_size=len(FIELDS), max_size=len(FIELDS)))
def test_both_forms_parse_back(values):
    signature = Signature(**dict(zip(FIELDS, values, strict=True)))
    assert Signature.parse(signature.format()) == signature
    assert Signature.parse(signature.format(short=True)) == signature
    assert "\n" not in signature.format()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BLEU|c:mixed", "not a signature"),
        ("bertscore|model:x", "lacks attention"),
        ("bertscore|model:x|model:y", "unknown or doubled"),
        ("bs|zz:x", "unknown or doubled"),
    ],
)
def test_text_that_is_no_signature_is_refused(text, message):
    with pytest.raises(SignatureError, match=message):
        Signature.parse(text)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"idf": "none", "baseline": "none"}, "_no-idf_version=0.3.12(hug_trans=5.0)"),
        ({"baseline": "none"}, "_idf_version=0.3.12(hug_trans=5.0)"),
        ({"baseline": "en/m@12"}, "_idf_version=0.3.12(hug_trans=5.0)-rescaled"),
        ({"baseline": "custom@12"}, "_idf_version=0.3.12(hug_trans=5.0)-custom-rescaled"),
    ],
)
def test_upstream_hash_is_the_references(changes, expected):
    values = VALUES | {"model": "m", "num_layers": "9", "transformers": "5.0"} | changes
    assert Signature(**values).upstream_hash() == "m_L9" + expected

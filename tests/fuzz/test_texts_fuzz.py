"""Any texts: a row for each, in order, with finite scores or a reason."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from bertscore_beam.dump.columns import SCORES
from bertscore_beam.dump.reasons import Reason
from bertscore_core import BertScorer, ScorerConfig
from tests.support.scoring import score_all_rows
from tests.support.tables import PAIRS

SPECIALS = "[SEP]|[CLS]|[PAD]|</s>|<s>|<mask>|<pad>|<unk>| |  |\u2581"
ANY = st.characters(exclude_categories=["Cs"])
HARD = st.characters(categories=["Cc", "Cf", "Co", "Cn", "Mn", "Me", "Zs", "Zl", "Zp", "So", "Lo"])
TEXTS = (
    st.text(ANY, max_size=40)
    | st.text(HARD, max_size=40)
    | st.lists(st.sampled_from(SPECIALS.split("|")) | st.text(ANY, max_size=5), max_size=12).map(
        "".join
    )
    | st.builds(
        lambda text, times: text * times, st.text(ANY, min_size=1, max_size=8), st.integers(1, 700)
    )
)
ROWS = st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=3)), min_size=1, max_size=4)


@pytest.fixture(scope="module", params=["bert", "roberta", "t5", "byt5"])
def tiny(request, tiny_folder) -> BertScorer:
    """Return a scorer of each kind of tokenizer, which cuts early."""
    model = str(tiny_folder(request.param))
    return BertScorer(ScorerConfig(model=model, num_layers=1, max_length=32, device="cpu"))


@pytest.mark.filterwarnings("ignore:This sequence already has")  # ByT5, of `</s>` in a text
@settings(max_examples=settings.default.max_examples // 4)
@given(ROWS)
@example([("", [""]), (" ", ["\u200b"])])
@example([("\x00", ["\x00"]), ("\ufffe\uffff", ["\U0010ffff"])])
@example([("\u202e" * 2000, ["\u0301" * 2000])])
def test_every_row_has_finite_scores_or_a_reason(tiny, rows):
    table = pa.table(
        {
            "candidate": pa.array([row[0] for row in rows], pa.string()),
            "reference": pa.array([row[1] for row in rows], pa.list_(pa.string())),
        }
    )
    found = score_all_rows(tiny, table, PAIRS).table
    assert found.select(table.column_names).equals(table)
    scores = np.stack([found[name].to_numpy() for name in SCORES.values()])
    for row, reason in enumerate(found["bertscore_error"].to_pylist()):
        assert reason is None or reason in {*Reason}
        finite = np.isfinite(scores[:, row])
        assert finite.all() or (reason is not None and not finite.any())
        assert (np.abs(scores[finite, row]) <= 1 + 1e-5).all()
    assert len(found) == len(rows)

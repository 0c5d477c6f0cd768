"""The drop-in beside the real bert-score package: same names, same calls, same answers."""

import functools
import importlib
import json
import re
import shutil
import sys
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import bertscore_core
import bertscore_core.dropin as ours
from bertscore_core import BaselineNotFoundError, ConfigError, InputError, UnknownLanguageError
from bertscore_core.model.resolve import resolve_model
from tests.support.encoders import cache_model
from tests.support.tolerances import PARITY_ATOL

pytestmark = pytest.mark.model

MODEL = "all-MiniLM-L6-v2"
CANDIDATES = ["the cat sat", "rain tomorrow"]
REFERENCES = ["a cat was sitting", "it will rain"]
THE, CAT, SAT, SITTING = 1996, 4937, 2938, 3564


@pytest.fixture(scope="module")
def real():
    """Return the real package. It loads a model once, not for each call."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        package = pytest.importorskip("bert_score")
        scoring = sys.modules["bert_score.score"]
        for name in ("get_model", "get_tokenizer"):
            patch.setattr(scoring, name, functools.cache(getattr(scoring, name)))
        yield package


@pytest.fixture(scope="module")
def scorer():
    return ours.BERTScorer(MODEL)


def of_real(real, **options):
    """Score with the real package, one pair at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return real.score(
            CANDIDATES,
            REFERENCES,
            model_type=str(resolve_model(MODEL).folder),
            num_layers=6,
            batch_size=1,
            nthreads=0,
            device="cpu",
            **options,
        )


def assert_equal(actual, wanted):
    for ours_, theirs in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(ours_, theirs, rtol=0, atol=PARITY_ATOL, equal_nan=True)


class AsksTwice(dict):
    """A mapping whose answer depends on the key."""

    def __missing__(self, key):
        return 0.5 if key % 2 else 2.0


WEIGHTS = {
    "empty": {},  # as False
    "counter": Counter({THE: 2, CAT: 1, 2003: 1, 2009: 3}),
    "answer_by_key": AsksTwice({CAT: 3.0}),
    "none_key": {None: 0, **dict.fromkeys(range(30522), 1.0)},
    "negative_key": defaultdict(lambda: 1.5, {-1: 7.0, 101: 0.0, 102: 0.0}),
    "sum_of_zero": defaultdict(float, {THE: 1.0, CAT: -1.0}),
    "weight_of_one_side": Counter({SITTING: 1}),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_mappings_of_weights_count_as_in_the_reference(real, name):
    before = dict(WEIGHTS[name])
    actual = ours.score(CANDIDATES, REFERENCES, model_type=MODEL, idf=WEIGHTS[name])
    assert dict(WEIGHTS[name]) == before
    assert_equal(actual, of_real(real, idf=WEIGHTS[name]))


@pytest.mark.parametrize("header", ["LAYER,P,R,F", " LAYER , P, R, F", "\ufeffLAYER,P,R,F"])
def test_tables_with_blanks_or_a_byte_order_mark_are_read(real, header, tmp_path):
    table = tmp_path / "baseline.tsv"
    rows = "".join(f"{layer}, 0.5, 0.4 ,0.3\n" for layer in range(7))
    table.write_text(f"{header}\n{rows}", encoding="utf-8")
    options = {"lang": "en", "rescale_with_baseline": True, "baseline_path": str(table)}
    actual = ours.score(CANDIDATES, REFERENCES, model_type=MODEL, **options)
    for mine, theirs in zip(actual, of_real(real, **options), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=2 * PARITY_ATOL)
    scorer = ours.BERTScorer(MODEL, **options)
    assert scorer.baseline_vals.tolist() == pytest.approx([0.5, 0.4, 0.3])
    assert scorer.hash.endswith("-custom-rescaled")


def test_tables_of_models_and_languages_are_the_references(real):
    utils = importlib.import_module("bert_score.utils")
    assert utils.model2layers.items() <= ours.utils.model2layers.items()
    for language in ("en", "zh", "tr", "en-sci", "de", "fr", "sw"):
        assert ours.utils.lang2model[language] == utils.lang2model[language]
    with pytest.raises(UnknownLanguageError, match="no default model"):
        ours.utils.lang2model["english"]
    assert ours.__version__ == real.__version__


@pytest.mark.parametrize("idf", [True, False, {1: 0.5}])
@pytest.mark.parametrize("rescaled", [True, False])
@pytest.mark.parametrize("custom", [True, False])
@pytest.mark.parametrize("fast", [True, False])
def test_hash_is_the_references(real, idf, rescaled, custom, fast):
    utils = importlib.import_module("bert_score.utils")
    assert ours.utils.get_hash(MODEL, 6, idf, rescaled, custom, fast) == utils.get_hash(
        MODEL, 6, idf, rescaled, custom, fast
    )


def test_a_layer_of_an_untuned_model_is_asked_for_and_may_be_added(
    tiny_folder, tmp_path, monkeypatch
):
    name = "intfloat/multilingual-e5-base"
    cache_model(tiny_folder("xlm_roberta"), name, tmp_path, monkeypatch)
    assert name not in ours.utils.model2layers
    with pytest.raises(ConfigError, match=f"no layer has been tuned for {name}: .*0 .* to 3"):
        ours.BERTScorer(name)
    assert ours.BERTScorer(name, num_layers=1).num_layers == 1
    monkeypatch.setitem(ours.utils.model2layers, name, 2)
    assert ours.BERTScorer(name).num_layers == 2


LIKE_EVALUATE = """
import functools
import bert_score
from bert_score.utils import get_hash as same_hash
from packaging import version

def compute(predictions, references, model_type):
    get_hash, scorer = bert_score.utils.get_hash, bert_score.BERTScorer
    assert same_hash is get_hash and bert_score.utils.lang2model["EN".lower()] == "roberta-large"
    if version.parse(bert_score.__version__) >= version.parse("0.3.10"):
        get_hash = functools.partial(get_hash, use_fast_tokenizer=False)
        scorer = functools.partial(scorer, use_fast_tokenizer=False)
    layers = bert_score.utils.model2layers[model_type]
    both = dict(idf=False, rescale_with_baseline=False)
    code = get_hash(model=model_type, num_layers=layers, use_custom_baseline=False, **both)
    kept = scorer(
        model_type=model_type, num_layers=layers, batch_size=64, nthreads=4, all_layers=False,
        idf_sents=None, device=None, lang=None, baseline_path=None, **both,
    )
    assert kept.hash == code
    references = [[text] for text in references]
    found = kept.score(cands=predictions, refs=references, verbose=False, batch_size=64)
    return [values.tolist() for values in found]
"""
"""All names and calls that Hugging Face evaluate's bertscore module takes from `bert_score`."""


@pytest.fixture
def imported(monkeypatch):
    """Return the modules of bert-score that are imported; what a test changes is put back."""
    names = [name for name in sys.modules if name.partition(".")[0] == "bert_score"]
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    yield lambda: {
        name: module for name, module in sys.modules.items() if name.startswith("bert_score")
    }
    for name in [name for name in sys.modules if name.partition(".")[0] == "bert_score"]:
        del sys.modules[name]


def test_the_page_says_which_names_utils_has():
    page = Path(__file__).parents[2] / "docs" / "library-and-training.md"
    text = page.read_text(encoding="utf-8").partition("Of `utils` it has only ")[2]
    has = set(re.findall(r"`(\w+)`", text.partition(".")[0]))
    assert has == {name for name in vars(ours.utils) if not name.startswith("__")}


def test_calls_of_the_evaluate_module_work_in_place_of_bert_score(imported, scorer):
    module = {}
    with bertscore_core.replace_bert_score():
        exec(LIKE_EVALUATE, module)  # noqa: S102 - the text above
    assert imported() == {}
    assert module["bert_score"] is ours
    found = module["compute"](CANDIDATES, REFERENCES, MODEL)  # also when it has ended
    assert found == [values.tolist() for values in scorer.score(CANDIDATES, REFERENCES)]


def test_what_was_imported_before_is_put_back(imported):
    package, part = ModuleType("bert_score"), ModuleType("bert_score.scorer")
    real = {"bert_score": package, "bert_score.scorer": part}
    sys.modules.update(real)
    replaced = bertscore_core.replace_bert_score()
    assert importlib.import_module("bert_score") is ours
    with pytest.raises(ModuleNotFoundError):  # nothing of the real package beside ours
        importlib.import_module("bert_score.scorer")
    with bertscore_core.replace_bert_score():
        assert importlib.import_module("bert_score.utils") is ours.utils
    assert importlib.import_module("bert_score") is ours
    for _ in range(2):
        replaced.close()
        assert imported() == real


def test_attributes_are_the_references(scorer, tmp_path):
    assert (scorer.baseline_path, scorer.use_custom_baseline) == (None, False)
    table = str(tmp_path / "never_read.tsv")  # as in the reference, without rescaling
    other = ours.BERTScorer(MODEL, baseline_path=table)
    assert (other.baseline_path, other.use_custom_baseline) == (table, True)
    assert other.hash == scorer.hash


def test_returns_three_float_tensors_and_the_hash(scorer):
    (precision, recall, f1), text = ours.score(
        CANDIDATES, REFERENCES, model_type=MODEL, return_hash=True
    )
    for tensor in (precision, recall, f1):
        assert tensor.shape == (2,)
        assert tensor.dtype == torch.float32
    assert text.startswith("all-MiniLM-L6-v2_L6_no-idf_version=0.3.12(hug_trans=")
    torch.testing.assert_close(scorer.score(CANDIDATES, REFERENCES)[2], f1)
    assert scorer.hash == text
    assert repr(scorer) == f"BERTScorer(hash={text}, batch_size=64, nthreads=4)"


def test_idf_of_the_object_comes_from_the_texts_given():
    scorer = ours.BERTScorer(MODEL, idf=True, idf_sents=REFERENCES)
    expected = ours.score(CANDIDATES, REFERENCES, model_type=MODEL, idf=True)
    for actual, wanted in zip(scorer.score(CANDIDATES, REFERENCES), expected, strict=True):
        torch.testing.assert_close(actual, wanted)
    with pytest.warns(UserWarning, match="Overwriting the previous importance weights"):
        scorer.compute_idf(CANDIDATES)
    assert scorer.hash.startswith("all-MiniLM-L6-v2_L6_idf_")


def test_several_references_and_all_layers_work_together():
    groups = [[text, "something else"] for text in REFERENCES]
    scores = ours.score(CANDIDATES, groups, model_type=MODEL, all_layers=True)
    single = ours.score(CANDIDATES, groups, model_type=MODEL)
    assert scores[2].shape == (7, 2)
    torch.testing.assert_close(scores[2][6], single[2], atol=1e-6, rtol=0)


def test_fast_tokenizer_takes_away_the_prefix_space_and_marks_the_hash():
    scorer = ours.BERTScorer(MODEL, use_fast_tokenizer=True)
    assert scorer.hash.endswith("_fast-tokenizer")
    assert scorer.use_fast_tokenizer
    assert scorer._scorer.config.fast_tokenizer
    assert scorer._scorer.config.adds_prefix_space is False


def test_what_cannot_be_carried_out_is_said_before_scoring():
    with pytest.raises(ConfigError, match="neither lang nor model_type"):
        ours.score(CANDIDATES, REFERENCES)
    with pytest.raises(BaselineNotFoundError, match="no published baseline"):
        ours.score(CANDIDATES, REFERENCES, model_type=MODEL, lang="en", rescale_with_baseline=True)
    with pytest.raises(ConfigError, match="idf cannot be counted: got no texts"):
        ours.BERTScorer(MODEL, idf=True, idf_sents=[])


@pytest.mark.parametrize(
    ("candidates", "references", "warned"),
    [
        (["", "a cat"], ["a", "a cat"], {"candidate"}),
        (["a", "a cat"], [["a", ""], ["a cat"]], {"reference"}),
        (["", "a"], ["a", ""], {"candidate", "reference"}),
        (["a"], ["a"], set()),
    ],
)
def test_empty_texts_are_warned_of_on_the_error_output(
    scorer, candidates, references, warned, capsys
):
    scorer.score(candidates, references)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in lines] == sorted(warned)
    assert all(line.startswith("Warning: Empty ") for line in lines)


@pytest.mark.parametrize("given", [set, dict.fromkeys, iter])
def test_texts_without_positions_are_refused(scorer, given):
    for candidates, references in (
        (given(CANDIDATES), REFERENCES),
        (CANDIDATES, given(REFERENCES)),
    ):
        with pytest.raises(InputError, match="whose texts have no positions"):
            scorer.score(candidates, references)
    with pytest.raises(InputError, match=r"idf_sents is a .* whose texts have no positions"):
        scorer.compute_idf(given(REFERENCES))


def test_a_model_that_is_no_name_is_refused():
    with pytest.raises(InputError, match="the model is a BertModel; expected its name or"):
        ours.score(CANDIDATES, REFERENCES, model_type=type("BertModel", (), {})())


def test_idf_that_weighs_nothing_is_said_and_the_numbers_are_those_of_bert_score(caplog):
    precision, recall, f1 = ours.score(["the cat sat"], ["a cat sat"], MODEL, idf=True)
    (said,) = caplog.messages
    assert said.startswith("idf gives no token of the references a weight")
    assert abs(float(precision) - 0.878) < 1e-3
    assert recall.isnan()
    assert float(f1) == 0


def test_verbose_says_when_it_begins_and_ends(scorer, capsys):
    scorer.score(CANDIDATES, REFERENCES, verbose=True)
    begun, ended = capsys.readouterr().out.splitlines()
    assert begun == "calculating scores..."
    assert ended.startswith("done in ")
    assert ended.endswith(" sentences/sec")


@pytest.fixture
def drawings(monkeypatch):
    """Keep matplotlib from opening windows, and collect the figures shown."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    yield shown
    plt.close("all")


def test_example_is_drawn_and_saved(scorer, drawings, tmp_path, capsys):
    picture = tmp_path / "example.png"
    scorer.plot_example("the cat sat", "a cat was sitting", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in capsys.readouterr().out
    (figure,) = drawings
    f1 = scorer.score(["the cat sat"], ["a cat was sitting"])[2].item()
    axes = figure.axes[0]
    assert f"F1 {f1:.4f}" in axes.get_title()
    tokens = [label.get_text() for label in axes.get_xticklabels()]
    assert tokens == ["[CLS]", "a", "cat", "was", "sitting", "[SEP]"]
    values = np.asarray(axes.images[0].get_array())
    assert values.argmax(axis=1).tolist()[2:4] == [2, 4]
    assert [text.get_text() for text in axes.texts] == [f"{value:.3f}" for value in values.flat]


def test_tokens_of_drawings_are_no_formulas_and_hold_nothing_unseen(drawings, tiny_folder):
    scorer = ours.BERTScorer(str(tiny_folder("roberta")), num_layers=2)
    scorer.plot_example("a $x_1$ \x1b[31m", "the $ cat")
    (figure,) = drawings
    figure.canvas.draw()
    labels = figure.axes[0].get_yticklabels()
    assert not any(label.get_parse_math() for label in labels)
    assert not any("\x1b" in label.get_text() for label in labels)
    scorer.plot_example("a " * 60, "the " * 60)  # in so many cells nobody reads numbers
    assert not drawings[1].axes[0].texts


def test_a_text_without_tokens_is_not_drawn(drawings, tiny_folder, tmp_path):
    folder = tmp_path / "plain"
    shutil.copytree(tiny_folder("qwen3"), folder)
    tokenizer = folder / "tokenizer.json"
    content = json.loads(tokenizer.read_text())
    tokenizer.write_text(json.dumps(content | {"post_processor": None}))  # no special tokens
    scorer = ours.BERTScorer(str(folder), num_layers=2)
    with pytest.raises(InputError, match="nothing to draw: got a text without tokens; expected"):
        scorer.plot_example("", "the cat")


def test_drawing_without_matplotlib_says_what_to_install(scorer, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[plot\]'"):
        scorer.plot_example("a", "b")

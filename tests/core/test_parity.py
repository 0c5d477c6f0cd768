"""Scores and token ids against golden values of bert-score 0.3.13 (see tests/golden).

Three questions, asked apart so that a failure says where it lies: are the token ids those of the
slow tokenizers of transformers 4, are the scores right given those ids, and is the whole right from
text to score.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertscore_core import BertScorer, ScorerConfig
from bertscore_core.idf import DocumentFrequencies, IdfTable, TokenWeights
from bertscore_core.match.embedding import Engine
from bertscore_core.match.kernel import score_pairs
from bertscore_core.model.device import DeviceQueue
from bertscore_core.model.encoder import Encoder
from bertscore_core.model.memory import Budget
from bertscore_core.model.resolve import resolve_model
from bertscore_core.tokenizer.tokenization import TextTokenizer, load_tokenizer
from bertscore_core.tokens import TextPairs, TokenizedTexts
from bertscore_core.work import Work
from tests.golden import texts
from tests.support.encoders import shared_encoder
from tests.support.get_mpnet import MPNET
from tests.support.specified import Specified
from tests.support.tiny_models import FAMILIES, tokenizer_digest, weights_digest
from tests.support.tolerances import PARITY_ATOL, f1_slack

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
EMBEDDED: dict[str, Any] = json.loads((GOLDEN / "embedded.json").read_text(encoding="utf-8"))
FAMILY_FILE: dict[str, Any] = json.loads((GOLDEN / "families.json").read_text(encoding="utf-8"))
MPNET_FILE: dict[str, Any] = json.loads((GOLDEN / "mpnet.json").read_text(encoding="utf-8"))
GOLDENS: dict[str, Any] = FAMILY_FILE["families"]
GROUPS = [[case[side] for case in texts.MULTI_REFERENCE] for side in (1, 2)]
"""Candidates, and the references of each."""
IDF_CORPORA: dict[str, Any] = EMBEDDED["idf_corpora"]


@pytest.fixture(autouse=True, scope="module")
def passes_are_made_once(encoders_are_shared: None) -> Iterator[None]:
    """Let cases that differ in weights or rescaling alone share the passes of their encoder."""
    made: dict[Any, Any] = {}

    def load(*given: Any, **options: Any) -> Encoder:
        encoder = shared_encoder(*given, **options)

        def forward(*given: Any) -> Any:
            key = (encoder.forward, *((one.shape, one.numpy().tobytes()) for one in given))
            if key not in made:
                made[key] = encoder.forward(*given)()
            return made[key].clone

        return replace(encoder, forward=forward)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bertscore_core.scorer.load_encoder", load)
        yield


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the made-up baseline of the goldens."""
    path = tmp_path_factory.mktemp("baseline") / "made_up.tsv"
    path.write_text(EMBEDDED["baseline"], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def specified(scorer: BertScorer) -> Specified:
    """Return what scores texts with the embedded model by the specification."""
    return Specified(scorer.settings.files.folder, "bert")


def _expected(golden: dict[str, Any]) -> np.ndarray:
    """Golden scores with NaN for null. Shape (N, 3), or (layers, N, 3)."""
    return np.stack([np.array(golden[name], dtype=np.float64) for name in "PRF"], axis=-1)


def _actual(scores: Any) -> np.ndarray:
    return np.stack([scores.precision, scores.recall, scores.f1], axis=-1)


def _assert_close(actual: np.ndarray, expected: np.ndarray, scale: Any = 1.0) -> None:
    """Compare; the scale undoes what rescaling does to differences (a division by 1 - baseline)."""
    slack = f1_slack(expected * scale + (1 - np.asarray(scale)))
    np.testing.assert_allclose(
        actual * scale / slack, expected * scale / slack, rtol=0, atol=PARITY_ATOL, equal_nan=True
    )


def _scale(case: str) -> Any:
    if "rescaled" not in case:
        return 1.0
    rows = np.loadtxt(EMBEDDED["baseline"].splitlines(), delimiter=",", skiprows=1)[:, 1:]
    return 1 - (rows[:, None] if case.startswith("all_layers") else rows[int(case[len("layer")])])


def _different_pairs(
    tokenizer: TextTokenizer, pairs: tuple[texts.PairCase, ...], ids: dict[str, Any]
) -> set[str]:
    different = set()
    for column, side in zip(texts.columns(pairs), ("candidates", "references"), strict=True):
        tokens = tokenizer.encode(column)
        for row, pair in enumerate(pairs):
            if tokens.row(row).tolist() != ids[side][row]:
                different.add(pair.name)
    return different


def _embedded_cases() -> Iterator[tuple[str, str]]:
    """Pair every case with torch, and two with OpenVINO: weights and rescaling know no backend."""
    for case in EMBEDDED["scores"]:
        if case != "layer6_idf_table":
            yield case, "torch"
            if case in ("layer6", "all_layers"):
                yield case, "openvino"


_SINGLE_LAYERS = {case for case, _ in _embedded_cases() if case.startswith("layer")}


class TestEmbeddedModel:
    """The MiniLM sentence encoder from PyPI, on every text."""

    def _scorer(self, case: str, baseline: Path, backend: str = "auto") -> BertScorer:
        rescaled = "rescaled" in case
        config = ScorerConfig(
            device="cpu",
            backend=backend,
            rescale=rescaled,
            baseline=str(baseline) if rescaled else None,
            all_layers=case.startswith("all_layers"),
            num_layers=6 if case.startswith("all_layers") else int(case[len("layer")]),
            idf="_idf" in case,
        )
        return BertScorer(config)

    def test_goldens_are_of_these_texts(self):
        assert EMBEDDED["pairs"] == [pair.name for pair in texts.PAIRS]

    def test_token_ids_equal_the_slow_tokenizer(self, scorer):
        assert _different_pairs(scorer.tokenizer, texts.PAIRS, EMBEDDED["ids"]) == set()

    @pytest.mark.model
    @pytest.mark.parametrize(("case", "backend"), list(_embedded_cases()))
    def test_scores(self, case, baseline, backend):
        actual = _actual(self._scorer(case, baseline, backend).score(*texts.columns(texts.PAIRS)))
        expected = _expected(EMBEDDED["scores"][case])
        _assert_close(actual, expected, _scale(case))

    @pytest.mark.model
    @pytest.mark.parametrize("case", sorted(_SINGLE_LAYERS))
    def test_scores_of_the_specification(self, case, baseline, specified):
        """Of every fifth pair: encoding each text alone takes its time."""
        scorer = self._scorer(case, baseline, "torch")
        candidates, references = texts.columns(texts.PAIRS)
        some = [[text] for text in references[::5]]
        actual, _ = specified.scores(scorer, candidates[::5], some, documents=references)
        _assert_close(actual, _expected(EMBEDDED["scores"][case])[::5], _scale(case))

    @pytest.mark.model
    @pytest.mark.parametrize("case", EMBEDDED["multi_reference"]["scores"])
    def test_several_references_of_the_specification(self, case, baseline, specified):
        actual, _ = specified.scores(self._scorer(case, baseline, "torch"), *GROUPS)
        _assert_close(actual, _expected(EMBEDDED["multi_reference"]["scores"][case]), _scale(case))

    def test_scores_with_given_weights(self, scorer):
        table = {int(token): weight for token, weight in EMBEDDED["idf_table"].items()}
        weights = TokenWeights.from_mapping(table, default=1.0)
        actual = _actual(
            scorer.score_tokenized(scorer.tokenize(*texts.columns(texts.PAIRS)), weights)
        )
        expected = _expected(EMBEDDED["scores"]["layer6_idf_table"])
        _assert_close(actual, expected)

    def test_idf_weights(self, scorer):
        golden = EMBEDDED["idf_from_references"]
        table = scorer.count_idf(texts.columns(texts.PAIRS)[1])
        assert table.frequencies.num_documents == golden["documents"]
        ids = np.array([int(token) for token in golden["weights"]], dtype=np.int32)
        np.testing.assert_array_equal(table.frequencies.ids, ids)
        expected = np.array(list(golden["weights"].values()))
        np.testing.assert_allclose(table.weights().of(ids), expected, rtol=0, atol=1e-6)
        assert table.weights().default == pytest.approx(golden["unseen"], abs=1e-12)

    @pytest.mark.model
    @pytest.mark.parametrize("case", EMBEDDED["multi_reference"]["scores"])
    def test_several_references(self, case, baseline):
        actual = _actual(self._scorer(case, baseline).score(*GROUPS))
        _assert_close(actual, _expected(EMBEDDED["multi_reference"]["scores"][case]), _scale(case))

    def test_precision_and_recall_may_come_from_different_references(self):
        # Else the case above would not tell a maximum by measure from the best reference.
        row = EMBEDDED["multi_reference"]["cases"].index("best_precision_and_recall_differ")
        best = _expected(EMBEDDED["multi_reference"]["scores"]["layer6"])[row]
        first = sum(len(case.references) for case in texts.MULTI_REFERENCE[:row])
        alone = _expected(EMBEDDED["multi_reference"]["each_reference"])
        group = alone[first : first + len(texts.MULTI_REFERENCE[row].references)]
        assert group[:, 0].argmax() != group[:, 1].argmax()
        np.testing.assert_array_equal(best, group.max(axis=0))

    @pytest.mark.model
    @pytest.mark.parametrize(
        ("pairs", "golden"),
        [
            (texts.ALL_TOKENS_IN_ALL_REFERENCES, IDF_CORPORA["all_tokens_in_all_references"]),
            *(
                ((pair,), golden)
                for pair, golden in zip(
                    texts.SINGLE_DOCUMENT, IDF_CORPORA["single_document"], strict=True
                )
            ),
        ],
        ids=lambda value: value[0].name if isinstance(value, tuple) else "",
    )
    def test_idf_of_unusual_corpora(self, pairs, golden, baseline):
        """Every token is in every reference, or there is a single document."""
        actual = _actual(self._scorer("layer6_idf", baseline).score(*texts.columns(pairs)))
        _assert_close(actual, _expected(golden))

    def test_negative_similarities_stay_negative(self):
        # The goldens hold a pair that a matching which fills padding with 0 gets wrong.
        row = EMBEDDED["pairs"].index("negative_cosine")
        assert _expected(EMBEDDED["scores"]["layer6"])[row, 0] < -0.01


def _family_cases() -> Iterator[Any]:
    for family in FAMILIES:
        for case, golden in GOLDENS[family]["scores"].items():
            if "error" not in golden:
                yield pytest.param(family, case, id=f"{family}-{case}")


def _family_pairs(family: str) -> tuple[texts.PairCase, ...]:
    scored = set(GOLDENS[family]["scored"])
    return tuple(pair for pair in texts.FAMILY_PAIRS if pair.name in scored)


class TestFamilies:
    """Tiny random encoders, one of every architecture."""

    def test_goldens_are_of_these_texts(self):
        assert FAMILY_FILE["pairs"] == [pair.name for pair in texts.FAMILY_PAIRS]
        assert tuple(GOLDENS) == FAMILIES

    @pytest.mark.parametrize("family", FAMILIES)
    def test_model_is_the_one_of_the_goldens(self, family, tiny_folder):
        folder = tiny_folder(family)
        assert weights_digest(folder) == GOLDENS[family]["weights"]
        assert tokenizer_digest(folder) == GOLDENS[family]["files"]

    @pytest.mark.filterwarnings("ignore:This sequence already has </s>:UserWarning")  # ByT5
    @pytest.mark.parametrize("family", FAMILIES)
    def test_token_ids_equal_the_slow_tokenizer(self, family, tiny_folder):
        golden = GOLDENS[family]
        tokenizer = load_tokenizer(resolve_model(str(tiny_folder(family))), max_length="reference")
        assert tokenizer.max_length == golden["max_length"]
        assert tokenizer.pad_id == golden["special_ids"]["pad"]
        zero = {golden["special_ids"]["cls"], golden["special_ids"]["sep"]} - {None}
        assert set(tokenizer.zero_weight_ids) == zero
        assert _different_pairs(tokenizer, texts.FAMILY_PAIRS, golden["ids"]) == set()

    @pytest.mark.parametrize(("family", "case"), list(_family_cases()))
    def test_scores_of_the_golden_ids(self, family, case, tiny_folder):
        """On torch. All layers on OpenVINO are compared with torch in test_layers."""
        golden = GOLDENS[family]
        pairs = _family_pairs(family)
        rows = [FAMILY_FILE["pairs"].index(pair.name) for pair in pairs]
        candidates = [golden["ids"]["candidates"][row] for row in rows]
        references = [golden["ids"]["references"][row] for row in rows]
        tokens = TokenizedTexts.from_rows(candidates + references)
        every = case == "all_layers"
        encoder = shared_encoder(
            resolve_model(str(tiny_folder(family))),
            ScorerConfig(
                num_layers=3 if every else int(case[len("layer")]),
                all_layers=every,
                device="cpu",
                backend="torch",
            ),
        )
        (actual,) = score_pairs(
            Engine(
                encoder=encoder,
                queue=DeviceQueue.of(encoder.device),
                budget=Budget.for_device(encoder.device),
                pad_id=golden["special_ids"]["pad"],
            ),
            TextPairs(
                texts=tokens,
                candidates=np.arange(len(pairs)),
                references=np.arange(len(pairs)) + len(pairs),
            ),
            [_weights(golden, references, idf=case.endswith("_idf"))],
            Work(),
        )
        expected = _expected(golden["scores"][case])
        _assert_close(actual if every else actual[0], expected)

    @pytest.mark.filterwarnings("ignore:This sequence already has </s>:UserWarning")  # ByT5
    @pytest.mark.parametrize("family", FAMILIES)
    def test_scores_from_text(self, family, tiny_folder):
        config = ScorerConfig(
            model=str(tiny_folder(family)), num_layers=3, max_length="reference", device="cpu"
        )
        actual = _actual(BertScorer(config).score(*texts.columns(_family_pairs(family))))
        _assert_close(actual, _expected(GOLDENS[family]["scores"]["layer3"]))


def _weights(golden: dict[str, Any], references: list[list[int]], *, idf: bool) -> TokenWeights:
    if not idf:
        ids = {golden["special_ids"]["cls"], golden["special_ids"]["sep"]} - {None}
        return TokenWeights.uniform(ids)
    frequencies = DocumentFrequencies.from_tokens(TokenizedTexts.from_rows(references))
    return IdfTable(frequencies=frequencies, tokenizer="", max_length=None, corpus="").weights()


@pytest.mark.long
@pytest.mark.model
@pytest.mark.skipif(not MPNET.exists(), reason="python -m tests.support.get_mpnet gets the model")
@pytest.mark.parametrize("backend", ["torch", "openvino"])
@pytest.mark.parametrize("case", MPNET_FILE["scores"])
def test_scores_of_a_second_trained_encoder(case, backend):
    assert MPNET_FILE["pairs"] == [pair.name for pair in texts.PAIRS]
    layer, _, idf = case.removeprefix("layer").partition("_")
    config = ScorerConfig(model=str(MPNET), num_layers=int(layer), idf=bool(idf), device="cpu")
    scorer = BertScorer(replace(config, backend=backend))
    actual = _actual(scorer.score(*texts.columns(texts.PAIRS)))
    _assert_close(actual, _expected(MPNET_FILE["scores"][case]))

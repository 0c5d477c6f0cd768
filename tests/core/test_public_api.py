"""What is public stays public: a change of this list is a change of the interface."""

import ast
import inspect
import re
from pathlib import Path

import bertscore_core

PUBLIC = """
BERTScorer Baseline BaselineNotFoundError BertScoreError BertScorer ConfigError DeviceLostError
DeviceMemoryError DocumentFrequencies EMBEDDED_MODEL Explanation IdfError IdfTable InputError
ModelLoadError ModelSpec Moments PairScores PairedResult ScorerConfig Scores Settings
Signature SignatureError TextTokenizer TokenWeights TokenizedTexts UnknownLanguageError
UnknownModelError auc baseline_path choose_table compare_paired explain find_baseline
format_baseline get_model_spec greedy_match kendall known_languages known_models load_tokenizer
model_for_language parse_baseline pearson plan_batches published_baselines
replace_bert_score rescale score settle spearman
without_reasoning
"""


def test_public_names_are_frozen():
    assert sorted(bertscore_core.__all__) == sorted(PUBLIC.split())
    assert all(hasattr(bertscore_core, name) for name in bertscore_core.__all__)


def test_everything_public_is_documented():
    for name in bertscore_core.__all__:
        value = getattr(bertscore_core, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name


def _texts(tree):
    """Yield the texts of code, but for documentation: how Python writes them."""
    apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            apart |= {id(part) for part in ast.walk(node) if part is not node}
        if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in apart:
            yield ast.unparse(node)


def test_messages_name_the_argument_where_they_name_its_flag():
    """The library has no command line. What stands in backquotes is a command."""
    seen = set()
    for path in Path(bertscore_core.__file__).parent.rglob("*.py"):
        for text in _texts(ast.parse(path.read_text())):
            words = re.sub("`.*?`", "", text)
            for flag in re.findall(r"--([a-z][a-z-]+)", words):
                assert re.search(rf"(?<!-)\b{flag.replace('-', '_')}\b", words), (path, text)
                seen.add(flag)
    assert {"max-length", "num-layers", "backend", "dtype"} <= seen


def test_drop_in_takes_the_references_arguments():
    """Names, order and defaults of bert-score 0.3.13."""
    common = {"model_type": None, "num_layers": None}
    score = inspect.signature(bertscore_core.score).parameters
    assert list(score) == [
        *("cands", "refs", "model_type", "num_layers", "verbose", "idf", "device", "batch_size"),
        *("nthreads", "all_layers", "lang", "return_hash", "rescale_with_baseline"),
        *("baseline_path", "use_fast_tokenizer"),
    ]
    scorer = inspect.signature(bertscore_core.BERTScorer).parameters
    assert list(scorer) == [
        *("model_type", "num_layers", "batch_size", "nthreads", "all_layers", "idf", "idf_sents"),
        *("device", "lang", "rescale_with_baseline", "baseline_path", "use_fast_tokenizer"),
    ]
    for parameters in (score, scorer):
        assert {name: parameters[name].default for name in common} == common
        assert parameters["batch_size"].default == 64
        assert parameters["nthreads"].default == 4
    method = inspect.signature(bertscore_core.BERTScorer.score).parameters
    assert list(method) == ["self", "cands", "refs", "verbose", "batch_size", "return_hash"]

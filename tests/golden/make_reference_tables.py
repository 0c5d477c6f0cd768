"""Copy the published tables of bert-score 0.3.13 into bertscore_core/data.

The reference implementation carries three kinds of facts: which layer was tuned for which model,
which model stands for which language, and the rescaling baselines. This script reads them from
the *installed* package, so that nobody ever types a number by hand, and writes

* ``models.csv``: name, num_layers, adds_prefix_space, max_length, wmt16_pearson
* ``languages.csv``: language, model
* ``prefix_space.csv``: model_type, the architectures whose tokenizer took ``add_prefix_space=True``
* ``baselines.csv``: language, model, layer, precision, recall, f1 (digits as published)

Run it in the golden environment (see make_golden.py for how that is made)::

    /path/to/golden/bin/python tests/golden/make_reference_tables.py
"""

from __future__ import annotations

import csv
import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import bert_score
from bert_score.utils import lang2model, model2layers
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

DATA = Path(__file__).resolve().parents[2] / "bertscore_core" / "data"
SOURCE = Path(bert_score.__file__).parent
# The languages of bert-base-multilingual-cased: the 104 largest Wikipedias, by its authors' list
# (google-research/bert, multilingual.md; traditional and simplified Chinese share a code).
MULTILINGUAL_LANGUAGES = """
af an ar ast az azb ba bar be bg bn bpy br bs ca ce ceb cs cv cy da de el en es et eu fa fi
fr fy ga gl gu he hi hr ht hu hy id io is it ja jv ka kk kn ko ky la lb lmo lt lv mg min mk
ml mn mr ms my nds ne new nl nn no oc pa pl pms pnb pt ro ru scn sco sh sk sl sq sr su sv sw
ta te tg th tl tr tt uk ur uz vi vo war yo zh
"""
COLUMNS_OF_BASELINE_FILE = ["LAYER", "P", "R", "F"]

# The embedded default is not in the reference's table: that table was tuned on WMT16 for other
# models. Its layer is our own choice; 6 is the last of its layers, which is what the sentence
# model was trained to be good at. The folder carries a BERT tokenizer: no prefix space, 512 tokens.
OUR_MODELS = (("all-MiniLM-L6-v2", "6", "false", "512", ""),)

# bert-score passes `add_prefix_space=True` if, and only if, the tokenizer is an instance of the
# slow RobertaTokenizer or GPT2Tokenizer. With transformers 4.57 that is true for checkpoints of
# model type `roberta` that do not name another tokenizer class. Of the names in the table these
# are the RoBERTas, the OpenAI detectors and DistilRoBERTa and the RoBERTa flavour of SimCSE. The
# names that merely contain "roberta" are other architectures (`xlm-roberta-*`: sentencepiece,
# `google/bigbird-roberta-*`: sentencepiece). `vinai/bertweet-base` has model type `roberta` but
# its own BertweetTokenizer. BART, LED, Longformer, Blenderbot and DeBERTa use the same byte-BPE
# but their slow classes stopped being subclasses of RobertaTokenizer in transformers 4.17.
# `amazon/bort` (a BERT that was published with RoBERTa's vocabulary) is left undecided: which class
# it gets depends on what its checkpoint names, which the table does not tell.
PREFIX_SPACE_NAMES = re.compile(
    r"""
      roberta-(base|large)(-mnli|-openai-detector)?
    | distilroberta-base
    | princeton-nlp/(un)?sup-simcse-roberta-(base|large)
    """,
    re.VERBOSE,
)


UNDECIDED_NAMES = {"amazon/bort"}


def prefix_space(name: str) -> str:
    """Tell whether the reference tokenizes texts for this model with a leading space.

    Returns:
        ``true`` or ``false``; empty where the files of the checkpoint decide.
    """
    if name in UNDECIDED_NAMES:
        return ""
    return "true" if PREFIX_SPACE_NAMES.fullmatch(name) else "false"


def read_correlations(source: str) -> dict[str, str]:
    """Read the WMT16 correlation that the reference notes in a comment behind each model.

    Only comments that consist of one number count: two Turkish models carry a WMT18 figure,
    which is not comparable and is left out.
    """
    correlations: dict[str, str] = {}
    name = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING:
            name = token.string.strip("\"'")
        elif token.type == tokenize.COMMENT and name in model2layers:
            match = re.fullmatch(r"#\s*(\d\.\d+)", token.string)
            if match and name not in correlations:
                correlations[name] = match.group(1)
        if token.type in (tokenize.NL, tokenize.NEWLINE):
            name = ""
    return correlations


def model_rows() -> list[Sequence[str]]:
    """List the tuned models, our own default first."""
    correlations = read_correlations((SOURCE / "utils.py").read_text(encoding="utf-8"))
    rows: list[Sequence[str]] = list(OUR_MODELS)
    for name, layer in model2layers.items():
        rows.append((name, str(layer), prefix_space(name), "", correlations.get(name, "")))
    return rows


def baseline_files() -> list[tuple[str, str, Path]]:
    """List (language, model, file); a model with a slash in its name lies in a sub-folder."""
    root = SOURCE / "rescale_baseline"
    files = []
    for path in root.rglob("*.tsv"):
        language, *model = path.relative_to(root).with_suffix("").parts
        files.append((language, "/".join(model), path))
    return sorted(files)


def language_rows() -> list[Sequence[str]]:
    """List the languages with a model of their own, then those of the multilingual default.

    The reference takes the default for any code at all. Here it is spelt out for the languages
    that model was trained on, so that a misspelt code is an error.
    """
    rows: list[Sequence[str]] = list(lang2model.items())
    named = set(lang2model)
    default = lang2model.default_factory()
    return rows + [(code, default) for code in MULTILINGUAL_LANGUAGES.split() if code not in named]


def baseline_rows(files: Iterable[tuple[str, str, Path]]) -> list[Sequence[str]]:
    """Copy every baseline table, as text, so that no digit changes."""
    rows: list[Sequence[str]] = []
    for language, model, path in files:
        header, *lines = csv.reader(path.read_text(encoding="utf-8").splitlines())
        if header != COLUMNS_OF_BASELINE_FILE:
            raise ValueError(f"unexpected header in {path.name}: {header}")
        layers = [line[0] for line in lines]
        if layers != [str(layer) for layer in range(len(lines))]:
            raise ValueError(f"{language}/{model}: layers are not 0..n but {layers}")
        rows.extend((language, model, *line) for line in lines)
    return rows


def prefix_space_rows() -> list[Sequence[str]]:
    """List the model types whose slow tokenizer class is RobertaTokenizer or GPT2Tokenizer."""
    classes = ("RobertaTokenizer", "GPT2Tokenizer")
    return [(kind,) for kind, (slow, _) in TOKENIZER_MAPPING_NAMES.items() if slow in classes]


def write_table(
    name: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]
) -> None:
    """Write one CSV with leading comment lines that say where it comes from."""
    made = "Made by tests/golden/make_reference_tables.py; do not edit by hand."
    with (DATA / name).open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"# {note}\n" for note in (*notes, made))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    print(f"{name}: {len(rows)} rows")


def main() -> None:
    """Write the four tables."""
    DATA.mkdir(parents=True, exist_ok=True)
    source = f"Source: bert-score {version('bert-score')} (MIT licence), as installed from PyPI"
    transformers = f"transformers {version('transformers')} (Apache 2.0 licence)"
    files = baseline_files()
    write_table(
        "models.csv",
        ["name", "num_layers", "adds_prefix_space", "max_length", "wmt16_pearson"],
        model_rows(),
        [
            f"{source}, tables in bert_score/utils.py; the first row is our own.",
            "adds_prefix_space: the reference tokenizes ' ' + text for these (rule in the script);",
            "empty means that the files of the checkpoint decide.",
            "max_length: empty means that the tokenizer's own limit holds.",
            "wmt16_pearson: correlation noted beside the tuned layer; empty where none is noted.",
        ],
    )
    write_table(
        "languages.csv",
        ["language", "model"],
        language_rows(),
        [
            f"{source}, lang2model in bert_score/utils.py.",
            "The first four have a model of their own; the others take the reference's default for",
            "every other code, spelt out for the languages that model was trained on.",
        ],
    )
    write_table(
        "prefix_space.csv",
        ["model_type"],
        prefix_space_rows(),
        [
            f"Source: TOKENIZER_MAPPING_NAMES of {transformers}: the model types whose slow",
            "tokenizer is RobertaTokenizer or GPT2Tokenizer, for which the reference asks for a",
            "leading space. A checkpoint that names another tokenizer_class overrides this.",
        ],
    )
    write_table(
        "baselines.csv",
        ["language", "model", "layer", "precision", "recall", "f1"],
        baseline_rows(files),
        [
            f"{source}: {len(files)} files of bert_score/rescale_baseline.",
            "Numbers are copied as text, digit for digit.",
        ],
    )


if __name__ == "__main__":
    main()

"""The fast tokenizers of transformers 4, made from the backends of transformers 5.

bert-score uses them with `use_fast_tokenizer=True`. transformers 4 loaded them from the folder's
`tokenizer.json` without changes, or made them from the slow tokenizer's files if there was none.
transformers 5 rebuilds some classes instead. This module does both as version 4 did.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers

from bertscore_core.errors import ConfigError
from bertscore_core.model.resolve import read_json
from bertscore_core.tokenizer import legacy_rules, sentencepiece_rules

# Part of every fingerprint. Raise it if a rule changes in a way that the backend does not show.
_REVISION = 1

_MARKS = [normalizers.NFKD(), normalizers.StripAccents()]
_ONE_SPACE = normalizers.Replace(Regex(" {2,}"), " ")

# Classes whose fast tokenizer in transformers 4 was another tokenizer, or could not be loaded.
_REFUSED = {"BlenderbotSmallTokenizer"}


def apply_fast_rule(
    tokenizer: Any, *, folder: Path, stated: Mapping[str, Any]
) -> legacy_rules.LegacyRule:
    """Change a tokenizer's backend, and return what remains to be done; see `apply_legacy_rule`."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    name = type(tokenizer).__name__
    from_json = bool(read_json(folder / "tokenizer.json"))
    if name in _REFUSED:
        raise _refusal(name, folder, from_json)
    if backend is None:  # transformers 4 had no fast one either
        return legacy_rules.apply_legacy_rule(tokenizer, folder=folder, stated=stated)
    if not from_json and not _can_be_made(tokenizer):
        raise _refusal(name, folder, from_json)
    if isinstance(backend.normalizer, normalizers.BertNormalizer):
        pass  # version 5 makes the same one
    elif isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        if not from_json:  # else both are as the file has them
            legacy_rules.set_mask(tokenizer, eats=True)
            legacy_rules.set_end_mark(tokenizer)
    elif from_json:
        _take_from_json(backend, folder)
    else:
        _make_from_model(tokenizer, folder, stated)
    return legacy_rules.LegacyRule(identity=f"{_REVISION} fast")


def _refusal(name: str, folder: Path, from_json: bool) -> ConfigError:
    return ConfigError(
        f"use_fast_tokenizer=True cannot be followed: got a {name} "
        f"{'with' if from_json else 'without'} a tokenizer.json in {folder.name}; expected files "
        "whose fast tokenizer of transformers 4 is known here. Do not set use_fast_tokenizer, "
        "which is bert-score's default."
    )


def _can_be_made(tokenizer: Any) -> bool:
    name = type(tokenizer).__name__
    return (
        isinstance(tokenizer.backend_tokenizer.normalizer, normalizers.BertNormalizer)
        or name in legacy_rules.MASK_CLASSES
        or name in sentencepiece_rules.SENTENCEPIECE
    )


def _take_from_json(backend: Any, folder: Path) -> None:
    own = Tokenizer.from_file(str(folder / "tokenizer.json"))
    backend.normalizer = own.normalizer
    backend.pre_tokenizer = own.pre_tokenizer
    backend.model = own.model
    for token in own.get_added_tokens_decoder().values():
        (backend.add_special_tokens if token.special else backend.add_tokens)([token])


def _make_from_model(tokenizer: Any, folder: Path, stated: Mapping[str, Any]) -> None:
    backend, name = tokenizer.backend_tokenizer, type(tokenizer).__name__
    backend.normalizer = normalizers.Sequence(_normalizers(name, folder, stated))
    words = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    first: list[Any] = []
    if name == "PegasusTokenizer":
        first = [pre_tokenizers.WhitespaceSplit()]
    elif name == "DebertaV2Tokenizer" and stated.get("split_by_punct"):
        first = [pre_tokenizers.Punctuation(behavior="isolated")]
    backend.pre_tokenizer = pre_tokenizers.Sequence([*first, words])
    named = {token["content"] for token in sentencepiece_rules.stated_tokens(folder, stated)}
    normalized = _looked_for_twice(tokenizer)
    eaters = (
        {str(tokenizer.mask_token)} if sentencepiece_rules.SENTENCEPIECE[name].mask_eats else set()
    )
    backend.add_special_tokens(
        [
            AddedToken(token, lstrip=token in eaters, normalized=token in normalized, special=True)
            for token in sorted((eaters | normalized) - named)
        ]
    )


def _looked_for_twice(tokenizer: Any) -> set[str]:
    match type(tokenizer).__name__:
        case "BigBirdTokenizer" | "DebertaV2Tokenizer":
            return {str(tokenizer.unk_token)}
        case "MBart50Tokenizer":
            return {str(tokenizer.mask_token)}
    return set()


def _normalizers(name: str, folder: Path, stated: Mapping[str, Any]) -> list[Any]:
    # The order is that of the converters in transformers 4: it decides the ids.
    table = sentencepiece_rules.character_table(folder)
    precompiled = [normalizers.Precompiled(table)] if table else []
    traits = sentencepiece_rules.SENTENCEPIECE[name]
    lowercase = [normalizers.Lowercase()] if traits.lowercases(stated) else []
    if traits.cleans:
        quotes = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        marks = [] if stated.get("keep_accents") else _MARKS
        return [*quotes, *marks, *lowercase, *precompiled, _ONE_SPACE]
    if name == "DebertaV2Tokenizer":
        return [*lowercase, normalizers.Strip(), *precompiled, _ONE_SPACE]
    return [
        *precompiled,
        normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), "▁"),
    ]

"""How a score was made, in one line, and which versions moved scores.

Scores may be compared if their signatures are equal. The long form names its fields, the short form
abbreviates them. Both parse back to the same signature.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, get_type_hints
from urllib.parse import quote, unquote

from bertscore_core.errors import SignatureError

UPSTREAM_VERSION = "0.3.12"
"""The version in the hash string of bert-score 0.3.13."""

_HEADS = {"bertscore": False, "bs": True}

# Fields that are left out if they have this value: that of nearly all scores.
_LEFT_OUT = {"long_text": "truncate", "references": "best", "reasoning": "kept"}

ANY_BATCH = "any"
"""Written instead of a batch budget if scores do not depend on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Everything that can change a score. Beside each type is the short name of the field.

    Attributes:
        model: The model's registry name, hub id, or the last part of its folder's path.
        weights: Digest of the weight files.
        num_layers: Layer scored, or `all`.
        layer_semantics: `cut` (output of the encoder cut at the layer) or `hidden` (hidden state).
        tokenizer: Fingerprint of the tokenizer.
        prefix_space: `yes` if a space is put before each text.
        max_length: Tokens of the longest text that is scored as it is, or `unlimited`.
        long_text: What is done with longer texts, one of `windows.LONG_TEXT_RULES`. Not written if
            they are cut: `truncate`.
        references: What several references give, one of `tokens.REFERENCE_RULES`. Not written if it
            is the best of them: `best`.
        reasoning: `stripped` if the reasoning of a model is taken off its candidates. Not written
            if it is `kept`.
        idf: `none`, or fingerprint of the idf table.
        baseline: `none`, or name and fingerprint of the baseline, joined by `@`.
        empty: What a pair with an empty side scores before rescaling: `reference` for what
            bert-score gives it, `zero`, or `null` for no score.
        dtype: Number format of the encoder: `float32`; `bfloat16-true` or `float16-true` if weights
            and what flows between layers have it; `bfloat16` if matrix products alone have it
            (OpenVINO).
        batch_tokens: Requested padded tokens of a forward pass: `1024`, or `1024/4` if a small
            number of texts is cut into four batches, or `packed-1024` if texts are laid end to end.
            In float32 it is `any`, since there batches move scores by rounding alone, by at most
            1e-6.
        attention: Requested attention implementation.
        backend: What ran the encoder: `torch`, or `openvino-` and its version.
        version: Version of this package.
        torch: Version of torch.
        transformers: Version of transformers.
    """

    model: Annotated[str, "m"]
    weights: Annotated[str, "w"]
    num_layers: Annotated[str, "l"]
    layer_semantics: Annotated[str, "ls"]
    tokenizer: Annotated[str, "t"]
    prefix_space: Annotated[str, "ps"]
    max_length: Annotated[str, "ml"]
    long_text: Annotated[str, "lt"] = "truncate"
    references: Annotated[str, "r"] = "best"
    reasoning: Annotated[str, "rs"] = "kept"
    idf: Annotated[str, "i"]
    baseline: Annotated[str, "b"]
    empty: Annotated[str, "e"]
    dtype: Annotated[str, "d"]
    batch_tokens: Annotated[str, "bt"]
    attention: Annotated[str, "a"]
    backend: Annotated[str, "be"]
    version: Annotated[str, "v"]
    torch: Annotated[str, "vt"]
    transformers: Annotated[str, "vh"]

    def fields(self) -> dict[str, str]:
        """Return the fields that are written, by name and in order."""
        values: dict[str, str] = asdict(self)
        return {name: value for name, value in values.items() if _LEFT_OUT.get(name) != value}

    def format(self, *, short: bool = False) -> str:
        """Return the signature as one line of `key:value` fields joined by `|`."""
        fields = self.fields().items()
        names = (_SHORT[name] if short else name for name, _ in fields)
        # Escapes "|", ":" and line breaks, so that any value fits the form.
        values = (quote(value, safe="/@+ ,=()[]") for _, value in fields)
        head = "bs" if short else "bertscore"
        line = "|".join([head, *map(":".join, zip(names, values, strict=True))])
        # A blank at the end would not come back: `parse` takes those around the line away.
        return f"{line[:-1]}%20" if line.endswith(" ") else line

    @classmethod
    def parse(cls, text: str) -> "Signature":
        """Read a signature in its short or long form.

        Raises:
            SignatureError: the text is not a signature, or fields are missing, unknown or doubled.
        """
        head, *fields = text.strip().split("|")
        if head not in _HEADS:
            raise SignatureError(
                f"not a signature: it begins with {head[:20]!r}; expected 'bertscore|' or 'bs|'."
            )
        values: dict[str, str] = {}
        for field in fields:
            name, _, value = field.partition(":")
            name = _LONG.get(name, name) if _HEADS[head] else name
            if name in values or name not in _SHORT:
                raise SignatureError(
                    f"field {name!r} is unknown or doubled; expected each of {', '.join(_SHORT)} "
                    "once."
                )
            values[name] = unquote(value)
        values = {**_LEFT_OUT, **values}
        missing = _SHORT.keys() - values.keys()
        if missing:
            raise SignatureError(f"the signature lacks {', '.join(sorted(missing))}.")
        return cls(**values)

    def upstream_hash(self) -> str:
        """Return the hash string that bert-score prints for the same settings."""
        return upstream_hash(
            model=self.model,
            num_layers=self.num_layers,
            idf=self.idf != "none",
            rescaled=self.baseline != "none",
            custom_baseline=self.baseline.startswith(("custom@", "custom/")),
            transformers=self.transformers,
        )


# Also the list of known fields, in the order in which they are written.
_SHORT: dict[str, str] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Signature, include_extras=True).items()
}
_LONG = {short: name for name, short in _SHORT.items()}


def upstream_hash(
    *,
    model: str,
    num_layers: str,
    idf: bool,
    rescaled: bool,
    custom_baseline: bool,
    transformers: str,
    fast_tokenizer: bool = False,
) -> str:
    """Return the hash string that bert-score prints for these settings.

    References:
        bert-score 0.3.13, `get_hash`; its version stays 0.3.12 there. The transformers version is
        the one in use here.
    """
    rescaling = ("-custom-rescaled" if custom_baseline else "-rescaled") if rescaled else ""
    return (
        f"{model}_L{num_layers}_{'idf' if idf else 'no-idf'}_version={UPSTREAM_VERSION}"
        f"(hug_trans={transformers}){rescaling}{'_fast-tokenizer' if fast_tokenizer else ''}"
    )


# Which versions moved scores, and so which earlier scores may be taken over.
#
# A signature names every version that made its scores. Most new versions change no score. The ones
# that do are listed under "Scores" in CHANGELOG.md, and here.

SCORE_CHANGES: dict[str, tuple[str, ...]] = {
    "version": ("0.1.0", "0.2.0"),
    "torch": (),
    "transformers": (),
    "openvino": (),
}
"""Versions whose scores differ from those of the version before, by package, in their order.

`version` is this package: every release whose heading "Scores" in CHANGELOG.md does not begin with
"Rows keep their BERTScore in float32". The others are versions of packages of which that heading
says that they moved scores.
"""

_FREE_FIELDS = ("baseline",)
"""Fields that do not count: only raw scores are taken over."""

# Fields that may differ where scores are the same: see `_is_harmless`.
_JUDGED = (*SCORE_CHANGES, "backend", "model", "attention")
_EXACT_FIELDS = tuple(f.name for f in fields(Signature) if f.name not in (*_FREE_FIELDS, *_JUDGED))
_EXACT_DTYPE = "float32"
_DIGEST = re.compile("[0-9a-f]{12}")
_SAME_ATTENTION = {"auto", "sdpa"}


def exact_fields(signature: Signature) -> tuple[str, ...]:
    """Return the fields that must always be equal: a key to find equal settings."""
    return tuple(getattr(signature, name) for name in _EXACT_FIELDS)


def score_differences(earlier: Signature, now: Signature) -> dict[str, tuple[str, str]]:
    """Return why raw scores of one signature cannot stand for those of another.

    That is both values of each field in which they differ, by field; empty if the scores are the
    same.

    - `model` is only a name, and counts only if the digests of the weights differ or are not known.
    - `attention` does not count between `auto` and `sdpa`: where both can run, `auto` takes `sdpa`,
      or packs texts, which moves float32 by rounding alone, and which `batch_tokens` names in other
      formats. OpenVINO in these may take `eager`, and there it counts.
    - A version counts in float32 if scores moved on the way from one to the other. In other formats
      it always does: one that changes nothing else can move a score in the third digit.
    """
    before, after = asdict(earlier), asdict(now)
    return {
        name: (before[name], value)
        for name, value in after.items()
        if name not in _FREE_FIELDS
        and before[name] != value
        and not _is_harmless(name, earlier, now)
    }


def moving_fields(first: Signature, second: Signature) -> frozenset[str]:
    """Return the fields whose difference moves the scores that two signatures stand for.

    The order of the two does not matter. The baseline counts: it is the final scores that are
    compared, not those before rescaling.
    """
    older, newer = sorted((first, second), key=lambda signature: _number(signature.version))
    free = {name for name in _FREE_FIELDS if getattr(first, name) != getattr(second, name)}
    return frozenset(score_differences(older, newer)) | free


def _is_harmless(name: str, earlier: Signature, now: Signature) -> bool:
    """Tell whether a field in which two signatures differ moves no score."""
    before, after = getattr(earlier, name), getattr(now, name)
    if name == "model":
        return earlier.weights == now.weights and _DIGEST.fullmatch(now.weights) is not None
    is_exact = now.dtype == _EXACT_DTYPE
    if name == "attention":
        return {before, after} == _SAME_ATTENTION and (is_exact or now.backend == "torch")
    if name == "backend" and before.startswith("openvino-") and after.startswith("openvino-"):
        name, before, after = "openvino", before[len("openvino-") :], after[len("openvino-") :]
    if not is_exact or name not in SCORE_CHANGES:
        return False
    return not _moved(SCORE_CHANGES[name], before, after, is_own=name == "version")


def _moved(changes: Sequence[str], earlier: str, now: str, *, is_own: bool) -> bool:
    low, high = sorted((_number(earlier), _number(now)))
    if not low or (is_own and _number(earlier) > _number(now)):
        return True  # a version that cannot be read, or that this one cannot know
    return any(low < _number(change) <= high for change in changes)


def _number(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()

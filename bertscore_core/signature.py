"""How a score was made, in one line.

Scores may be compared if their signatures are equal. The long form names its fields, the short form
abbreviates them. Both parse back to the same signature.
"""

import dataclasses
from dataclasses import dataclass
from urllib.parse import quote, unquote

from bertscore_core.errors import SignatureError

UPSTREAM_VERSION = "0.3.12"
"""The version in the hash string of bert-score 0.3.13."""

# Also the list of known fields, in the order in which they are written.
_SHORT = {
    "model": "m",
    "weights": "w",
    "num_layers": "l",
    "layer_semantics": "ls",
    "tokenizer": "t",
    "prefix_space": "ps",
    "max_length": "ml",
    "long_text": "lt",
    "idf": "i",
    "baseline": "b",
    "empty": "e",
    "dtype": "d",
    "batch_tokens": "bt",
    "attention": "a",
    "backend": "be",
    "version": "v",
    "torch": "vt",
    "transformers": "vh",
}
_LONG = {short: name for name, short in _SHORT.items()}
_HEADS = {"bertscore": False, "bs": True}

# Fields that are left out if they have this value, which scores had before there was the field. So
# signatures and folders of earlier versions stay equal to those of this one.
_LEFT_OUT = {"long_text": "truncate"}

ANY_BATCH = "any"
"""Written instead of a batch budget if scores do not depend on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Everything that can change a score.

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
        idf: `none`, or fingerprint of the idf table.
        baseline: `none`, or name and fingerprint of the baseline, joined by `@`.
        empty: What a pair with an empty side scores before rescaling: `reference` for what
            bert-score gives it, `zero`, or `null` for no score.
        dtype: Number format of the encoder's matrix products.
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

    model: str
    weights: str
    num_layers: str
    layer_semantics: str
    tokenizer: str
    prefix_space: str
    max_length: str
    long_text: str = "truncate"
    idf: str
    baseline: str
    empty: str
    dtype: str
    batch_tokens: str
    attention: str
    backend: str
    version: str
    torch: str
    transformers: str

    def fields(self) -> dict[str, str]:
        """Return the fields that are written, by name and in order."""
        values: dict[str, str] = dataclasses.asdict(self)
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

        A signature older than the field `batch_tokens` gets `any` in float32. In other formats it
        gets `unknown`, which is equal to no budget.

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
        # Baselines and parts of earlier versions have such signatures, and must stay readable.
        if "dtype" in values:
            before = ANY_BATCH if values["dtype"] == "float32" else "unknown"
            values.setdefault("batch_tokens", before)
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

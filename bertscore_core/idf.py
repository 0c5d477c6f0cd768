"""Inverse document frequencies: counted in parts, merged, saved, and turned into token weights.

A document is the set of token ids of one reference, special tokens included, after stripping and
truncation. Candidates are never counted. Counts are integers, so merging is exact in any order.
"""

import copy
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from bertscore_core.errors import IdfError, load_json
from bertscore_core.sums import Sums, summed_by_key
from bertscore_core.tokens import FloatArray, IntArray, TokenIds, TokenizedTexts

_FORMAT = "bertscore-idf/1"

# Larger ids are refused. Weights are looked up in an array as long as the largest id, and the
# largest vocabularies have about 1,000,000 tokens.
_MOST_IDS = 1 << 24
# Largest size of an unpacked array: 8 bytes for each id, and a header.
_MOST_BYTES = 8 * _MOST_IDS + (1 << 16)
_MOST_DOCUMENTS = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFrequencies(Sums):
    """How many documents each token id occurs in. Merged with `merge` and `+`.

    Attributes:
        num_documents: Documents counted, N, including duplicates and empty ones.
        ids: Token ids seen, ascending. Shape (K,), int32.
        counts: Documents that hold the id. Shape (K,), int64.
    """

    num_documents: int
    ids: TokenIds
    counts: IntArray

    @classmethod
    def zero(cls) -> "DocumentFrequencies":
        """Return the frequencies of no documents, the neutral element of `+`."""
        return cls(
            num_documents=0, ids=np.zeros(0, dtype=np.int32), counts=np.zeros(0, dtype=np.int64)
        )

    @classmethod
    def from_tokens(cls, texts: TokenizedTexts) -> "DocumentFrequencies":
        """Count N documents, each as the set of its token ids."""
        # Document and id share one integer, so that one sort finds the distinct ids of them all.
        documents = np.repeat(np.arange(len(texts), dtype=np.int64), texts.lengths)
        pairs = np.sort((documents << 32) | texts.ids)
        is_first = np.ones(len(pairs), dtype=np.bool_)
        np.not_equal(pairs[1:], pairs[:-1], out=is_first[1:])
        seen = np.bincount(pairs[is_first] & 0xFFFFFFFF)
        ids = np.flatnonzero(seen)
        return cls(
            num_documents=len(texts), ids=ids.astype(np.int32), counts=seen[ids].astype(np.int64)
        )

    @classmethod
    def merge(cls, parts: Iterable["DocumentFrequencies"]) -> "DocumentFrequencies":
        """Add up the frequencies of any number of disjoint sets of documents."""
        several = list(parts) or [cls.zero()]
        columns = ([getattr(part, name) for part in several] for name in ("ids", "counts"))
        ids, counts = summed_by_key(*map(np.concatenate, columns))
        documents = sum(part.num_documents for part in several)
        return cls(num_documents=documents, ids=ids, counts=counts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DocumentFrequencies)
            and self.num_documents == other.num_documents
            and np.array_equal(self.ids, other.ids)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWeights:
    """The weight of every token id.

    Attributes:
        table: Weight of id v at `table[v]`, NaN if it has none. Shape (V,), float64.
        default: Weight of every id outside the table, NaN if they have none.
        weightless_score: Precision or recall of a text whose tokens all weigh 0: NaN, as in
            bert-score, or 0.
    """

    table: npt.NDArray[np.float64]
    default: float
    weightless_score: float = math.nan

    def of(self, ids: TokenIds) -> FloatArray:
        """Look up the weights of token ids. Shape as `ids`, float32.

        Raises:
            IdfError: an id has no weight.
        """
        # Ids outside the table must not index it, although their value is not used.
        inside = ids < len(self.table)
        weights = np.where(inside, self.table[np.where(inside, ids, 0)], self.default)
        if np.isnan(weights).any():
            unknown = np.unique(ids[np.isnan(weights)])
            raise IdfError(
                f"{len(unknown)} token ids have no weight, such as {unknown[0]}; expected one for "
                "every token of every text. Give a defaultdict that says what others weigh."
            )
        return weights.astype(np.float32)

    @classmethod
    def uniform(
        cls, zero_weight_ids: Iterable[int], *, weightless_score: float = math.nan
    ) -> "TokenWeights":
        """Give every token weight 1, except the ids given (separator and classifier): weight 0.

        References:
            bert-score 0.3.13: without idf only `sep_token_id` and `cls_token_id` have weight 0, so
            other special tokens (T5's end mark, mBART's language code) count fully.
        """
        zeros = sorted(zero_weight_ids)
        table = np.ones(max(zeros, default=0) + 1)
        table[zeros] = 0.0
        return cls(table=table, default=1.0, weightless_score=weightless_score)

    @classmethod
    def from_mapping(
        cls, weights: Mapping[int | None, float], default: float | None = None, *, num_ids: int = 0
    ) -> "TokenWeights":
        """Take the weights from a mapping of token id to weight.

        Args:
            weights: Weight by token id. Keys that are not token ids, such as None, are ignored.
            default: Weight of all other ids; None if they have none.
            num_ids: A copy of a mapping with `__missing__`, such as a defaultdict, is asked for the
                ids below this.
        """
        known = {int(key): value for key, value in weights.items() if _is_token(key)}
        if hasattr(weights, "__missing__"):
            asked = copy.copy(weights)  # a defaultdict would grow by every key asked for
            for token in range(num_ids):
                if token not in known:
                    with suppress(KeyError):
                        known[token] = asked[token]
        other = float("nan") if default is None else default
        table = np.full(max(known, default=0) + 1, other)
        table[list(known.keys())] = list(known.values())
        return cls(table=table, default=other)


def _is_token(key: object) -> TypeGuard[int]:
    return isinstance(key, Integral) and int(key) >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRows:
    """Which rows of a corpus were counted, if not all.

    Attributes:
        key_columns: Rows that are equal in these columns counted once; empty if each one counted.
        rows: Rows whose references could be counted.
        duplicates: Rows left out, since another row of their key was counted.
        conflicts: Rows among these whose references differ from those that were counted.
        without_key: Rows with no value in a key column; each of them was counted.
    """

    key_columns: tuple[str, ...] = ()
    rows: int = 0
    duplicates: int = 0
    conflicts: int = 0
    without_key: int = 0

    def __add__(self, other: "CountedRows") -> "CountedRows":
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return CountedRows(**sums | {"key_columns": self.key_columns or other.key_columns})


# Without slots, in which `cached_property` has no place to keep its value.
@dataclass(frozen=True, kw_only=True, eq=False)
class IdfTable:
    """Document frequencies of a corpus, and the tokenizer they were counted with.

    Attributes:
        tokenizer: Fingerprint of the tokenizer.
        max_length: Truncation length in tokens; None if texts were not cut.
        corpus: Name or digest of what was counted.
        counted: Which rows were counted; None if all were. It changes no weight.
    """

    frequencies: DocumentFrequencies
    tokenizer: str
    max_length: int | None
    corpus: str = ""
    counted: CountedRows | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that changes a weight. 16 hexadecimal digits."""
        # Without `corpus`, which is only a name, and `counted`, which the counts follow from.
        head = json.dumps(
            [_FORMAT, self.frequencies.num_documents, self.tokenizer, self.max_length]
        )
        digest = hashlib.sha256(head.encode())
        # Little-endian, so that the digest is the same on every platform.
        digest.update(self.frequencies.ids.astype("<i4").tobytes())
        digest.update(self.frequencies.counts.astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def weights(self) -> TokenWeights:
        """Turn frequencies into weights: ln((N + 1) / (df + 1)), and ln(N + 1) for unseen ids.

        Special tokens are in every document, so their weight is exactly 0.

        References:
            Zhang et al. 2020, section 3, with the plus-one smoothing of bert-score 0.3.13.
        """
        documents = self.frequencies.num_documents
        # In float64, and float32 only when looked up, as bert-score does.
        default = math.log(documents + 1)
        table = np.full(int(self.frequencies.ids.max(initial=0)) + 1, default)
        table[self.frequencies.ids] = np.log((documents + 1) / (self.frequencies.counts + 1))
        return TokenWeights(table=table, default=default)

    def check_fits(self, tokenizer: str, max_length: int | None) -> None:
        """Check that the table was counted with this tokenizer and truncation.

        Raises:
            IdfError: it was counted with others; its weights would belong to other tokens.
        """
        if (self.tokenizer, self.max_length) != (tokenizer, max_length):
            raise IdfError(
                "the idf table does not fit the model: it was counted with tokenizer "
                f"{self.tokenizer} at length {self.max_length}; the model has {tokenizer} at "
                f"length {max_length}. Count it again with `bertscore-beam idf` and this model."
            )

    def to_bytes(self) -> bytes:
        """Return the table as an .npz archive, without pickled objects."""
        head: dict[str, Any] = {
            "format": _FORMAT,
            "tokenizer": self.tokenizer,
            "max_length": self.max_length,
            "corpus": self.corpus,
            "num_documents": self.frequencies.num_documents,
        }
        if self.counted is not None:
            head["counted"] = asdict(self.counted)
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            head=np.frombuffer(json.dumps(head).encode(), dtype=np.uint8),
            ids=self.frequencies.ids,
            counts=self.frequencies.counts,
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "the given bytes") -> "IdfTable":
        """Read a table written by `to_bytes`.

        Raises:
            IdfError: the bytes are not a table, or hold values that no count gives.
        """
        try:
            if data[:2] != b"PK":
                raise ValueError("it is no .npz archive")
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                head = load_json(_read_array(archive, "head").tobytes())
                ids, counts = _read_array(archive, "ids"), _read_array(archive, "counts")
            if head["format"] != _FORMAT:
                raise ValueError(f"format {head['format']}")
            documents = head["num_documents"]
            if (counted := head.get("counted")) is not None:
                counted = CountedRows(**counted | {"key_columns": tuple(counted["key_columns"])})
            frequencies = DocumentFrequencies(
                num_documents=documents, ids=ids.astype(np.int32), counts=counts.astype(np.int64)
            )
            stated = {name: head[name] for name in ("tokenizer", "max_length", "corpus")}
            table = cls(frequencies=frequencies, counted=counted, **stated)
            _check_types(table)
            _check_counts(ids, counts, documents)
            return table
        except Exception as error:
            raise IdfError(
                f"{source} is not an idf table of this project ({str(error)[:200]}); expected a "
                "file written by `bertscore-beam idf`. Make it with that command."
            ) from error


def _read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    # Without trusting the size that it states.
    with archive.open(f"{name}.npy") as member:
        data = member.read(_MOST_BYTES + 1)  # one more than allowed shows that there is more
    if len(data) > _MOST_BYTES:
        raise ValueError(f"{name} unpacks to more than {_MOST_BYTES} bytes")
    array: npt.NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return array


def _check_types(table: IdfTable) -> None:
    # By `type`, since True is an `int`, too.
    length, counted = table.max_length, table.counted or CountedRows()
    numbers = [table.frequencies.num_documents, 0 if length is None else length]
    numbers += [counted.rows, counted.duplicates, counted.conflicts, counted.without_key]
    if length == 0 or not all(
        type(number) is int and 0 <= number < _MOST_DOCUMENTS for number in numbers
    ):
        raise ValueError("a number of documents or rows, or the length, is not a valid number")
    if not all(type(text) is str for text in (table.tokenizer, table.corpus, *counted.key_columns)):
        raise ValueError("the tokenizer, the corpus or a column is not a text")


def _check_counts(ids: npt.NDArray[Any], counts: npt.NDArray[Any], documents: int) -> None:
    for name, values in (("ids", ids), ("counts", counts)):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise ValueError(f"{name} is not a list of whole numbers")
    if len(ids) != len(counts):
        raise ValueError(f"{len(ids)} ids and {len(counts)} counts")
    if len(ids) == 0:
        return
    # Ascending, so without duplicates: only one weight of a duplicate would be used.
    if (ids[1:] <= ids[:-1]).any() or ids[0] < 0 or ids[-1] >= _MOST_IDS:
        raise ValueError(f"ids that do not ascend from 0 to less than {_MOST_IDS}")
    if counts.min() < 1 or counts.max() > documents:
        raise ValueError(f"counts that are not from 1 to the number of documents, {documents}")

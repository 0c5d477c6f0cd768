"""What reading a text file says beside its rows: where each begins, and which are no rows."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bertscore_beam.dump.texts import Reason

MOST_DROPPED = 100
"""Most names of dropped fields that are kept: a JSON object may use ids as names."""
OTHER_FIELDS = "(other fields)"


def fewer_names(dropped: Mapping[str, int]) -> dict[str, int]:
    """Return the first dropped fields by name, and the number of all others under one name.

    Applied to parts of a sum and to the sum, in any order, it gives the same.
    """
    names = sorted(dropped.keys() - {OTHER_FIELDS})
    kept = {name: dropped[name] for name in names[:MOST_DROPPED]}
    others = sum(dropped[name] for name in names[MOST_DROPPED:]) + dropped.get(OTHER_FIELDS, 0)
    return kept | ({OTHER_FIELDS: others} if others else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """Why a line could not be read as a row.

    Attributes:
        reason: In one word.
        message: In a sentence without the line's content; "" if there is no more to say.
    """

    reason: Reason
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The lines that the rows of a split were read from.

    Attributes:
        offsets: First byte of each row in the file, decompressed. Shape (rows,).
        bad: Rows that could not be read, by position. All their columns are null.
        dropped: Fields that are no columns, with the number of rows that have them; joined lines
            have `fewer_names`.
    """

    offsets: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    bad: Mapping[int, BadLine] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def join(cls, pieces: Iterable["Lines"]) -> "Lines":
        """Return the lines of several runs of rows, one after the other."""
        offsets: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
        bad: dict[int, BadLine] = {}
        dropped: Counter[str] = Counter()
        rows = 0
        for piece in pieces:
            offsets.append(piece.offsets)
            bad.update({rows + row: line for row, line in piece.bad.items()})
            dropped.update(piece.dropped)
            rows += len(piece.offsets)
        return cls(offsets=np.concatenate(offsets), bad=bad, dropped=fewer_names(dropped))

    @property
    def reasons(self) -> dict[int, str]:
        """The reason of each row that could not be read, by position."""
        return {row: str(line.reason) for row, line in self.bad.items()}

    def digest(self) -> str:
        """Digest the places of the rows and the reasons; 16 hexadecimal digits."""
        whole = hashlib.sha256(self.offsets.astype("<i8").tobytes())
        whole.update(repr(sorted((row, line.reason) for row, line in self.bad.items())).encode())
        return whole.hexdigest()[:16]

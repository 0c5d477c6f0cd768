"""Fonts for a picture: those that have its characters, and numbers where no font has them."""

from functools import cache

# Of the same design as most text first; then whatever is installed.
_BASE = "DejaVu Sans"
# Has a frame with a number for every character there is, so it would hide what is missing.
_PLACEHOLDERS = "Last Resort"


def families_for(text: str) -> tuple[list[str], set[str]]:
    """Choose installed fonts that together have the characters of a text.

    Args:
        text: The text.

    Returns:
        The families for matplotlib, in order, and the characters that none of them has.
    """
    families, missing = [_BASE], {one for one in text if not one.isspace()}
    missing -= _characters(_path_of(_BASE))
    if not missing:
        return families, missing
    for name, path in _installed():
        found = missing & _characters(path)
        if found:
            families.append(name)
            missing -= found
        if not missing:
            break
    return families, missing


def drawable(text: str, missing: set[str]) -> str:
    """Return a text in which characters without a font are given by number, such as U+1F642."""
    return "".join(f"U+{ord(one):04X} " if one in missing else one for one in text).strip()


def _path_of(family: str) -> str:
    from matplotlib.font_manager import findfont

    return str(findfont(family))


@cache
def _installed() -> tuple[tuple[str, str], ...]:
    """Return the upright fonts of this machine, by name and path."""
    from matplotlib.font_manager import fontManager

    found: dict[str, str] = {}
    for font in fontManager.ttflist:
        if font.style == "normal" and not font.name.startswith(_PLACEHOLDERS):
            found.setdefault(font.name, font.fname)
    return tuple(sorted(found.items()))


@cache
def _characters(path: str) -> frozenset[str]:
    """Return the characters that a font has; none if it cannot be opened."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (OSError, RuntimeError):  # a damaged font is no reason to draw nothing
        return frozenset()

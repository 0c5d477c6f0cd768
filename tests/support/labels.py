"""Where the labels of a chart lie, if it is shown with another font than it was drawn for."""

import re
from math import cos, radians, sin
from typing import NamedTuple
from xml.etree import ElementTree

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

_STEP = re.compile(r"(translate|rotate)\(([-\d.e]+)[, ]*([-\d.e]*)[^)]*\)")
_TEXT = "{http://www.w3.org/2000/svg}text"
_ALIGN = {"start": 0.0, "middle": 0.5, "end": 1.0}


class Label(NamedTuple):
    """A label and the box around it, in pixels of the chart."""

    words: str
    left: float
    top: float
    right: float
    bottom: float


def label_boxes(svg: str, font: str) -> list[Label]:
    """Return every label of a chart with the box that it takes in a font."""
    boxes: list[Label] = []
    _walk(ElementTree.fromstring(svg), (1.0, 0.0, 0.0, 0.0), FontProperties(font), boxes)  # noqa: S314 (our own)
    return boxes


def _walk(
    element: ElementTree.Element,
    place: tuple[float, float, float, float],
    font: FontProperties,
    boxes: list[Label],
) -> None:
    """Follow the element with the cosine and sine of its angle, and its origin."""
    c, s, x, y = place
    for kind, first, second in _STEP.findall(element.get("transform", "")):
        if kind == "translate":
            dx, dy = float(first), float(second or 0)
            x, y = x + c * dx - s * dy, y + s * dx + c * dy
        else:
            angle = radians(float(first))
            c, s = c * cos(angle) - s * sin(angle), s * cos(angle) + c * sin(angle)
    words = "".join(element.itertext()).strip("\u2068\u2069") if element.tag == _TEXT else ""
    if words:
        size = float(element.get("font-size", "12px").removesuffix("px"))
        plain = re.sub("[\u2068\u2069]", "", words)
        width = TextPath((0, 0), plain, size=size, prop=font).get_extents().x1
        start = -width * _ALIGN[element.get("text-anchor", "start")]
        corners = [
            (x + c * dx - s * dy, y + s * dx + c * dy)
            for dx in (start, start + width)
            for dy in (-0.8 * size, 0.2 * size)
        ]
        across, down = zip(*corners, strict=True)
        boxes.append(Label(plain, min(across), min(down), max(across), max(down)))
    for child in element:
        _walk(child, (c, s, x, y), font, boxes)

"""The picture of layers: what it shows, and that names in it are data."""

import re
from itertools import product

import vl_convert

from bertscore_beam.pages.charts import layers_chart, png
from bertscore_beam.tune.tune_results import MEAN

HOSTILE = (
    '"', "'", "$x_a$", "<b>&amp;</b>", "{{ 1 }}", "{% x %}", '"]; datum.value; ["', "%s", "`${1}`",
    "a\nb\x1b[31m", "\u202eb\ufffe", "x" * 300, "</text><script>", "14th", "15th",
)  # fmt: skip


def agreement(groups, models=("tiny", 'a "model" <i>$y$'), layers=range(3)):
    """Return rows of results as `tune` has them."""
    return [
        {"group": group, "model": model, "idf": idf, "layer": layer, "measure": measure}
        | {"statistic": "system_pearson", "value": 0.3 + layer / 10, "low": 0.2, "high": 0.7}
        for group, model, idf, layer, measure in product(
            groups, models, ("none", "corpus"), layers, ("precision", "recall", "f1")
        )
    ]


def drawn(rows, overall):
    """Return a picture as SVG, and the texts in it."""
    svg = vl_convert.vegalite_to_svg(
        layers_chart(rows, "system_pearson", overall), vl_version="6.4", allowed_base_urls=[]
    )
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    marks = ("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&amp;", "&")
    for mark, character in marks:
        texts = [text.replace(mark, character) for text in texts]
    return svg, [text.translate(dict.fromkeys((0x2068, 0x2069))) for text in texts]


def test_the_picture_of_layers_has_a_line_for_each_setting_and_group():
    svg, texts = drawn(agreement([MEAN, *HOSTILE]), MEAN)
    assert texts[:4] == ["0", "1", "2", "layer (0: the embeddings)"]
    assert texts.count("layer (0: the embeddings)") == 2
    assert texts.count("agreement with people (system pearson)") == 2
    assert {MEAN, "F1 of tiny in each group", "F1", "recall", "precision"} <= {*texts}
    models = {"tiny", "tiny, idf", 'a "model" <i>$y$', 'a "model" <i>$y$, idf'}
    groups = {"$x_a$", "<b>&amp;</b>", "{{ 1 }}", "{% x %}", '"]; datum.value; ["', "%s", "`${1}`"}
    assert models | groups | {'"', "'", r"a\nb\x1b[31m", r"\u202eb\ufffe"} <= {*texts}
    assert any(text.startswith("xxxx") and text.endswith("…") for text in texts)
    assert "15th" not in texts  # the first 14 groups are shown
    # Bands, precision and recall, and F1 of four settings; then F1 of groups.
    layers = ("concat_0_layer_0", "concat_0_layer_1", "concat_0_layer_2", "concat_1_layer_0")
    assert [svg.count(f"{layer}_marks") for layer in layers] == [4, 8, 4, 14]


def test_equal_values_are_on_the_axis_and_every_setting_in_the_legend():
    models = [f"model {number}" for number in range(35)]
    rows = agreement([MEAN, "a", "b"], models)
    _, texts = drawn([row | {"value": 0.85, "low": 0.85, "high": 0.85} for row in rows], MEAN)
    assert texts.count("0.85") == 2
    assert {*models} <= {*texts}


def test_one_group_has_one_panel():
    _, texts = drawn(agreement(["all rows"]), "all rows")
    assert texts.count("layer (0: the embeddings)") == 1
    assert "all rows" in texts


def test_values_that_are_none_leave_gaps():
    rows = agreement(["all rows"], layers=[0])
    rows[2] |= {"value": float("nan"), "low": None, "high": None}
    _, texts = drawn(rows, "all rows")
    assert "tiny" in texts
    picture = png(layers_chart(rows, "auc", "all rows"))
    assert picture.startswith(b"\x89PNG")
    assert picture == png(layers_chart(rows, "auc", "all rows"))

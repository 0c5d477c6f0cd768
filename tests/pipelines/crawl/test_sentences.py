import time
import unicodedata

import pytest
import sentencex
from hypothesis import given, strategies as st

from bertscore_beam.crawl.filters import has_form
from bertscore_beam.crawl.sentences import (
    MAX_LINE_CHARACTERS,
    MAX_LINE_MARKS,
    is_kept,
    normalize,
    page_language,
    page_sentences,
    split_sentences,
)
from tests.support.crawl_texts import HEADER_CODES, page_text, sentences, written

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=[]))
LANGUAGES = ("en", "zh", "th", "km", "hi", "xx")


def split(text: str, language: str) -> list[str]:
    return [normalize(piece) for piece in split_sentences(text, language)]


def test_language_of_a_page_is_that_of_its_header_or_its_start():
    german = "Das Schiff legt mittags ab, sagte sie.\n" * 60
    assert page_language(german, ("eng", "deu")) == "en"
    assert page_language(german, ("yue", "eng")) is None
    assert page_language(german + "The ferry leaves at noon.\n" * 1_000, ()) == "de"
    assert page_language("\0" + german, ()) == "de"
    assert page_language("1 2 3", ()) is None


def test_line_is_a_paragraph():
    text = "The ferry leaves\nat noon today. It is\r\nlate again this week.\n"
    assert split(text, "en") == ["at noon today.", "It is", "late again this week."]


@pytest.mark.parametrize(("language", "pieces", "text"), written("texts.tsv"))
def test_lines_are_split_where_sentences_end(language, pieces, text):
    assert len(split(text, language)) == int(pieces)
    assert normalize("".join(split(text, language)).replace(" ", "")) == text.replace(" ", "")


def test_lines_that_are_too_long_or_short_or_full_of_marks_are_left_out():
    text = f"Home\nAbout us\n{'x. ' * MAX_LINE_CHARACTERS}\n\nThe ferry leaves at noon.\n"
    assert split(text, "en") == ["The ferry leaves at noon."]
    longest = ("The ferry leaves at noon. " * 400)[:MAX_LINE_CHARACTERS]
    assert len(split(longest, "en")) > 100
    assert split(longest + "x", "en") == []
    prose = "The ferry leaves the island at noon. "
    most = prose + "“(«" * (MAX_LINE_MARKS // 3) + "!"  # the full stop of the prose counts too
    assert len(split(most, "en")) > 0
    assert split(most + "!", "en") == []
    # Vowel signs and the like are no marks of punctuation.
    assert len(split("नाव दोपहर में निकलती है। " * 190, "hi")) == 190


def test_menu_of_a_language_without_marks_is_left_out():
    menu = "เกี่ยวกับเราวันนี้\nติดต่อเราได้ที่นี่\n"
    prose = "เรือข้ามฟากออกเดินทางตอนเที่ยงวัน ไม่มีใครรู้ว่าทำไมเรือถึงสาย"
    assert list(page_sentences(menu + prose, "th")) == prose.split()


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u3000"])
@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Carrots hold vitamin A_. Oranges hold vitamin C_. Nobody knows why."),
        ("fr", "La carotte a la vitamine A_. Personne ne sait_: pourquoi_? Parce que_!"),
        ("hi", "गाजर में विटामिन A_. कोई नहीं जानता।"),
        ("zh", "没有人知道为什么。胡萝卜含有维生素 A_."),
    ],
)
def test_wide_white_space_at_which_the_splitter_panics_is_split_as_a_blank(language, text, space):
    wide, plain = text.replace("_", space), text.replace("_", " ")
    with pytest.raises(BaseException, match="is not a char boundary"):
        sentencex.segment(language, wide)
    assert list(split_sentences(wide, language)) == sentencex.segment(language, plain)
    assert "".join(split_sentences(wide, language)) == plain


def test_line_at_which_the_splitter_panics_is_left_out(monkeypatch):
    segment = sentencex.segment

    def panicking(language: str, line: str) -> list[str]:
        # No line is known that panics once its white space is blanks, so one gets it back.
        return segment(language, line.replace("vitamin A .", "vitamin A\u00a0."))

    monkeypatch.setattr(sentencex, "segment", panicking)
    text = "The ferry leaves at noon.\nCarrots hold vitamin A .\nIt was late again today."
    kept = ["The ferry leaves at noon.", "It was late again today."]
    assert list(page_sentences(text, "en")) == kept


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
def test_what_is_no_panic_is_not_swallowed(monkeypatch, error):
    def failing(language: str, line: str) -> list[str]:
        raise error

    monkeypatch.setattr(sentencex, "segment", failing)
    with pytest.raises(error):
        split("The ferry leaves at noon.", "en")


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("  The \t ferry\u00a0leaves \r\n", "The ferry leaves"),
        ("cafe\u0301", "café"),
        ("soft\u00adhyphen zero\u200bwidth \ufeffmark", "softhyphen zerowidth mark"),
        ("\u202bright to left\u202c\u200f", "right to left"),
        ("a\0b\x1fc\x7fd\x85e\x9ff", "a b c d e f"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # Persian needs it
        ("क्\u200dष", "क्\u200dष"),  # so does Hindi
        ("\u0600\u0661", "\u0600\u0661"),  # a format character that is seen
        ("Τι ώρα είναι\u037e", "Τι ώρα είναι;"),
        ("a\ud800b\udfffc", "abc"),
        ("a\ufdd0b\uffffc\U0001fffed", "abcd"),
        ("e\u200b\u0301", "é"),  # composed after what stood between is gone
        ("\u3000全角　の空白\u3000", "全角 の空白"),
        ("", ""),
    ],
)
def test_sentences_have_one_form(text, normalized):
    assert normalize(text) == normalized


@given(ANY_TEXT)
def test_normalizing_twice_is_normalizing_once(text):
    once = normalize(text)
    assert normalize(once) == once
    assert once.encode().decode() == once
    assert unicodedata.is_normalized("NFC", once)
    assert not any(unicodedata.category(character) == "Cc" for character in once)


@pytest.mark.parametrize("language", HEADER_CODES)
def test_prose_of_a_page_is_kept_and_the_rest_dropped(language):
    fit = page_sentences(page_text(language, 40, seed=3), language)
    result = {sentence for sentence in fit if is_kept(sentence, language)}
    prose = set(sentences(language, 40, seed=3))
    notice = {"We use cookies to give you a better experience on this website."}
    assert len(prose & result) >= 38
    assert result <= prose | notice


@given(ANY_TEXT, st.sampled_from(LANGUAGES))
def test_no_page_raises_and_sentences_are_normalized(text, language):
    result = list(page_sentences(text, language))
    assert all(normalize(sentence) == sentence for sentence in result)
    assert all(has_form(sentence, language) for sentence in result)


@pytest.mark.parametrize(
    "unit", ["[(", '"', "“(", "'“'", "a. ", "word ", "A.B.", "។", "ก ", "Home\n", "。"]
)
@pytest.mark.parametrize("language", ["en", "km", "th", "zh"])
def test_long_lines_cost_little(unit, language):
    line = (unit * MAX_LINE_CHARACTERS)[:MAX_LINE_CHARACTERS]
    started = time.process_time()
    list(page_sentences("\n".join([line] * 20), language))
    assert time.process_time() - started < 2.0

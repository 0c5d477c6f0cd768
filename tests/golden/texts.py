"""The texts that the golden scores are made of.

All sentences were written for this file. Each case pins something: a script, a rule of the
reference implementation, or an edge that users meet. Invisible characters are written as escapes,
so that an editor cannot lose them.
"""

from __future__ import annotations

from typing import NamedTuple


class PairCase(NamedTuple):
    """One candidate and one reference."""

    name: str
    candidate: str
    reference: str


class MultiReferenceCase(NamedTuple):
    """One candidate and several references."""

    name: str
    candidate: str
    references: tuple[str, ...]


_LONG_CANDIDATE = " ".join(
    f"On day {day} the harbour pilot noted wind, tide and the {ship} at berth {day % 7}."
    for day, ship in enumerate(("barge", "tug", "ferry", "trawler", "schooner") * 9, start=1)
)
_PARAGRAPH_CANDIDATE = " ".join(_LONG_CANDIDATE.split()[:90])

_LONG_REFERENCE = " ".join(
    f"Entry {day}: the pilot of the harbour wrote down the tide and saw a {ship} leave."
    for day, ship in enumerate(("tug", "barge", "trawler", "ferry", "yacht") * 9, start=1)
)
_PARAGRAPH_REFERENCE = " ".join(_LONG_REFERENCE.split()[:80])

PLAIN_PAIRS: tuple[PairCase, ...] = (
    PairCase("english", "The cat slept on the warm roof.", "A cat was asleep on the hot roof."),
    PairCase("english_cased", "Ana met IBM in New York.", "ana met ibm in new york"),
    PairCase("english_far", "The orchestra tuned up.", "Copper prices fell again on Monday."),
    PairCase("numbers", "It costs 1,299.50 euros.", "The price is 1299.5 EUR."),
    PairCase("punctuation", "Wait... what?! (No way)", "Wait, what - no way!"),
    PairCase("hyphens", "a well-known state-of-the-art tool", "a wellknown state of the art tool"),
    PairCase("quotes", "She said ``hello'' and left.", 'She said "hello" and left.'),
    PairCase("apostrophe", "They don't know it isn't ours.", "They do not know it is not ours."),
    PairCase("address", "Write to lena@example.org now", "See https://example.org/a?b=1 now"),
    PairCase("code", "if x >= 10: return x_1", "if (x > 9) return x1;"),
    PairCase("german", "Die Straße war über Nacht gefroren.", "Über Nacht fror die Strasse zu."),
    PairCase("french", "L'été dernier, j'ai appris à nager.", "J'ai appris à nager cet été-là."),
    PairCase("spanish", "¿Dónde está el niño pequeño?", "¿En qué sitio está el niño?"),
    PairCase("turkish", "İstanbul'da ılık bir akşam", "Istanbul'da ılık akşam vakti"),
    PairCase("vietnamese", "Trời hôm nay rất đẹp.", "Hôm nay trời đẹp lắm."),
    PairCase("polish", "Żółta łódź płynie w dół rzeki.", "W dół rzeki płynęła żółta łódka."),
    PairCase("russian", "Вчера вечером шёл сильный дождь.", "Вечером был сильный ливень."),
    PairCase("ukrainian", "Її кіт їсть рибу щоранку.", "Кожного ранку кіт їсть рибу."),
    PairCase("greek", "Ο καφές είναι πολύ ζεστός.", "Αυτός ο καφές καίει."),
    PairCase("greek_final_sigma", "ΟΔΟΣ ΣΟΦΟΣ", "οδος σοφος"),
    PairCase("armenian", "Բարև, ինչպե՞ս ես այսօր", "Բարև, լա՞վ ես"),
    PairCase("georgian", "დღეს კარგი ამინდია", "ამინდი დღეს კარგია"),
    PairCase("arabic", "الطقس جميل اليوم في المدينة.", "اليوم الجو جميل."),
    PairCase("arabic_marks", "كَتَبَ الوَلَدُ", "كتب الولد"),
    PairCase("persian", "می\u200cخواهم کتاب بخوانم", "میخواهم کتاب بخوانم"),
    PairCase("hebrew", "הספר נמצא על השולחן.", "על השולחן מונח ספר."),
    PairCase("hindi", "बच्चे पार्क में खेल रहे हैं।", "पार्क में बच्चे खेलते हैं।"),
    PairCase("tamil", "இன்று மழை பெய்கிறது", "மழை இன்று பெய்தது"),
    PairCase("thai", "วันนี้อากาศดีมาก", "อากาศวันนี้ดี"),
    PairCase("chinese", "今天天气很好，我们去公园。", "今天天气不错，去公园走走。"),
    PairCase("japanese", "昨日は図書館で本を読みました。", "きのう図書館で本をよんだ。"),
    PairCase("japanese_halfwidth", "ｶﾀｶﾅ ﾃｽﾄ", "カタカナ テスト"),
    PairCase("korean", "오늘 아침에 비가 왔어요.", "아침에 비가 내렸습니다."),
    PairCase("mixed_scripts", "The 東京 tower と café", "東京タワー and the cafe"),
)
"""Ordinary sentences in many scripts."""

EDGE_PAIRS: tuple[PairCase, ...] = (
    PairCase("identical", "Rivers bend around old stones.", "Rivers bend around old stones."),
    PairCase("leading_spaces", "   rivers bend", "rivers bend"),
    PairCase("trailing_spaces", "rivers bend  \n", "rivers bend\t"),
    PairCase("inner_spaces", "rivers  bend   slowly", "rivers bend slowly"),
    PairCase("inner_newline_tab", "rivers\nbend\tslowly", "rivers bend slowly"),
    PairCase("no_break_space", "\u00a0rivers\u00a0bend\u00a0", "rivers bend"),
    PairCase("ideographic_space", "\u3000河\u3000流\u3000", "河 流"),
    PairCase("zero_width_space", "\u200brivers\u200bbend\u200b", "rivers bend"),
    PairCase("only_zero_width_space", "\u200b", "rivers bend"),
    PairCase("byte_order_mark", "\ufeffrivers bend", "rivers bend\ufeff"),
    PairCase("file_separator", "\x1crivers\x1dbend\x1f", "rivers bend"),
    PairCase("control_characters", "riv\x00ers\x07 bend\x7f", "rivers bend"),
    PairCase("replacement_character", "riv\ufffders bend", "rivers bend"),
    PairCase("line_separator", "rivers\u2028bend\u2029slowly", "rivers bend slowly"),
    PairCase("empty_candidate", "", "rivers bend"),
    PairCase("empty_reference", "rivers bend", ""),
    PairCase("both_empty", "", ""),
    PairCase("blank_candidate", " \t\u00a0 ", "rivers bend"),
    PairCase("one_token", "a", "a"),
    PairCase("one_token_against_many", "a", "rivers bend around old stones"),
    PairCase("one_mark", ".", "rivers"),
    PairCase("long_candidate", _LONG_CANDIDATE, "The pilot kept a diary of the harbour."),
    PairCase("long_reference", "The pilot kept a diary of the harbour.", _LONG_REFERENCE),
    PairCase("long_both", _LONG_CANDIDATE, _LONG_REFERENCE),
    PairCase("paragraph_both", _PARAGRAPH_CANDIDATE, _PARAGRAPH_REFERENCE),
    PairCase("long_word", "z" * 150 + " bend", "zzz bend"),
    PairCase("literal_eos", "rivers </s> bend", "rivers bend </s>"),
    PairCase("literal_sep", "rivers [SEP] bend", "[CLS] rivers bend"),
    PairCase("literal_unk", "rivers <unk> bend", "rivers [UNK] bend"),
    PairCase("literal_pad", "rivers <pad> bend", "rivers [PAD] bend"),
    PairCase("literal_mask", "rivers <mask> bend", "[MASK] rivers bend"),
    PairCase("mask_first", "<mask> bend", "<mask>bend"),
    PairCase("tag_like", "<s>rivers</s>", "<b>rivers</b>"),
    PairCase("unknown_words", "qzxj vwkq \U0001f9ff", "rivers bend"),
    PairCase("emoji", "Great job \U0001f600\U0001f44d", "Well done \U0001f642"),
    PairCase(
        "emoji_sequences",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 at \u2764\ufe0f \U0001f1ee\U0001f1f3",
        "a family \U0001f44b\U0001f3fd at home",
    ),
    PairCase(
        "combining_marks", "cafe\u0301 nin\u0303o a\u0308\u0323", "caf\u00e9 ni\u00f1o \u1ea1\u0308"
    ),
    PairCase("compatibility_forms", "ﬁne ①② ｗｉｄｅ x²", "fine 12 wide x2"),
    PairCase("soft_hyphen", "ri\u00advers bend", "rivers bend"),
    PairCase("direction_marks", "\u202erivers\u202c \u200fbend", "rivers bend"),
    PairCase("private_use", "rivers \ue000 bend", "rivers bend"),
    PairCase("new_characters", "rivers \U0001fae8 \u20c0 bend", "rivers bend"),
    PairCase("unrelated_symbols", "tax", "\U0001f9ff qzxj ॥ 河 ؟"),
    PairCase("unrelated_mark", "no", "॥"),
    PairCase("negative_cosine", "quarterly earnings rose", "democracy"),
    PairCase("negative_cosine_both", "he plays the violin", "quarterly earnings rose"),
)
"""Spaces, invisible characters, empty and over-long texts, special tokens, symbols."""

PAIRS: tuple[PairCase, ...] = PLAIN_PAIRS + EDGE_PAIRS

MULTI_REFERENCE: tuple[MultiReferenceCase, ...] = (
    MultiReferenceCase(
        "one_reference", "The ferry left at noon.", ("At noon the ferry departed.",)
    ),
    MultiReferenceCase(
        "best_precision_and_recall_differ",
        "The ferry left at noon.",
        (
            "The ferry left at noon in spite of heavy fog and a broken radio on the bridge.",
            "The ferry.",
            "Lunch is served at noon.",
        ),
    ),
    MultiReferenceCase(
        "one_reference_is_empty", "Snow fell on the pass.", ("", "The pass was covered in snow.")
    ),
    MultiReferenceCase(
        "duplicate_references",
        "Snow fell on the pass.",
        ("It snowed on the pass.", "It snowed on the pass.", "The pass stayed dry."),
    ),
    MultiReferenceCase("empty_candidate", "", ("The ferry left.", "Snow fell.")),
    MultiReferenceCase("all_references_empty", "Snow fell.", ("", " ")),
    MultiReferenceCase(
        "reference_equals_candidate", "Snow fell.", ("It rained.", "Snow fell.", "Hail!")
    ),
)
"""Groups of references of unequal size."""

ALL_TOKENS_IN_ALL_REFERENCES: tuple[PairCase, ...] = (
    PairCase("same_reference_1", "rivers bend", "old rivers bend"),
    PairCase("same_reference_2", "old stones", "old rivers bend"),
    PairCase("same_reference_3", "tax", "old rivers bend"),
)
"""An idf corpus in which every token has weight 0: recall is 0/0."""

SINGLE_DOCUMENT: tuple[PairCase, ...] = (
    PairCase("single_unseen", "rivers bend", "old stones"),
    PairCase("single_seen", "old stones", "old stones"),
)
"""Scored one by one with idf, so that the corpus has N = 1."""

FAMILY_PAIR_NAMES: tuple[str, ...] = (
    "english",
    "english_cased",
    "numbers",
    "quotes",
    "german",
    "vietnamese",
    "russian",
    "greek_final_sigma",
    "arabic_marks",
    "hindi",
    "thai",
    "chinese",
    "japanese_halfwidth",
    "korean",
    "identical",
    "leading_spaces",
    "inner_spaces",
    "inner_newline_tab",
    "no_break_space",
    "zero_width_space",
    "only_zero_width_space",
    "byte_order_mark",
    "control_characters",
    "empty_candidate",
    "empty_reference",
    "both_empty",
    "one_token",
    "one_token_against_many",
    "paragraph_both",
    "literal_eos",
    "literal_sep",
    "literal_unk",
    "literal_mask",
    "mask_first",
    "emoji_sequences",
    "combining_marks",
    "compatibility_forms",
    "unrelated_mark",
    "negative_cosine",
)
"""The pairs that every tiny family is scored on."""

FAMILY_PAIRS: tuple[PairCase, ...] = tuple(
    next(pair for pair in PAIRS if pair.name == name) for name in FAMILY_PAIR_NAMES
)

GAP_PAIRS: tuple[PairCase, ...] = (
    PairCase("strike_through", "The price was <S>old</S> new", "The price was new"),
    PairCase("upper_case_specials", "<MASK> the cat <PAD> sat", "</S> a <Mask> sat <UNK> here"),
    PairCase("kelvin_sign_in_a_special", "the <MAS\u212a> sat", "the <ma\u017fk> sat"),
    PairCase("mark_that_became_a_letter", "\u1734 U.S. caf\u00e9 $5", "a\u1734b U.S. cafe"),
    PairCase("punctuation_that_became_a_symbol", "a\u166db \u166d c", "a\U000111c9b c"),
    PairCase("separator_before_mask", "rivers\x1c<mask> bend", "rivers\x1f[MASK]\x1dbend"),
    PairCase("next_line_beside_mask", "rivers\x85<mask>\x85bend", "rivers\x85[MASK]\x85bend"),
    PairCase("next_line_beside_sentinel", "x\x85<extra_id_0>\x85y", "x <extra_id_0> y"),
    PairCase("tab_beside_mask", "rivers\t<mask>\tbend", "rivers\n[MASK]\nbend"),
    PairCase("special_by_normalisation", "\uff1cs\uff1erivers\uff1c/s\uff1e", "<s>rivers</s>"),
    PairCase("literal_word_mark", "a \u2581 b \u2581c", "\u2581b a\u2581b"),
    PairCase("control_before_mark", "cafe\x07\u0301 nin\u200d\u0303o", "caf\u00e9 ni\u00f1o"),
    PairCase("second_separator", "rivers [X_SEP] bend", "rivers bend"),
    PairCase("decomposed_korean", "\u1112\u1161\u11ab\u1100\u116e\u11a8", "\ud55c\uad6d"),
)
"""Texts that the tokenizers of transformers 5 read otherwise. They are kept apart from the others,
and scored without idf, since a further document would move every weight."""

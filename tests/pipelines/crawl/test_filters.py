"""Which sentences are kept by their form, in every language."""

import pytest

from bertscore_beam.crawl.filters import reject_reason
from bertscore_beam.crawl.languages import known_languages
from bertscore_beam.crawl.scripts import is_in_script, scripts_of
from bertscore_beam.crawl.sentences import normalize
from bertscore_beam.crawl.words import WordLimits, count_words
from tests.support.crawl_texts import HEADER_CODES, sentences

GOOD = [
    ("en", "The ferry leaves at noon."),
    ("en", "“Does the ferry leave at noon?”"),
    ("en", "The ferry leaves at noon (or later)."),
    ("en", "It rained for 12 days, and then for 13 more!"),
    ("de", "„Das Schiff legt mittags ab.“"),
    ("fr", "Elle a dit : « le bateau part à midi. »"),
    ("da", "»Færgen sejler ved middagstid.«"),
    ("el", "Ξέρεις γιατί άργησε το πλοίο;"),
    ("hi", "नाव दोपहर में निकलती है।"),
    ("ta", "படகு நண்பகலில் இங்கிருந்து புறப்படுகிறது."),
    ("ar", "تغادر العبارة الجزيرة عند الظهر؟"),
    ("ur", "کشتی دوپہر کو جاتی ہے۔"),
    ("zh", "渡轮每天中午从这里出发。"),
    ("zh", "“渡轮每天中午从岛上出发。”"),
    ("ja", "「船は正午に島を出ます。」"),
    ("ko", "배는 정오에 섬을 떠납니다."),
    ("km", "ទូកចេញដំណើរនៅពេលថ្ងៃត្រង់។"),
    ("bo", "གྲུ་གཟིངས་ཉིན་གུང་ལ་འགྲོ་གི་རེད།"),
    ("my", "သင်္ဘောသည်နေ့လယ်တွင်ထွက်သည်။"),
    ("th", "เรือออกเดินทางตอนเที่ยง"),
]


@pytest.mark.parametrize(("language", "text"), GOOD)
def test_sentence_of_every_script_passes(language: str, text: str) -> None:
    assert reject_reason(normalize(text), language) is None


@pytest.mark.parametrize(
    ("language", "text", "reason"),
    [
        ("en", "", "too_short"),
        ("en", "Nobody knows why.", "too_short"),
        ("en", "Many " + " ".join(["word"] * 30) + " more.", "too_long"),
        ("en", "Nobody knows the " + "x" * 40 + ".", "long_word"),
        ("en", "The ferry leaves at noon", "no_terminal_mark"),
        ("en", "The ferry leaves at noon:", "no_terminal_mark"),
        ("en", "The ferry leaves at noon…", "no_terminal_mark"),
        ("en", "The ferry leaves at noon...", "no_terminal_mark"),
        ("en", "The ferry leaves at noon. . .”", "no_terminal_mark"),
        ("en", "” ” ” ”", "no_terminal_mark"),
        ("en", "Does the ferry leave at noon;", "no_terminal_mark"),
        ("en", "Write to nobody@example at once.", "markup"),
        ("en", "The times | stand below the map.", "markup"),
        ("en", "Say {name} to the captain now.", "markup"),
        ("en", "© All rights are ours alone.", "markup"),
        ("en", "The caf\ufffd is open at noon.", "markup"),
        ("en", "Press the <b> key at once.", "markup"),
        ("en", "Look at https://ferry.example for it.", "markup"),
        ("en", "Look at www.ferry.example for it.", "markup"),
        ("en", "Look at ferry.COM for the times.", "markup"),
        ("en", "12:30 13:30 14:30 15:30 daily.", "few_letters"),
        ("zh", "渡轮每天中午出。", "too_short"),
        ("zh", "渡" * 93 + "。", "too_long"),
        ("zh", "渡轮每天中午从这里出发", "no_terminal_mark"),
        ("zh", "渡轮每天中午从这里出发……", "no_terminal_mark"),
        ("zh", "1234567890，渡轮。", "few_letters"),
        ("th", "เรือออก", "too_short"),
        ("th", "ก" * 94, "too_long"),
    ],
)
def test_junk_is_rejected_with_a_reason(language: str, text: str, reason: str) -> None:
    assert reject_reason(normalize(text), language) == reason


def test_bounds_are_inclusive() -> None:
    assert reject_reason("Many " + " ".join(["word"] * 29) + " more.", "en") is None
    assert reject_reason("Nobody knows the " + "x" * 39 + ".", "en") is None
    assert reject_reason("渡轮每天中午出发了。", "zh") is None
    assert reject_reason("渡" * 92 + "。", "zh") is None


def test_full_stop_inside_a_sentence_is_no_address() -> None:
    assert reject_reason("The ferry leaves at 5.30 from the committee.", "en") is None
    assert reject_reason("He said.Complete sentences are rare here.", "en") is None


@pytest.mark.parametrize("language", HEADER_CODES)
def test_made_up_sentences_pass_the_filter(language: str) -> None:
    made = sentences(language, 400, seed=5)
    assert len(set(made)) == 400
    assert sum(reject_reason(text, language) is None for text in made) >= 0.95 * len(made)
    assert [normalize(text) for text in made] == made


# Written for these tests: what a page holds, and which of it is a sentence.
KEPT = [
    ("en", "She was born on 3 May and lives in Washington now."),
    ("en", "We left at 5 p.m. and nobody else did."),
    ("en", "My sister likes tea, and so do I."),
    ("en", "The iPhone lay on the table."),
    ("en", "iPhone users were the first to notice."),
    ("en", "“And that is all,” he said, “for today.”"),
    ("en", "My grandmother baked cookies for all of us."),
    ("en", "She asked him, and he said no."),
    ("en", "3.5 million people live in this city."),
    ("de", "Im 19. Jahrhundert wurde die Brücke gebaut."),
    ("de", "Am Ende hatten alle genug gegessen."),
    ("es", "¿Sabes por qué el tren llegó tarde?"),
    ("es", "El médico le dijo que no."),
    ("fr", "L’été dernier, nous avons traversé la rivière."),
    ("fr", "— Je ne sais pas où il habite, dit-elle."),
    ("zh", "第一，我们需要更多的时间来准备。"),
    ("zh", "我们用Python写了一个很小的程序。"),
    ("ja", "昨日の夜、駅の近くに小さな図書館が開きました。"),
    ("ja", "新しい駅の前で友達と三時間も待った．"),
    ("ru", "— Я не знаю, где он живёт, — сказала она."),
    ("ru", "Мой сосед вчера купил новый велосипед."),
    ("ar", "افتتحنا مكتبة صغيرة بالقرب من المحطة أمس."),
    ("hi", "हमने कल शाम स्टेशन के पास एक छोटा पुस्तकालय खोला।"),
    ("hu", "A 19. században még nem volt itt híd."),
    ("hu", "Tegnap este megnyitottuk a kis könyvtárat."),
    ("pl", "W XIX wieku nie było tu jeszcze mostu."),
    ("pl", "Nie wiem, dlaczego pociąg się spóźnił."),
    ("tr", "Kütüphane 19. yüzyılda istasyonun yanında açıldı."),
    ("tr", "İstasyonun yanında küçük bir kütüphane açtık."),
    ("nl", "'s Avonds rijdt er geen bus meer."),
    ("af", "'n Man het gister die deur oopgemaak."),
    ("it", "Ieri sera abbiamo aperto una piccola biblioteca."),
    ("pt", "O trem chegou tarde ontem à noite."),
    ("sv", "I går kväll öppnade vi ett litet bibliotek."),
    ("cs", "Včera večer jsme otevřeli malou knihovnu."),
    ("ga", "bhFuil a fhios agat cá bhfuil sé?"),
    ("el", "Χθες το βράδυ ανοίξαμε μια μικρή βιβλιοθήκη."),
    ("ka", "გუშინ საღამოს პატარა ბიბლიოთეკა გავხსენით."),
    ("hy", "Երեկ երեկոյան մենք փոքր գրադարան բացեցինք։"),
    ("sr", "Синоћ смо отворили малу библиотеку поред станице."),
    ("uz", "Kecha kechqurun biz kichik kutubxona ochdik."),
    ("uz", "Кеча кечқурун биз кичик кутубхона очдик."),
    ("ko", "우리는 어제 저녁 역 근처에 도서관을 열었다."),
    ("ta", "நாங்கள் நேற்று மாலை ஒரு சிறிய நூலகத்தைத் திறந்தோம்."),
]
DROPPED = [
    ("en", "The company moved to Washington, D.C.", "cut_off"),
    ("en", "Add the salt and 1 tsp.", "cut_off"),
    ("en", "He was met by Mr.", "cut_off"),
    ("en", "The book was written by J.", "cut_off"),
    ("en", "Take the bus No.", "cut_off"),
    ("en", "century the bridge was built here.", "lower_start"),
    ("en", "“and then the ferry left without us.”", "lower_start"),
    ("en", "• The ferry leaves at noon today.", "list_item"),
    ("en", "- The ferry leaves at noon today.", "list_item"),
    ("en", "2. Open the lid with both hands.", "list_item"),
    ("en", "(b) The owner pays for the repairs.", "list_item"),
    ("en", "[12] The owner pays for the repairs.", "list_item"),
    ("en", "Мой сосед вчера купил велосипед in London.", "other_script"),
    ("en", "Lorem ipsum dolor sit amet consectetur.", "phrase"),
    ("en", "We use cookies to make this site better.", "phrase"),
    ("en", "Please turn on JavaScript to see this.", "phrase"),
    ("en", "Read our terms of use before you order.", "phrase"),
    ("de", "Er schrieb über die Politikgeschichte des 19.", "cut_off"),
    ("de", "Ab Donnerstag, den 6.", "cut_off"),
    ("de", "Das Schloss gehörte einst Ludwig XIV.", "cut_off"),
    ("de", "Wir kaufen dort Obst, z.B.", "cut_off"),
    ("de", "aber das wussten wir damals noch nicht.", "lower_start"),
    ("de", "Alle Rechte an Bildern vorbehalten Cookies.", "phrase"),
    ("de", "Bitte lesen Sie auch unsere Datenschutzerklärung.", "phrase"),
    ("es", "La reunión empezó el 1ro.", "cut_off"),
    ("es", "Ayer habló con la Sra.", "cut_off"),
    ("es", "¿y por qué no vino nadie ayer?", "lower_start"),
    ("es", "Utilizamos cookies para mejorar su visita.", "phrase"),
    ("fr", "Une forêt de deux hectares d’env.", "cut_off"),
    ("fr", "Hier, il a rencontré Mme.", "cut_off"),
    ("fr", "mais personne ne savait où il était.", "lower_start"),
    ("fr", "Consultez notre politique de confidentialité ici.", "phrase"),
    ("zh", "1、我们昨天晚上开了一家图书馆。", "list_item"),
    ("zh", "（二）我们昨天晚上开了一家图书馆。", "list_item"),
    ("zh", "我们昨天晚上在车站附近开了图书馆．", "list_item"),
    ("zh", "Please read the whole text 一遍再说。", "other_script"),
    ("zh", "点击同意即表示您接受我们的隐私政策。", "phrase"),
    ("ja", "・昨日の夜、小さな図書館が開きました。", "list_item"),
    ("ja", "当サイトではクッキーを使用しています。", "phrase"),
    ("ru", "тогда мы об этом ещё не знали.", "lower_start"),
    ("ru", "Дети учатся в школе им.", "cut_off"),
    ("ru", "Книгу написал когда-то А. С.", "cut_off"),
    ("ru", "This ferry leaves for остров at noon.", "other_script"),
    ("ru", "Сайт использует файлы cookie для удобства.", "phrase"),
    ("ar", "نحن نستخدم ملفات تعريف الارتباط في موقعنا.", "phrase"),
    ("ar", "The ferry leaves the island at noon.", "other_script"),
    ("hi", "हम अपनी वेबसाइट पर कुकीज़ का उपयोग करते हैं।", "phrase"),
    ("hi", "The ferry leaves the island at noon.", "other_script"),
    ("hu", "A híd építése már a 19.", "cut_off"),
    ("hu", "de akkor még senki sem tudta.", "lower_start"),
    ("hu", "Olvassa el az adatvédelmi tájékoztatót is.", "phrase"),
    ("pl", "Budowa mostu trwała prawie cały XIX.", "cut_off"),
    ("pl", "Uczył się w szkole im.", "cut_off"),
    ("pl", "ale wtedy nikt o tym nie wiedział.", "lower_start"),
    ("pl", "Ta strona używa plików cookie codziennie.", "phrase"),
    ("tr", "Bu köprünün yapımı daha 19.", "cut_off"),
    ("tr", "ama o zaman kimse bunu bilmiyordu.", "lower_start"),
    ("tr", "Sitemizde deneyiminiz için çerez kullanıyoruz.", "phrase"),
    ("nl", "maar dat wist toen nog niemand.", "lower_start"),
    ("sr", "Sinoć smo otvorili malu biblioteku pored stanice.", "other_script"),
    ("sv", "Hon kom hit med bl.a.", "cut_off"),
    ("cs", "Stavba mostu trvala celé 19.", "cut_off"),
    ("xh", "Lorem ipsum dolor sit amet consectetur.", "phrase"),
]


@pytest.mark.parametrize(("language", "text"), KEPT)
def test_sentence_is_kept_whatever_its_language(language: str, text: str) -> None:
    assert reject_reason(normalize(text), language) is None


@pytest.mark.parametrize(("language", "text", "reason"), DROPPED)
def test_what_is_no_sentence_or_no_prose_is_dropped(language: str, text: str, reason: str) -> None:
    assert reject_reason(normalize(text), language) == reason


def test_number_at_the_end_is_an_ordinal_only_where_ordinals_are_written_so() -> None:
    assert reject_reason("Her brother is only 12.", "en") is None
    assert reject_reason("Ihr kleiner Bruder ist 12.", "de") == "cut_off"


def test_every_language_has_a_script_and_runes_are_of_none() -> None:
    for language in known_languages():
        assert scripts_of(language), language
        assert not is_in_script("ᚠᚢᚦᚨᚱᚲ ᚷᚹᚺᚾ", language), language


def test_limits_of_words_hold_in_every_language() -> None:
    few = WordLimits(least=2, most=3)
    assert reject_reason("Nobody knows.", "en", few) is None
    assert reject_reason("Nobody.", "en", few) == "too_short"
    assert reject_reason("Nobody here knows why.", "en", few) == "too_long"
    assert reject_reason("没人知道。", "zh", few) is None
    assert reject_reason("没人知道这件事情。", "zh", few) is None
    assert reject_reason("没人知道这件事情的。", "zh", few) == "too_long"


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "", 0),
        ("en", "One two three.", 3),
        ("ko", "배는 정오에 섬을 떠납니다.", 4),
        ("zh", "", 0),
        ("zh", "渡", 1),
        ("zh", "渡轮出", 1),
        ("zh", "渡轮出发", 2),
        ("zh-tw", "渡輪出發", 2),
        ("ja", "船は正午に出ます。", 3),
        ("th", "เรือออก", 3),
    ],
)
def test_words_are_counted_by_blanks_or_by_characters(language: str, text: str, words: int) -> None:
    assert count_words(text, language) == words

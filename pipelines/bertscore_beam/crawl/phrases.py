"""Phrases of notices, forms and placeholders. A sentence with one of them is not prose.

C4 leaves out lines with such phrases and pages of "lorem ipsum". The lists here are short, and our
own: the few notices that stand on most pages of a language. The rest counts once in a sample,
however many hosts repeat it.
"""

from functools import cache

PLACEHOLDERS = ("orem ipsum", "OREM IPSUM")
"""Text that fills a layout. Most of it is in Latin without this phrase, so its page is left out."""

_ANY_LANGUAGE = ("lorem ipsum", "dolor sit amet", "javascript", "captcha", "adblock")
_COOKIE = "cookie"
"""In every language but English, where cookies are also eaten."""
PHRASES = {
    "ar": ("ملفات تعريف الارتباط", "سياسة الخصوصية", "جميع الحقوق محفوظة", "شروط الاستخدام"),
    "cs": ("zásady ochrany osobních údajů", "všechna práva vyhrazena", "váš prohlížeč"),
    "da": ("privatlivspolitik", "alle rettigheder forbeholdes", "din browser", "nyhedsbrev"),
    "de": (
        "datenschutzerklärung", "alle rechte vorbehalten", "ihr browser", "ihrem browser",
        "ihren browser", "newsletter", "nutzungsbedingungen",
    ),
    "en": (
        "accept cookies", "cookie policy", "our cookies", "use cookies",
        "use of cookies", "uses cookies", "privacy policy", "terms of service", "terms of use",
        "terms and conditions", "all rights reserved", "your browser", "newsletter",
        "your email address", "sign up for", "log in to",
    ),
    "es": (
        "política de privacidad", "todos los derechos reservados", "aviso legal", "su navegador",
        "tu navegador", "correo electrónico no será", "newsletter",
    ),
    "fr": (
        "politique de confidentialité", "tous droits réservés", "mentions légales",
        "votre navigateur", "newsletter", "adresse e-mail", "conditions d'utilisation",
        "conditions d’utilisation",
    ),
    "hi": ("कुकीज़", "गोपनीयता नीति", "सर्वाधिकार सुरक्षित"),
    "hu": ("adatvédelmi", "minden jog fenntartva", "böngésző", "hírlevél"),
    "id": ("kebijakan privasi", "hak cipta dilindungi", "peramban anda", "browser anda"),
    "it": (
        "informativa sulla privacy", "privacy policy", "tutti i diritti riservati", "newsletter",
    ),
    "ja": (
        "クッキーを使用", "プライバシーポリシー", "利用規約", "無断転載", "お使いのブラウザ",
        "メールアドレスが公開",
    ),
    "ko": ("쿠키를 사용", "개인정보처리방침", "이용약관", "무단전재"),
    "nl": ("privacybeleid", "privacyverklaring", "alle rechten voorbehouden", "nieuwsbrief"),
    "pl": ("polityka prywatności", "polityką prywatności", "polityki prywatności",
           "wszelkie prawa zastrzeżone", "przeglądark", "newsletter"),
    "pt": (
        "política de privacidade", "todos os direitos reservados", "seu navegador", "newsletter",
    ),
    "ru": (
        "политика конфиденциальности",
        "политикой конфиденциальности", "все права защищены", "ваш браузер", "вашем браузере",
        "обработку персональных данных",
    ),
    "sv": ("integritetspolicy", "alla rättigheter", "din webbläsare", "nyhetsbrev"),
    "th": ("คุกกี้", "นโยบายความเป็นส่วนตัว", "สงวนลิขสิทธิ์"),
    "tr": ("çerez", "gizlilik politikası", "tüm hakları saklıdır", "tarayıcınız"),
    "uk": ("політика конфіденційності", "усі права захищено"),
    "vi": ("chính sách bảo mật", "đã đăng ký bản quyền", "trình duyệt của bạn"),
    "zh": (
        "隐私政策", "隱私權政策", "隐私权政策", "版权所有", "版權所有", "使用条款", "使用條款",
        "您的浏览器", "您的瀏覽器", "未经授权", "未經授權",
    ),
}  # fmt: skip
"""By language, in lower case."""


@cache
def _phrases(language: str) -> tuple[str, ...]:
    """Return the phrases that are looked for in a language."""
    own = PHRASES.get(language, ())
    return (*_ANY_LANGUAGE, *own) if language == "en" else (*_ANY_LANGUAGE, _COOKIE, *own)


def has_phrase(sentence: str, language: str) -> bool:
    """Tell whether a sentence contains a phrase of notices and forms."""
    small = sentence.lower()
    return any(phrase in small for phrase in _phrases(language))


def is_placeholder(text: str) -> bool:
    """Tell whether a page holds text that only fills its layout."""
    return any(words in text for words in PLACEHOLDERS)

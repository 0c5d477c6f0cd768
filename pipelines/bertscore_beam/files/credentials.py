"""Keep credentials out of everything that is shown, logged or written: names, records, messages."""

import re
from urllib.parse import unquote

_MASK = "***"
# The authority of a URL ends at the first of "/", "?" and "#"; its last "@" ends the user info. A
# secret of an object store may hold "/", and its URLs have no port. Only what has "@" behind it is
# searched, so that no place is looked at again from each URL before it.
_TO_LAST_AT = re.compile(r"(?<!\S)\S*@")
_USER_INFO = re.compile(
    r"(\w://)[^/?#\s]*@|\b((?:s3a?|gs|gcs|abfss?|az|oss|oci|r2)://)[^/\s:]*:\S*@"
)
# key=value, also percent-encoded inside another value; and key: value, as headers have it.
_BETWEEN = re.compile(r"=|%3D|:[^\S\n]*(?!//)", re.I)
_VALUE = re.compile(r"[^&;,\s\"'<>(){}\[\]]+")
# In a folder /key=value/, as in Hive: what is shorter is hardly a secret.
_FOLDER_VALUE = re.compile(r"[^/&;,\s\"'<>(){}\[\]]{16,}")
_MOST_KEY = 64
_KEY = re.compile(rf"[\w.%~-]{{1,{_MOST_KEY}}}\Z")
_HEADER_KEY = re.compile(r"(?:.*[-_.])?(?:api-?key|token|secret|password|passwd|pwd)", re.I)
# 'key': 'value', as JSON and Python write it.
_QUOTED_PAIR = re.compile(
    r"(?P<start>(?P<quote>[\"'])(?P<key>[\w.-]+)(?P=quote)\s*:\s*)"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
)
_HEADER = re.compile(r"(\bBearer|\bAuthorization[\"']?\s*[:=]\s*[\"']?\w+)\s+[\w.~+/=-]+", re.I)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORD = re.compile(
    r"o?auth|authorization|bearer|code|jwt|keys|pass|passcode|passphrase|sas|session|\w*sessionid|sig"
    r"|.*(?:key|passwd|pwd|token)|.*(?:credential|password|secret|signature).*"
)


def mask_credentials(text: str) -> str:
    """Replace what may be a secret in a path, flag, message or JSON text with "***".

    That is the user info of every URL, the values of all parameters, options, headers and JSON keys
    with a name such as password, token or sig, of folders (`/key=value/`) from 16 characters on,
    and what follows Bearer or Authorization.
    """
    text = _TO_LAST_AT.sub(lambda match: _USER_INFO.sub(rf"\1\2{_MASK}@", match[0]), text)
    text = _HEADER.sub(rf"\1 {_MASK}", text)
    text = _QUOTED_PAIR.sub(_mask_quoted, text)
    return _mask_pairs(text)


def _names_secret(name: str) -> bool:
    """Tell whether a parameter, option or key of this name may hold a secret."""
    return any(_SECRET_WORD.fullmatch(word.lower()) for word in _WORD.findall(unquote(name)))


def _mask_pairs(text: str) -> str:
    shown, end = [], 0
    for between in _BETWEEN.finditer(text):
        at = between.start()
        key = _KEY.search(text, max(end, at - _MOST_KEY), at)
        is_secret = _HEADER_KEY.fullmatch if between[0][0] == ":" else _names_secret
        if key is None or not is_secret(key[0]):
            continue
        is_folder = text[max(key.start() - 1, 0)] == "/" and between[0] == "="
        # Masked to its end or not at all: looking at values of other keys would be quadratic.
        value = (_FOLDER_VALUE if is_folder else _VALUE).match(text, between.end())
        if value is not None:
            shown += [text[end : between.end()], _MASK]
            end = value.end()
    return "".join([*shown, text[end:]])


def _mask_quoted(match: re.Match[str]) -> str:
    if not _names_secret(match["key"]):
        return match[0]
    quote = match["value"][0]
    return f"{match['start']}{quote}{_MASK}{quote}"

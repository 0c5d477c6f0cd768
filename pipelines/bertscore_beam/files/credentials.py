"""Keep credentials out of everything that is shown, logged or written: names, records, messages."""

import re
from urllib.parse import unquote

_MASK = "***"
# The authority of a URL ends at the first of "/", "?" and "#"; its last "@" ends the user info.
_USER_INFO = re.compile(r"(\w://)[^/?#\s]*@")
# key=value, also percent-encoded inside another value, but not a folder /key=value/ as in Hive.
_PAIR = re.compile(
    r"(?<![\w/.%-])(?P<key>[\w.%~-]+)(?P<between>=|%3D)(?P<value>[^&;,\s\"'<>(){}\[\]]+)", re.I
)
# 'key': 'value', as JSON and Python write it.
_QUOTED_PAIR = re.compile(
    r"(?P<start>(?P<quote>[\"'])(?P<key>[\w.-]+)(?P=quote)\s*:\s*)"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
)
_HEADER = re.compile(r"(\bBearer|\bAuthorization[\"']?\s*[:=]\s*[\"']?\w+)\s+[\w.~+/=-]+", re.I)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORD = re.compile(
    r"o?auth|authorization|bearer|code|jwt|keys|pass|passcode|passphrase|sas|sig"
    r"|.*(?:key|passwd|pwd|token)|.*(?:credential|password|secret|signature).*"
)


def mask_credentials(text: str) -> str:
    """Replace what may be a secret in a path, flag, message or JSON text with "***".

    That is the user info of every URL, the values of all parameters, options and JSON keys with a
    name such as password, token or sig, and what follows Bearer or Authorization.
    """
    text = _USER_INFO.sub(rf"\1{_MASK}@", text)
    text = _HEADER.sub(rf"\1 {_MASK}", text)
    text = _QUOTED_PAIR.sub(_mask_quoted, text)
    return _PAIR.sub(_mask_pair, text)


def without_user_info(authority: str) -> str:
    """Return the host of a URL, with its port, without the user and password before it."""
    return authority.rpartition("@")[2]


def names_secret(name: str) -> bool:
    """Tell whether a parameter, option or key of this name may hold a secret."""
    return any(_SECRET_WORD.fullmatch(word.lower()) for word in _WORD.findall(unquote(name)))


def _mask_pair(match: re.Match[str]) -> str:
    key, between, value = match.group("key", "between", "value")
    shown = _MASK if names_secret(key) else _PAIR.sub(_mask_pair, value)
    return f"{key}{between}{shown}"


def _mask_quoted(match: re.Match[str]) -> str:
    if not names_secret(match["key"]):
        return match[0]
    quote = match["value"][0]
    return f"{match['start']}{quote}{_MASK}{quote}"

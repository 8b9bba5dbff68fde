"""Languages by code and English name: what people may ask a translation into, and how they may write it."""

from __future__ import annotations

from typing import Final

NAMES: Final = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "fi": "Finnish",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "ms": "Malay",
    "nb": "Norwegian",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sv": "Swedish",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
_CODES: Final = {name.casefold(): code for code, name in NAMES.items()}


def language_code(text: str) -> str | None:
    """The code of a language that is given as code (`de`, `pt-BR`) or English name, in any case; None when unknown."""
    asked = text.strip().casefold()
    code = asked.replace("_", "-").partition("-")[0]
    return _CODES.get(asked) or (code if code in NAMES else None)


def language_name(code: str) -> str:
    """The English name; the code itself where it has none here."""
    return NAMES.get(code, code)

"""What an e-mail, a tenant name and a client address must look like, and the one form each is compared in."""

from __future__ import annotations

import ipaddress
import re
import unicodedata

from portal.errors import InvalidRequest

ADMIN_TENANT = "admin"
MAX_EMAIL_LENGTH = 254
MAX_NAME_LENGTH = 100
_MIN_TENANT_NAME_LENGTH = 2
_MAX_ADDRESS_LENGTH = 64

_LOOK_ALIKE_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK"})
_WORD = re.compile(r"[^\s\-‐–—_/&+.,:;()]+")
# Letters that a reader takes for those of 'admin', from Unicode's confusables (UTS 39), casefolded.
_LIKE_ADMIN = str.maketrans(
    {**dict.fromkeys("аαɑ", "a"), "ԁ": "d", "м": "m", **dict.fromkeys("іιı1lӏ", "i"), **dict.fromkeys("пηո", "n")}
)

_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_EMAIL = re.compile(rf"[^\s@<>\"(),:;\[\]\\]{{1,64}}@(?:localhost|{_LABEL}(?:\.{_LABEL})+)")


def normalised_email(email: str) -> str:
    """The form an e-mail is stored and compared in: NFKC, lower case, no spaces around."""
    return unicodedata.normalize("NFKC", email).strip().lower()


def is_email(email: str) -> bool:
    """True for a normalised e-mail of plausible shape. No e-mail is ever sent, so no more is known."""
    return len(email) <= MAX_EMAIL_LENGTH and email.isprintable() and _EMAIL.fullmatch(email) is not None


def checked_email(email: str) -> str:
    """The normalised e-mail. Raises InvalidRequest (email_invalid) when it cannot be one."""
    normalised = normalised_email(email)
    if not is_email(normalised):
        raise InvalidRequest(
            "This is not an e-mail address.",
            code="email_invalid",
            remedy="Write it like name@example.org.",
        )
    return normalised


def checked_tenant_name(name: str) -> str:
    """The tenant name in NFKC with single spaces. Raises InvalidRequest (tenant_name_…).

    `admin`, in any case or in letters that look like it, is refused: that tenant is made by the portal alone. So is
    a word that mixes Latin with Cyrillic or Greek letters: it would pass for another tenant's name.
    """
    normalised = " ".join(unicodedata.normalize("NFKC", name).split())
    if _looks_like_admin(normalised):
        raise InvalidRequest(
            "This tenant name is reserved.",
            code="tenant_name_reserved",
            remedy="Choose the name of your team or company.",
        )
    if not _MIN_TENANT_NAME_LENGTH <= len(normalised) <= MAX_NAME_LENGTH or not normalised.isprintable():
        raise InvalidRequest(
            f"A tenant name has {_MIN_TENANT_NAME_LENGTH} to {MAX_NAME_LENGTH} printable characters.",
            code="tenant_name_invalid",
            remedy="Choose the name of your team or company.",
        )
    if any(len(_scripts(word)) > 1 for word in _WORD.findall(normalised)):
        raise InvalidRequest(
            "A word of the tenant name mixes alphabets whose letters look alike.",
            code="tenant_name_invalid",
            remedy="Write each word in one alphabet: Latin, Cyrillic or Greek.",
        )
    return normalised


def _looks_like_admin(name: str) -> bool:
    bare = "".join(c for c in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(c))
    return bare.translate(_LIKE_ADMIN) == ADMIN_TENANT


def _scripts(word: str) -> frozenset[str]:
    """Which of the alphabets with look-alike letters a word has letters of."""
    letters = (unicodedata.name(character, "").partition(" ")[0] for character in word if character.isalpha())
    return _LOOK_ALIKE_SCRIPTS.intersection(letters)


def stored_address(address: str | None) -> str | None:
    """A client address as rows keep it, at most 64 characters."""
    return address[:_MAX_ADDRESS_LENGTH] if address else None


def address_network(address: str) -> str:
    """What one client can be held to: an IPv4 address, or the /64 an IPv6 host picks its addresses from."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))

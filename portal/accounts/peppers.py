"""Server secrets that API keys and form tokens are keyed with; a copy of the database alone forges nothing.

A pepper's id is a short hash of it and is stored with what it hashed, so peppers can be changed: the first is
used for new rows, the others only verify. They come from PORTAL_SECRET (several, newest first, parted by white
space), and from the file `secret` in the data folder, made at the first start.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from portal.errors import SettingsError
from portal.settings import Settings

_FILE_NAME = "secret"
_MIN_SECRET_LENGTH = 32


@dataclass(frozen=True, repr=False)
class Pepper:
    """One secret. Its repr names the id alone."""

    id: str
    key: bytes

    def __repr__(self) -> str:
        return f"Pepper({self.id})"

    def hexdigest(self, message: str) -> str:
        """HMAC-SHA256 of the message, 64 hex digits."""
        return hmac.new(self.key, message.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Peppers:
    """All known peppers, newest first; never empty."""

    known: tuple[Pepper, ...]

    @classmethod
    def load(cls, settings: Settings) -> Peppers:
        """From PORTAL_SECRET and the data folder's `secret`, which is made (0600) where both are missing.

        Raises SettingsError for a short secret or a folder that cannot be written.
        """
        path = settings.store.data_dir / _FILE_NAME
        given = settings.accounts.secret
        words = given.get_secret_value().split() if given else []
        if not words and not path.exists():
            _make_secret_file(path)
        return cls.from_secrets([*words, *_stored_secrets(path)])

    @classmethod
    def from_secrets(cls, words: list[str]) -> Peppers:
        """From secrets, newest first. Raises SettingsError when there is none or one is short."""
        if not words or min(map(len, words)) < _MIN_SECRET_LENGTH:
            raise SettingsError(
                f"A server secret has fewer than {_MIN_SECRET_LENGTH} characters.",
                remedy="Set PORTAL_SECRET to the output of: openssl rand -hex 32",
            )
        return cls(tuple(_pepper(word) for word in dict.fromkeys(words)))

    @property
    def current(self) -> Pepper:
        """The pepper for new rows."""
        return self.known[0]

    def find(self, pepper_id: str) -> Pepper | None:
        """The pepper a row names, None when it is no longer known."""
        return next((pepper for pepper in self.known if pepper.id == pepper_id), None)


def _pepper(word: str) -> Pepper:
    key = word.encode()
    return Pepper(id=hashlib.sha256(b"pepper id " + key).hexdigest()[:16], key=key)


def _stored_secrets(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            "The file 'secret' in the data folder cannot be read.",
            remedy="Let the portal's user own it, or set PORTAL_SECRET and move the file away.",
        ) from error


def _make_secret_file(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _link_secret(path, path.with_name(f".{_FILE_NAME}.{secrets.token_hex(8)}"))
    except OSError as error:
        raise SettingsError(
            f"The server secret cannot be stored in the data folder: {error.strerror}.",
            remedy="Let the portal's user write to PORTAL_DATA_DIR, or set PORTAL_SECRET.",
        ) from error


def _link_secret(path: Path, draft: Path) -> None:
    """Links a complete file into place: of two processes starting at once, the second keeps the first's."""
    try:
        _write_private(draft, secrets.token_hex(32) + "\n")
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)

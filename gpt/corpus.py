"""Text to train on: reading files under one stated policy, and the text that every Python carries.

The policy: bytes are decoded strictly, as UTF-8 unless a byte order mark or the user says otherwise, never in the
locale's encoding; the byte order mark is dropped; CRLF and CR become LF; NUL and nothing at all are refused. So the
same text gives the same tokens on every system.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Sequence
from pathlib import Path

from gpt.config import nearest

__all__ = ["MAX_TEXT_BYTES", "DataError", "builtin_text", "read_text"]

#: Largest text read, in bytes over all files; its tokens take four times as much memory.
MAX_TEXT_BYTES = 1 << 30

# Longest first: the mark of UTF-16 little-endian begins that of UTF-32. Decoders that keep the mark as U+FEFF are named
# (utf-8, not utf-8-sig), so that the offset in a decoding error counts from the start of the file.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


ENCODINGS = ("utf-8", "utf-16", "utf-32", "gb18030", "gbk", "big5", "shift_jis", "euc-kr", "cp1251", "cp1252")


class DataError(ValueError):
    """The data cannot be trained on; the message says which data, why, and what to do."""


def read_text(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], encoding: str | None = None) -> str:
    r"""Read text files into one string.

    Parameters
    ----------
    paths : path or sequence of paths
        Joined in this order, with a newline between two files where the first does not end in one.
    encoding : str, optional
        Of all files. None means what a file's byte order mark says, else UTF-8.

    Returns
    -------
    str
        Without byte order marks, lines ended by LF.

    Raises
    ------
    DataError
        If a file is missing, not a file, unreadable, empty, too large, not in the encoding, or contains NUL; or if the
        encoding is unknown.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.txt")
    ...     _ = path.write_bytes("\ufeffone\r\ntwo".encode())
    ...     read_text([path, path])
    'one\ntwo\none\ntwo'
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if not paths:
        raise DataError("no text files given; name at least one")
    if encoding is not None:
        _check_encoding(encoding)
    parts: list[str] = []
    left = MAX_TEXT_BYTES
    for path in map(Path, paths):
        content = _read_bytes(path, left)
        left -= len(content)
        if parts and not parts[-1].endswith("\n"):
            parts.append("\n")
        parts.append(_decode(path, content, encoding))
    return "".join(parts)


def builtin_text() -> str:
    """Return the built-in corpus: the help topics of the Python language, as `help()` shows them.

    They are real English of the size that a small model learns from in a minute: about 465,000 characters in
    Python 3.11; versions of Python differ a little. Topics are in alphabetical order with an empty line between them.

    Raises
    ------
    DataError
        Where Python was installed without the topics.

    Examples
    --------
    >>> builtin_text()[:22]
    'The "assert" statement'
    """
    try:  # not at the top of the module: trimmed installations lack it, and nothing else needs it
        from pydoc_data.topics import topics
    except ImportError as error:
        raise DataError(
            "this Python was installed without its help topics (pydoc_data.topics), the built-in text; "
            "name a text of your own with --data FILE"
        ) from error
    return "\n".join(topics[name] for name in sorted(topics))


def _check_encoding(encoding: str) -> None:
    """Refuse what is no text encoding of Python."""
    try:
        "".encode(encoding)  # also refuses codecs that are no text encodings, such as 'hex'
    except (LookupError, ValueError):
        raise DataError(f"unknown text encoding {encoding!r}; {nearest(encoding, ENCODINGS)}") from None


def _read_bytes(path: Path, limit: int) -> bytes:
    """Return the bytes of a file that is there, readable, not empty, and not too large."""
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; name the text files in it")
        with path.open("rb") as file:
            too_large = os.fstat(file.fileno()).st_size > limit  # before any memory is taken
            content = b"" if too_large else file.read()
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; check the name and the folder") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    if too_large or len(content) > limit:
        raise DataError(f"the text is larger than {MAX_TEXT_BYTES:,} bytes at {path}; train on a part of it")
    return content


def _decode(path: Path, content: bytes, encoding: str | None) -> str:
    """Return the text of a file's bytes under the policy of this module."""
    marked = next((name for mark, name in MARKS if content.startswith(mark)), None)
    name = encoding or marked or "utf-8"
    try:
        text = content.decode(name)
    except UnicodeError as error:
        found = str(error)
        if isinstance(error, UnicodeDecodeError):  # a few codecs, such as idna, do not say where
            byte = error.object[error.start : error.start + 1].hex()
            found = f"byte 0x{byte} at offset {error.start} ({error.reason})"
        raise DataError(f"{path} is not {name}: {found}; {_remedy(encoding, marked)}") from None
    text = text.removeprefix("\ufeff")
    if not text:
        raise DataError(f"{path} is empty; name a file with text in it")
    if "\0" in text:
        raise DataError(
            f"{path} contains NUL (first at character {text.index(chr(0))}), so it is binary or in another encoding; "
            f"name a text file, or its encoding, for example --encoding utf-16-le"
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _remedy(encoding: str | None, marked: str | None) -> str:
    """Say what to do about bytes that did not decode."""
    if encoding is not None and marked is not None and codecs.lookup(encoding).name != codecs.lookup(marked).name:
        return f"its byte order mark says {marked}: leave --encoding out"
    if encoding is not None:
        return "name its encoding with --encoding, or leave that out for UTF-8"
    if marked is not None:
        return "its byte order mark says so, so the file is damaged; repair it, or name its encoding with --encoding"
    return "name its encoding, for example --encoding gb18030 (Chinese) or --encoding cp1252 (Western European Windows)"

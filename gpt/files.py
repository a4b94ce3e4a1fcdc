"""Writing a file whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

__all__ = ["atomic_write"]


def atomic_write(path: str | os.PathLike[str], content: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file so that at any moment, also after a crash, it has either its old or its new content.

    The bytes go to a new file in the same folder, are forced to disk, and take the name in one step of the file system;
    then the folder is forced to disk (not on Windows, which offers no way to). An existing file keeps its mode, a new
    one gets what the umask leaves.

    Parameters
    ----------
    path : path
        Its folder must exist. If something stands there it must be a regular file; a symbolic link is not followed.
    content : bytes, or iterable of bytes-like
        The whole content, in one piece or several.

    Raises
    ------
    OSError
        With the path and the number of bytes if writing fails. No temporary file is left behind.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "config.json")
    ...     atomic_write(path, b"{}")
    ...     path.read_bytes(), [file.name for file in Path(folder).iterdir()]
    (b'{}', ['config.json'])
    """
    target = Path(path)
    chunks = [content] if isinstance(content, bytes) else list(content)
    # Hidden, unpredictable, and in the same folder: a rename is atomic only within one file system.
    temporary = target.with_name(f".{target.name[:64]}.{secrets.token_hex(8)}.tmp")
    try:
        mode = _existing_mode(target)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o666)
        try:
            _fill(descriptor, chunks)
            if mode is not None:
                os.chmod(temporary, mode)
            os.replace(temporary, target)
        except BaseException:  # also an interrupt, even one that arrives just after the replacement
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        size = sum(len(chunk) for chunk in chunks)
        raise OSError(error.errno, f"cannot write {size:,} bytes: {error.strerror or error}", str(target)) from error


def _existing_mode(target: Path) -> int | None:
    """Return the permission bits of the file to replace, None where there is none; refuse what is no plain file."""
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(status.st_mode):
        return stat.S_IMODE(status.st_mode)
    kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
    raise FileExistsError(errno.EEXIST, f"the path is {kind} and is left alone; choose another")


def _fill(descriptor: int, chunks: Iterable[bytes | memoryview]) -> None:
    """Write an open file, force it to disk, and close it."""
    try:
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:  # the system may take less than it is offered
                rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Force the new name to disk; without this a power cut could bring the old file back."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)

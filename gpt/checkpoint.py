"""Checkpoints: named arrays and a manifest in one file, without pickle.

The file is in the safetensors format, which other programs read too::

    length of the header, unsigned 64-bit little-endian | header, JSON in UTF-8 | bytes of the tensors, little-endian
    {"__metadata__": {"format": "autodiff-gpt", "version": "1", "sha256": "...", "manifest": "{...}"},
     "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}

It is written here, with the standard library, rather than by the `safetensors` package: every rule about hostile or
damaged files has to be enforced before that package is called anyway, and what then remains is to copy bytes.

The SHA-256 is that of the whole file with the digest itself replaced by zeros. It detects damage; it does not prove who
wrote the file, as anybody can compute it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpt.files import atomic_write
from gpt.strictjson import check_json, parse_json, shown

__all__ = ["CheckpointError", "check_tensors", "is_checkpoint", "load_checkpoint", "save_checkpoint"]

Array = npt.NDArray[Any]

FORMAT_VERSION = 1
HEADER_LIMIT = 1 << 20  # bytes; names, shapes and the manifest of any model of ours take far less
AXES_LIMIT = 64  # as NumPy 2

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}

# Our headers begin with exactly these bytes, so that the place of the digest is known without parsing.
MAGIC = b'{"__metadata__":{"format":"autodiff-gpt",'
NO_DIGEST = "0" * 64


class CheckpointError(ValueError):
    """A file is no valid checkpoint, or content cannot be put into one; the message says which and why."""


class Entry(NamedTuple):
    """Where a tensor lies in the file: its dtype, its shape, and its range of bytes after the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    end: int


# writing


def save_checkpoint(
    path: str | os.PathLike[str], tensors: Mapping[str, npt.ArrayLike], manifest: dict[str, Any]
) -> None:
    """Write tensors and manifest into one file, whole or not at all.

    Parameters
    ----------
    path : path
        In an existing folder. An existing checkpoint is replaced; any other file is left alone.
    tensors : mapping of str to array_like
        Any shapes and memory layouts; boolean, integer or floating (16 to 64 bits) dtypes.
    manifest : dict
        JSON-safe: dictionaries with string keys, lists, strings, finite floats, integers of up to 128 bits, booleans
        and None.

    Raises
    ------
    CheckpointError
        If the content cannot be stored, or `path` is an existing file that is not a checkpoint.
    OSError
        If writing fails; what was there before is intact unless only the last sync of the folder failed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "checkpoint.safetensors")
    ...     save_checkpoint(path, {"w": np.eye(2, dtype=np.float32)}, {"step": 3})
    ...     tensors, manifest = load_checkpoint(path)
    >>> tensors["w"].tolist(), manifest
    ([[1.0, 0.0], [0.0, 1.0]], {'step': 3})
    """
    if os.path.lexists(path) and not is_checkpoint(path):
        raise CheckpointError(f"{path} exists and is no checkpoint of this program; it is left alone, choose another")
    arrays = {name: _storable(name, value) for name, value in tensors.items()}
    # Wide elements first: every tensor then begins at a multiple of its element size.
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header = _header({name: arrays[name] for name in names}, manifest)
    payload = [arrays[name].reshape(-1).view(np.uint8).data for name in names]
    digest = hashlib.sha256(_start(header))
    for chunk in payload:
        digest.update(chunk)
    place = _digest_place(FORMAT_VERSION)
    header = header[: place.start] + digest.hexdigest().encode() + header[place.stop :]
    atomic_write(path, [_start(header), *payload])


def _start(header: bytes) -> bytes:
    """Return the first part of the file: the length of the header and the header."""
    return len(header).to_bytes(8, "little") + header


def _storable(name: object, value: npt.ArrayLike) -> Array:
    """Return an array as it lies in the file: C order, little-endian."""
    if not isinstance(name, str) or name in ("", "__metadata__"):
        raise CheckpointError(f"a tensor cannot be named {name!r}; use any other non-empty string")
    array = np.asarray(value)
    little = array.dtype.newbyteorder("<")
    if little not in NAMES:
        raise CheckpointError(f"tensor {name!r} has dtype {array.dtype}; allowed: {', '.join(DTYPES)}")
    return np.asarray(array, dtype=little, order="C")  # not ascontiguousarray, which makes 0-d arrays 1-d


def _header(arrays: dict[str, Array], manifest: dict[str, Any]) -> bytes:
    """Return the header of arrays that lie one after another, with no digest yet, padded to a multiple of 8 bytes."""
    if not isinstance(manifest, dict):
        raise CheckpointError(f"the manifest must be a dict, not {type(manifest).__name__}")
    try:
        check_json(manifest)
    except ValueError as error:
        raise CheckpointError(f"the manifest cannot be stored: {error}") from None
    metadata = {
        "format": "autodiff-gpt",
        "version": str(FORMAT_VERSION),
        "sha256": NO_DIGEST,
        "manifest": json.dumps(manifest, separators=(",", ":")),
    }
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise CheckpointError(f"manifest and tensor names take {len(text):,} bytes; at most {HEADER_LIMIT:,} fit")
    return text


def _digest_place(version: int) -> slice:
    """Return where in the header the digest stands."""
    start = len(MAGIC) + len(f'"version":"{version}","sha256":"')
    return slice(start, start + len(NO_DIGEST))


# reading


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a file that begins like a checkpoint of this program, of any version and condition."""
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return file.read(8 + len(MAGIC))[8:] == MAGIC


def load_checkpoint(
    path: str | os.PathLike[str], *, max_bytes: int = 2 << 30
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read a checkpoint, trusting nothing in it.

    Parameters
    ----------
    path : path
    max_bytes : int
        Larger files are refused.

    Returns
    -------
    tensors : dict of str to ndarray
        Writable arrays in the byte order of this machine.
    manifest : dict
        As it was saved.

    Raises
    ------
    CheckpointError
        If the file is missing, unreadable, too large, damaged, malformed in any way, of a newer format, or not a
        checkpoint. Memory is taken in proportion to the file's size, whatever its header claims.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # before opening, which would wait at a pipe
            raise CheckpointError("not a regular file")
        with open(path, "rb") as file:
            return _read(file, max_bytes)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist; name a checkpoint file") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error


def _read(file: io.BufferedReader, max_bytes: int) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read an open checkpoint in the order of trust: container, format, entries, payload and digest, manifest."""
    size = os.fstat(file.fileno()).st_size
    if size > max_bytes:
        raise CheckpointError(f"{size:,} bytes are more than max_bytes={max_bytes:,}; raise that to read the file")
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise CheckpointError(f"truncated, or not a safetensors file ({size:,} bytes)")
    if length > HEADER_LIMIT:
        raise CheckpointError(f"the header claims {length:,} bytes; at most {HEADER_LIMIT:,} are allowed")
    raw = file.read(length)
    try:
        header = parse_json(raw.decode("utf-8"))
    except ValueError as error:
        raise CheckpointError(f"the header is malformed: {error}") from None
    metadata = header.pop("__metadata__", None)
    version = _format_version(metadata)
    entries = _entries(header, size - 8 - length)

    place = _digest_place(version)
    digest = hashlib.sha256(_start(raw[: place.start] + NO_DIGEST.encode() + raw[place.stop :]))
    tensors = {name: _read_tensor(file, entry, digest) for name, entry in entries.items()}
    if not raw.startswith(MAGIC) or raw[place] != digest.hexdigest().encode():
        raise CheckpointError("damaged: the content does not match its SHA-256; use another copy")
    for name, array in tensors.items():
        if array.dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
            raise CheckpointError(f"tensor {shown(name)} is BOOL but has bytes other than 0 and 1")
    if set(metadata) != {"format", "version", "sha256", "manifest"}:
        raise CheckpointError(f"the metadata has the keys {shown(sorted(metadata))}; no format of ours has these")
    try:
        return tensors, parse_json(metadata["manifest"])
    except ValueError as error:
        raise CheckpointError(f"the manifest is malformed: {error}") from None


def _format_version(metadata: Any) -> int:
    """Return the version of a file of ours, or say whose it is."""
    if not isinstance(metadata, dict) or metadata.get("format") != "autodiff-gpt":
        raise CheckpointError(
            "a safetensors file, but no checkpoint of this program; the import command reads weights from elsewhere"
        )
    if not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError("the metadata holds values that are no strings")
    text = metadata.get("version", "")
    version = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"written by a newer release (format {version}; this one reads up to {FORMAT_VERSION}); "
            f"upgrade with: pip install -U autodiff-gpt"
        )
    if version < 1 or "manifest" not in metadata:
        raise CheckpointError(f"format version {shown(text)} is unknown, or the manifest is missing")
    return version


def _entries(header: dict[str, Any], payload: int) -> dict[str, Entry]:
    """Return where the tensors lie, in that order, once it is sure that they tile the payload exactly."""
    entries = {name: _entry(name, fields) for name, fields in header.items()}
    ordered = dict(sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)))
    end = 0
    for name, entry in ordered.items():
        if entry.start != end:
            raise CheckpointError(f"tensor {shown(name)} begins at byte {entry.start}, the one before ends at {end}")
        end = entry.end
    if end != payload:
        raise CheckpointError(f"the tensors take {end} bytes, but {payload} follow the header: cut off or extended")
    return ordered


def _entry(name: str, fields: Any) -> Entry:
    """Return one tensor's place, with a size that agrees with its dtype and shape."""
    what = f"tensor {shown(name)}"
    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{what} must have exactly the fields dtype, shape and data_offsets")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise CheckpointError(f"{what} has the unknown dtype {shown(dtype)}; allowed: {', '.join(DTYPES)}")
    if not _naturals(shape) or len(shape) > AXES_LIMIT:
        raise CheckpointError(f"{what} has the shape {shown(shape)}; allowed: up to {AXES_LIMIT} integers >= 0")
    if not _naturals(offsets) or len(offsets) != 2:
        raise CheckpointError(f"{what} has the data_offsets {shown(offsets)}; allowed: two integers >= 0")
    kind = np.dtype(DTYPES[dtype])
    # NumPy cannot describe such a shape even if a zero in it makes the array empty
    if math.prod(max(n, 1) for n in shape) * kind.itemsize >= 1 << 63:
        raise CheckpointError(f"{what} has the impossible shape {shown(shape)}")
    if offsets[1] - offsets[0] != math.prod(shape) * kind.itemsize:
        raise CheckpointError(f"{what}: data_offsets {offsets} do not fit {dtype} of shape {shown(shape)}")
    return Entry(kind, tuple(shape), offsets[0], offsets[1])


def _naturals(value: Any) -> bool:
    """Return whether a JSON value is a list of integers >= 0."""
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _read_tensor(file: io.BufferedReader, entry: Entry, digest: Any) -> Array:
    """Read one tensor into an array of its own, adding its bytes to the digest."""
    array = np.empty(entry.shape, entry.dtype)
    content = array.reshape(-1).view(np.uint8)
    if file.readinto(content.data) != content.size:
        raise CheckpointError("the file became shorter while it was read")
    digest.update(content.data)
    return array.astype(entry.dtype.newbyteorder("="), copy=False)


# matching


def check_tensors(tensors: Mapping[str, Array], expected: Mapping[str, Array], *, source: str = "checkpoint") -> None:
    """Raise unless tensors have exactly the names, shapes and dtypes expected and are finite; list every difference.

    Parameters
    ----------
    tensors : mapping of str to ndarray
        What was loaded.
    expected : mapping of str to ndarray
        What it is to be copied into, such as a model's parameters. Nothing is broadcast or converted.
    source : str
        Where the tensors are from, for the message.

    Raises
    ------
    CheckpointError
        With all differences in one line.

    Examples
    --------
    >>> check_tensors({"w": np.zeros((2, 3))}, {"w": np.zeros((3, 2)), "b": np.zeros(2)})
    Traceback (most recent call last):
        ...
    gpt.checkpoint.CheckpointError: checkpoint does not fit: 'b' is missing; 'w' has shape (2, 3), expected (3, 2)
    """
    found = [f"{name!r} is missing" for name in expected if name not in tensors]
    for name, array in tensors.items():
        if name not in expected:
            found.append(f"{shown(name)} is unexpected")
        elif array.shape != expected[name].shape:
            found.append(f"{name!r} has shape {array.shape}, expected {expected[name].shape}")
        elif array.dtype != expected[name].dtype:
            found.append(f"{name!r} has dtype {array.dtype}, expected {expected[name].dtype}")
        elif np.issubdtype(array.dtype, np.inexact) and not np.isfinite(array).all():
            found.append(f"{name!r} has {np.count_nonzero(~np.isfinite(array))} non-finite values")
    if found:
        raise CheckpointError(f"{source} does not fit: {'; '.join(found)}")

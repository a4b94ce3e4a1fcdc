"""Checkpoints: exact round trips, agreement with the safetensors package, and no trust in what a file says."""

import hashlib
import json
import os
import random
import struct
import tracemalloc
from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt.checkpoint import DTYPES, CheckpointError, check_tensors, is_checkpoint, load_checkpoint, save_checkpoint

RELEASED = Path(__file__).with_name("checkpoint-v1.safetensors")
CHARS = ["\n", "é", "\ud800"]
MANIFEST = {"step": 3, "config": {"n_layer": 2, "tied": True}, "rng": 2**127 + 1, "chars": CHARS, "x": None}
TENSORS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3) / 7,
    "n": np.array(2**40, dtype=np.int64),
    "mask": np.array([True, False, True]),
    "none": np.zeros((0, 3), dtype=np.float64),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.safetensors"


def assert_equal(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        array = np.asarray(array)
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert found[name].tobytes() == np.asarray(array, dtype=found[name].dtype).tobytes()


def refusal(path, **kwargs):
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path, **kwargs)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert len(message) < len(str(path)) + 400
    return message.removeprefix(f"{path}: ")


def forge(path, entries, payload=b"", *, version="1", manifest="{}", metadata=None, text=None):
    """Write a file whose digest is right, whatever else is wrong with it."""
    fields = {"format": "autodiff-gpt", "version": version, "sha256": "0" * 64, "manifest": manifest}
    fields.update(metadata or {})
    header = (text or json.dumps({"__metadata__": fields, **entries}, separators=(",", ":"))).encode()
    start = struct.pack("<Q", len(header))
    digest = hashlib.sha256(start + header + payload).hexdigest().encode()
    path.write_bytes(start + header.replace(b"0" * 64, digest, 1) + payload)
    return path


SPACED = json.dumps(  # the right fields, written as another program would
    {"__metadata__": {"format": "autodiff-gpt", "version": "1", "sha256": "0" * 64, "manifest": "{}"}}
)
REORDERED = f'{{"__metadata__":{{"version":"1","format":"autodiff-gpt","sha256":"{"0" * 64}","manifest":"{{}}"}}}}'


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


# round trips


dtypes = st.sampled_from([np.dtype(code) for code in DTYPES.values()])
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
arrays = dtypes.flatmap(lambda dtype: hnp.arrays(dtype, shapes))
layouts = st.sampled_from([
    lambda a: a, np.transpose, np.asfortranarray, lambda a: a[..., ::-1] if a.ndim else a,
    lambda a: np.repeat(a, 2, axis=0)[::2] if a.ndim else a, lambda a: a.astype(a.dtype.newbyteorder(">")),
    lambda a: np.broadcast_to(a, (2, *a.shape)),
])  # fmt: skip


@given(st.dictionaries(st.text(min_size=1).filter("__metadata__".__ne__), st.tuples(arrays, layouts), max_size=4))
def test_arrays_of_any_dtype_shape_and_layout_come_back_equal(tmp_path_factory, drawn):
    tensors = {name: layout(array) for name, (array, layout) in drawn.items()}
    path = tmp_path_factory.mktemp("round") / "c.safetensors"
    save_checkpoint(path, tensors, MANIFEST)
    found, manifest = load_checkpoint(path)
    assert_equal(found, tensors)
    assert manifest == MANIFEST
    assert all(array.flags.writeable and array.flags.c_contiguous for array in found.values())


def test_the_same_content_gives_the_same_bytes_in_any_order(path):
    save_checkpoint(path, TENSORS, MANIFEST)
    first = path.read_bytes()
    save_checkpoint(path, dict(reversed(TENSORS.items())), MANIFEST)
    assert path.read_bytes() == first


def test_every_tensor_begins_at_a_multiple_of_its_element_size(path):
    for length in range(1, 9):
        sizes = {"a" * length: "?", "b": "f2", "c": "f8", "d": "f4"}
        tensors = {name: np.zeros(3, dtype) for name, dtype in sizes.items()}
        save_checkpoint(path, tensors, {})
        content = path.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8 : 8 + size])
        assert size % 8 == 0
        assert all(header[name]["data_offsets"][0] % array.itemsize == 0 for name, array in tensors.items())


def test_the_safetensors_package_reads_the_file(path):
    library = pytest.importorskip("safetensors.numpy", reason="the safetensors package is not installed")
    save_checkpoint(path, {**TENSORS, "t": TENSORS["w"].T}, {"step": 3})
    assert_equal(library.load_file(path), {**TENSORS, "t": TENSORS["w"].T})
    with pytest.importorskip("safetensors").safe_open(path, "numpy") as file:
        assert json.loads(file.metadata()["manifest"]) == {"step": 3}


def test_a_file_of_the_safetensors_package_is_recognised_as_foreign(path):
    library = pytest.importorskip("safetensors.numpy", reason="the safetensors package is not installed")
    library.save_file({"w": TENSORS["w"]}, path, metadata={"format": "pt"})
    assert "no checkpoint of this program; the import command" in refusal(path)
    with pytest.raises(CheckpointError, match="no checkpoint of this program; it is left alone"):
        save_checkpoint(path, TENSORS, {})
    # A file of ours that the package has written again has no valid digest any more.
    path.unlink()
    save_checkpoint(path, TENSORS, {})
    with pytest.importorskip("safetensors").safe_open(path, "numpy") as file:
        metadata = file.metadata()
    library.save_file({**library.load_file(path), "w": TENSORS["w"] + 1}, path, metadata)
    assert "SHA-256" in refusal(path)


def test_a_file_of_the_first_format_still_loads():
    tensors, manifest = load_checkpoint(RELEASED)
    assert_equal(tensors, TENSORS)
    assert manifest == MANIFEST


# writing


@pytest.mark.parametrize(
    ("tensors", "manifest", "message"),
    [
        ({"w": np.zeros(2, complex)}, {}, "tensor 'w' has dtype complex128; allowed: F64"),
        ({"w": np.array([None])}, {}, "dtype object"),
        ({"w": np.array(["a"])}, {}, "dtype <U1"),
        ({"": np.zeros(2)}, {}, "cannot be named ''"),
        ({"__metadata__": np.zeros(2)}, {}, "cannot be named '__metadata__'"),
        ({1: np.zeros(2)}, {}, "cannot be named 1"),
        ({}, [], "manifest must be a dict, not list"),
        ({}, {"best": float("inf")}, "manifest cannot be stored: best is inf"),
        ({}, {"loss": np.float32(1)}, "loss is of type float32"),
        ({}, {"text": "x" * (1 << 20)}, "at most 1,048,576 fit"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(path, tensors, manifest, message):
    save_checkpoint(path, TENSORS, MANIFEST)
    with pytest.raises(CheckpointError, match=message):
        save_checkpoint(path, tensors, manifest)
    assert_equal(load_checkpoint(path)[0], TENSORS)


def test_only_checkpoints_are_overwritten(path):
    save_checkpoint(path, TENSORS, {"step": 1})
    save_checkpoint(path, TENSORS, {"step": 2})
    assert load_checkpoint(path)[1] == {"step": 2}
    assert is_checkpoint(path)
    for content in (b"", b"my thesis", path.read_bytes()[:30]):
        other = path.with_name("other")
        other.write_bytes(content)
        assert not is_checkpoint(other)
        with pytest.raises(CheckpointError, match="other exists and is no checkpoint"):
            save_checkpoint(other, TENSORS, {})
        assert other.read_bytes() == content
    with pytest.raises(CheckpointError, match="left alone"):
        save_checkpoint(path.parent, TENSORS, {})


def test_a_symbolic_link_is_not_followed(path):
    save_checkpoint(path, TENSORS, {"step": 1})
    link = path.with_name("link")
    link.symlink_to(path)
    with pytest.raises(FileExistsError, match="symbolic link"):
        save_checkpoint(link, TENSORS, {"step": 2})
    assert load_checkpoint(link)[1] == {"step": 1}
    dangling = path.with_name("dangling")
    dangling.symlink_to(path.with_name("nothing"))
    with pytest.raises(CheckpointError, match="left alone"):
        save_checkpoint(dangling, TENSORS, {})


# reading: damage


def test_every_truncation_and_extension_is_refused(path):
    save_checkpoint(path, TENSORS, MANIFEST)
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        refusal(path)
    path.write_bytes(content + b"\0")
    assert "extended" in refusal(path)


def test_every_changed_byte_is_noticed(path):
    save_checkpoint(path, TENSORS, MANIFEST)
    content = path.read_bytes()
    generator = random.Random(0)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << generator.randrange(8)
        path.write_bytes(changed)
        refusal(path)


@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_are_refused(tmp_path_factory, content, framed):
    path = tmp_path_factory.mktemp("random") / "c.safetensors"
    path.write_bytes(struct.pack("<Q", len(content)) + content if framed else content)
    refusal(path)


def test_files_that_are_none_are_refused(path):
    assert "does not exist" in refusal(path)
    assert "not a regular file" in refusal(path.parent)
    save_checkpoint(path, TENSORS, {})
    assert "more than max_bytes=100; raise that" in refusal(path, max_bytes=100)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name exist on POSIX systems only")
def test_a_pipe_is_refused_without_waiting(path):
    os.mkfifo(path)
    assert "not a regular file" in refusal(path)


def test_an_unreadable_file_is_refused_with_the_reason(path, monkeypatch):
    save_checkpoint(path, TENSORS, {})

    def stat(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", stat)
    assert "cannot be read: Permission denied" in refusal(path)


# reading: malice


def test_the_forger_of_these_tests_can_make_a_valid_file(path):
    payload = np.array([1.5, 2.5], "<f4").tobytes()
    forge(path, {"w": entry(), "e": entry(shape=(0, 2), offsets=(8, 8))}, payload, manifest='{"step":1}')
    tensors, manifest = load_checkpoint(path)
    assert tensors["w"].tolist() == [1.5, 2.5]
    assert tensors["e"].shape == (0, 2)
    assert manifest == {"step": 1}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"w": entry(dtype="F8_E4M3", offsets=(0, 2))}, "unknown dtype 'F8_E4M3'; allowed"),
        ({"w": entry(dtype=["F32"])}, "unknown dtype"),
        ({"w": entry(dtype="f4")}, "unknown dtype"),
        ({"w": entry(shape=(-2,))}, r"shape \[-2\]; allowed"),
        ({"w": entry(shape=(2.0,))}, r"shape \[2.0\]; allowed"),
        ({"w": entry(shape=(True, 2))}, r"shape \[True, 2\]; allowed"),
        ({"w": entry(shape=(1,) * 65)}, "up to 64 integers"),
        ({"w": {**entry(), "shape": 2}}, "shape 2; allowed"),
        ({"w": entry(shape=(0, 2**62, 2), offsets=(0, 0))}, "impossible shape"),
        ({"w": entry(shape=(2**32, 2**32))}, "impossible shape"),
        ({"w": entry(shape=(2**40,))}, "do not fit F32"),
        ({"w": entry(shape=(3,))}, "do not fit F32"),
        ({"w": entry(dtype="F64")}, "do not fit F64"),
        ({"w": entry(offsets=(8, 0))}, "do not fit"),
        ({"w": entry(offsets=(-8, 0))}, "data_offsets .* two integers"),
        ({"w": entry(offsets=(0, 8, 8))}, "data_offsets .* two integers"),
        ({"w": entry(offsets=(0.0, 8))}, "data_offsets .* two integers"),
        ({"w": entry(offsets=(4, 12))}, "begins at byte 4, the one before ends at 0"),
        ({"a": entry(), "b": entry()}, "begins at byte 0, the one before ends at 8"),
        ({"a": entry(shape=(1,), offsets=(0, 4)), "b": entry(shape=(1,), offsets=(5, 9))}, "begins at byte 5"),
        ({"w": entry(shape=(1,), offsets=(0, 4))}, "take 4 bytes, but 8 follow"),
        ({"a": entry(), "b": entry(offsets=(8, 16))}, "take 16 bytes, but 8 follow"),
        ({}, "take 0 bytes, but 8 follow"),
        ({"w": {"dtype": "F32", "shape": [2]}}, "exactly the fields"),
        ({"w": {**entry(), "pickle": ""}}, "exactly the fields"),
        ({"w": 7}, "exactly the fields"),
        ({"w": entry(dtype="BOOL", shape=(8,))}, "BOOL but has bytes other than 0 and 1"),
    ],
)
def test_entries_that_do_not_describe_the_bytes_are_refused(path, entries, message):
    forge(path, entries, b"\x02" * 8)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("forged", "message"),
    [
        ({"version": "2"}, "written by a newer release (format 2; this one reads up to 1); upgrade with: pip"),
        ({"version": "0"}, "format version '0' is unknown"),
        ({"version": "-1"}, "format version '-1' is unknown"),
        ({"version": "9" * 30}, "is unknown"),
        ({"version": "1.0"}, "is unknown"),
        ({"version": 1}, "values that are no strings"),
        ({"metadata": {"format": "pt"}}, "no checkpoint of this program"),
        ({"metadata": {"more": "x"}}, "the metadata has the keys"),
        ({"manifest": "[]"}, "manifest is malformed: a JSON object was expected"),
        ({"manifest": '{"a":1,"a":2}'}, "manifest is malformed: the key 'a' occurs twice"),
        ({"manifest": '{"a":NaN}'}, "manifest is malformed: NaN"),
        ({"manifest": "\ud800"}, "manifest is malformed: no valid JSON"),
        ({"text": "[" * 100_000}, "header is malformed: nested"),
        ({"text": "{}"}, "no checkpoint of this program"),
        ({"text": '{"__metadata__":[]}'}, "no checkpoint of this program"),
        ({"text": '{"__metadata__":{"format":"autodiff-gpt","version":"1"}}'}, "manifest is missing"),
        ({"text": '{"a":1,"a":1}'}, "header is malformed: the key 'a' occurs twice"),
        ({"text": SPACED}, "SHA-256"),
        ({"text": REORDERED}, "SHA-256"),
    ],
)
def test_metadata_that_is_not_ours_is_refused(path, forged, message):
    assert message in refusal(forge(path, {}, **forged))


def test_a_header_that_is_not_utf8_is_refused(path):
    path.write_bytes(struct.pack("<Q", 4) + b'{"\xff"')
    assert "header is malformed: 'utf-8' codec" in refusal(path)


def test_the_header_may_not_exceed_its_limit(path):
    path.write_bytes(struct.pack("<Q", (1 << 20) + 1) + b" " * (1 << 21))
    assert "claims 1,048,577 bytes; at most 1,048,576" in refusal(path)
    path.write_bytes(struct.pack("<Q", 2**64 - 1) + b"{}")
    assert "truncated" in refusal(path)


def test_memory_follows_the_size_of_the_file_not_its_claims(path):
    forge(path, {"w": entry(shape=(10**9,), offsets=(0, 4 * 10**9))}, b"\0" * 8)
    tracemalloc.start()
    refusal(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_file_that_shrinks_while_it_is_read_is_refused(path, monkeypatch):
    save_checkpoint(path, TENSORS, {})
    real, content = os.fstat, path.read_bytes()

    def fstat(descriptor):
        status = real(descriptor)
        path.write_bytes(content[:-2])
        return status

    monkeypatch.setattr(os, "fstat", fstat)
    assert "shorter while it was read" in refusal(path)


# matching


def test_differences_from_what_is_expected_are_all_listed():
    expected = {name: np.zeros((2, 3), np.float32) for name in ("same", "missing", "shape", "dtype", "nan", "scalar")}
    tensors = {
        "same": np.ones((2, 3), np.float32),
        "shape": np.zeros((1, 3), np.float32),
        "dtype": np.zeros((2, 3)),
        "nan": np.array([[1, np.nan, np.inf], [1, 1, 1]], np.float32),
        "scalar": np.float32(0) + np.zeros(()),
        "extra": np.zeros(2),
    }
    with pytest.raises(CheckpointError) as caught:
        check_tensors(tensors, expected, source="run 7")
    message = str(caught.value)
    for part in (
        "run 7 does not fit: 'missing' is missing", "'shape' has shape (1, 3), expected (2, 3)",
        "'dtype' has dtype float64, expected float32", "'nan' has 2 non-finite values", "'scalar' has shape ()",
        "'extra' is unexpected",
    ):  # fmt: skip
        assert part in message
    assert "same" not in message
    check_tensors({"same": tensors["same"], "n": np.array(3)}, {"same": expected["same"], "n": np.array(0)})

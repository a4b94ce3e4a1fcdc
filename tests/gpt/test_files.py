"""Files are written whole or not at all, whatever fails on the way."""

import errno
import os
import stat

import pytest

from gpt.files import atomic_write

OLD, NEW = b"old content", [b"new ", memoryview(b"content"), b""]


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(OLD)
    return path


def names(path):
    return sorted(entry.name for entry in path.parent.iterdir())


def test_content_is_replaced_and_created(target):
    atomic_write(target, NEW)
    assert target.read_bytes() == b"new content"
    assert names(target) == ["file.bin"]
    atomic_write(str(target), b"")
    assert target.read_bytes() == b""
    other = target.with_name("other.bin")
    atomic_write(other, iter(NEW))
    assert other.read_bytes() == b"new content"


def test_the_system_may_take_less_than_offered(target, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, chunk: write(descriptor, chunk[:3]))
    atomic_write(target, NEW)
    assert target.read_bytes() == b"new content"


# Every system call of a write, each failing in turn: fsync is called for the file, then for the folder; so is close.
BEFORE = [*((call, 1) for call in ("lstat", "open", "write", "fsync", "close", "chmod", "replace")), ("write", 2)]
AFTER = [("open", 2), ("fsync", 2), ("close", 2)]
FAULTS = [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EIO, "I/O error"), KeyboardInterrupt()]


@pytest.mark.skipif(os.name == "nt", reason="the sequence of system calls is that of POSIX systems")
@pytest.mark.parametrize("fault", FAULTS, ids=["full", "broken", "interrupted"])
@pytest.mark.parametrize(("call", "occurrence"), BEFORE + AFTER)
def test_a_fault_at_any_call_leaves_old_or_new_content_and_no_other_file(target, monkeypatch, call, occurrence, fault):
    real, count = getattr(os, call), 0

    def failing(*args, **kwargs):
        nonlocal count
        count += 1
        if count == occurrence:
            if call == "close":
                real(*args)  # a failing close has closed
            raise fault
        return real(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        with pytest.raises(type(fault)) as caught:
            atomic_write(target, NEW)
    assert count == occurrence
    assert target.read_bytes() == (b"new content" if (call, occurrence) in AFTER else OLD)
    assert names(target) == ["file.bin"]
    if isinstance(fault, OSError):
        message = str(caught.value)
        assert caught.value.errno == fault.errno
        assert "cannot write 11 bytes: " + fault.strerror in message
        assert str(target) in message


def test_an_interrupt_just_after_the_replacement_is_still_an_interrupt(target, monkeypatch):
    real = os.replace

    def replace(*args):
        real(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(target, NEW)
    assert target.read_bytes() == b"new content"
    assert names(target) == ["file.bin"]


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be synced on Windows")
def test_a_file_system_that_cannot_sync_folders_is_accepted(target, monkeypatch):
    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    atomic_write(target, NEW)
    assert target.read_bytes() == b"new content"


@pytest.mark.skipif(os.name == "nt", reason="permission bits are those of POSIX systems")
def test_the_mode_of_the_target_is_kept_and_a_new_file_gets_what_the_umask_leaves(target):
    for mode in (0o640, 0o444, 0o600):
        os.chmod(target, mode)
        atomic_write(target, NEW)
        assert stat.S_IMODE(target.stat().st_mode) == mode
    before = os.umask(0o027)
    try:
        atomic_write(target.with_name("new.bin"), NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.with_name("new.bin").stat().st_mode) == 0o640


def test_links_folders_and_missing_folders_are_refused(target):
    link = target.with_name("link.bin")
    link.symlink_to(target)
    with pytest.raises(FileExistsError, match="symbolic link"):
        atomic_write(link, NEW)
    assert target.read_bytes() == OLD
    assert link.is_symlink()
    with pytest.raises(FileExistsError, match="not a regular file"):
        atomic_write(target.parent, NEW)
    with pytest.raises(FileNotFoundError, match=r"cannot write 11 bytes: No such file"):
        atomic_write(target.with_name("nowhere") / "file.bin", NEW)
    assert names(target) == ["file.bin", "link.bin"]


def test_a_file_that_appears_under_the_temporary_name_is_not_overwritten(target, monkeypatch):
    monkeypatch.setattr("secrets.token_hex", lambda n: "0" * 2 * n)
    squatter = target.with_name(f".file.bin.{'0' * 16}.tmp")
    squatter.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        atomic_write(target, NEW)
    assert target.read_bytes() == OLD
    assert squatter.read_bytes() == b"precious"

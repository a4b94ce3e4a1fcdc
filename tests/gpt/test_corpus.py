"""Reading text: one policy on every system, and errors that say which file, where, and what to do."""

import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt import corpus
from gpt.corpus import DataError, builtin_text, read_text

TEXT = "naïve café\n中文\n"
MARKED = {
    "utf-8": b"\xef\xbb\xbf",
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
    "utf-32-le": b"\xff\xfe\0\0",
    "utf-32-be": b"\0\0\xfe\xff",
}


@pytest.fixture
def write(tmp_path):
    def write(content, name="text.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def refusal(path, encoding=None):
    with pytest.raises(DataError) as caught:
        read_text(path, encoding)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", MARKED)
def test_the_same_text_is_read_whatever_its_mark_and_line_ends(write, encoding, ending):
    content = MARKED[encoding] + TEXT.replace("\n", ending).encode(encoding)
    assert read_text(write(content)) == TEXT
    assert read_text(str(write(content)), encoding) == TEXT


@given(st.text(st.characters(exclude_characters="\0\r\ufeff", codec="utf-8"), min_size=1))
def test_any_utf8_text_without_carriage_returns_is_read_unchanged(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "text.txt"
    path.write_bytes(text.encode())
    assert read_text(path) == text


def test_only_one_mark_is_dropped_and_only_at_the_start(write):
    assert read_text(write("\ufeff\ufeffa\ufeff".encode())) == "\ufeffa\ufeff"


def test_another_encoding_is_read_on_request_only(write):
    path = write(TEXT.encode("gb18030"))
    assert read_text(path, "gb18030") == TEXT
    message = refusal(path)
    assert "text.txt is not utf-8" in message
    assert "--encoding gb18030" in message


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_an_undecodable_byte_is_named_with_its_offset_in_the_file(write, mark):
    message = refusal(write(mark + b"caf\xe9 au lait"))
    assert f"byte 0xe9 at offset {len(mark) + 3} (invalid continuation byte)" in message


def test_a_wrong_encoding_is_answered_with_what_the_mark_says(write):
    assert "its byte order mark says utf-16-le: leave --encoding out" in refusal(
        write(b"\xff\xfe" + "é".encode("utf-16-le")), "utf-8"
    )


def test_a_damaged_file_with_a_mark_and_a_wrong_request_each_get_a_remedy(write):
    damaged = refusal(write(b"\xff\xfea\0b"))
    assert "not utf-16-le: byte 0x62 at offset 4" in damaged
    assert "damaged" in damaged
    assert "leave that out for UTF-8" in refusal(write("é".encode()), "ascii")
    assert "not idna" in refusal(write(b"xn--9"), "idna")  # a codec that does not say where


@pytest.mark.parametrize("encoding", ["gb1803", "hex", "a\0b", ""])
def test_an_unknown_encoding_is_refused(write, encoding):
    assert f"unknown text encoding {encoding!r}" in refusal(write(b"a"), encoding)


def test_files_are_joined_in_order_with_a_newline_where_one_is_missing(write):
    a, b, c = write(b"one", "a"), write(b"two\r\n", "b"), write(b"three", "c")
    assert read_text([a, b, c]) == "one\ntwo\nthree"
    assert read_text([c, a]) == "three\none"


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_is_named_even_among_others(write, content):
    full, empty = write(b"text", "full.txt"), write(content, "empty.txt")
    with pytest.raises(DataError, match=r"empty\.txt is empty"):
        read_text([full, empty])


def test_nul_is_refused_as_binary_or_unmarked_utf16(write):
    message = refusal(write("ab".encode("utf-16-le")))
    assert "NUL (first at character 1)" in message
    assert "utf-16-le" in message


def test_missing_files_and_folders_and_nothing_are_refused(tmp_path):
    assert "nowhere.txt does not exist" in refusal(tmp_path / "nowhere.txt")
    assert "is a folder" in refusal(tmp_path)
    with pytest.raises(DataError, match="at least one"):
        read_text([])


def test_an_unreadable_file_is_refused_with_the_reason(write, monkeypatch):
    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    path = write(b"secret")
    monkeypatch.setattr(type(path), "open", denied)
    assert "text.txt cannot be read: Permission denied" in refusal(path)


def test_too_much_text_is_refused_over_all_files_together(write, monkeypatch):
    monkeypatch.setattr(corpus, "MAX_TEXT_BYTES", 10)
    a, b = write(b"12345", "a"), write(b"67890", "b")
    assert read_text([a, b]) == "12345\n67890"
    with pytest.raises(DataError, match=r"larger than 10 bytes at .*c"):
        read_text([a, b, write(b"1", "c")])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name exist on POSIX systems only")
def test_a_pipe_can_be_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    child = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", f"open({str(path)!r}, 'w').write('piped')"])
    assert read_text(path) == "piped"
    assert os.waitpid(child, 0)[1] == 0


def test_the_builtin_text_is_english_help_in_a_fixed_order():
    text = builtin_text()
    assert text.startswith('The "assert" statement\n')
    assert text == builtin_text()
    assert len(text) > 400_000
    assert "\r" not in text
    assert "\0" not in text


def test_a_python_without_its_topics_is_told_to_name_data(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(DataError, match="--data FILE"):
        builtin_text()

"""Downloads are checked before anybody can read them."""

from __future__ import annotations

import hashlib
import io

import pytest

from labcode.workload.download import SOURCES, Source, download

CONTENT = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,3,4\n"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "publisher" / "trace.csv"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return Source(path.as_uri(), hashlib.sha256(CONTENT).hexdigest(), "CC-BY-4.0", 1)


def test_a_file_arrives_under_its_own_name(source, tmp_path):
    path = download("azure_conv", tmp_path / "new" / "folder", source=source)
    assert path.name == "trace.csv" and path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["trace.csv"]


def test_a_file_that_is_there_is_not_fetched_again(source, tmp_path):
    download("azure_conv", tmp_path / "folder", source=source)

    def no_network(address):
        raise AssertionError(f"{address} opened")

    download("azure_conv", tmp_path / "folder", source=source, opener=no_network)


def test_a_damaged_file_is_fetched_again(source, tmp_path):
    path = download("azure_conv", tmp_path / "folder", source=source)
    path.write_bytes(b"damaged")
    assert download("azure_conv", tmp_path / "folder", source=source).read_bytes() == CONTENT


def test_a_wrong_digest_leaves_nothing_behind(source, tmp_path):
    with pytest.raises(ValueError, match="sha256"):
        download("azure_conv", tmp_path / "folder", source=source, opener=lambda address: io.BytesIO(b"other"))
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_wrong_download_does_not_destroy_what_was_there(source, tmp_path):
    old = tmp_path / "folder" / "trace.csv"
    old.parent.mkdir()
    old.write_bytes(b"mine")
    with pytest.raises(ValueError, match="sha256"):
        download("azure_conv", old.parent, source=source, opener=lambda address: io.BytesIO(b"other"))
    assert old.read_bytes() == b"mine"


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match="known are azure_conv, azure_code"):
        download("sharegpt", tmp_path)


@pytest.mark.parametrize("name", SOURCES)
def test_sources_are_pinned(name):
    source = SOURCES[name]
    assert source.url.startswith("https://") and source.url.endswith(".csv")
    assert len(source.sha256) == 64 and source.rows > 5000 and source.licence

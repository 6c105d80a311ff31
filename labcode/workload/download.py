"""Fetching published traces from their publishers, with a check of what came.

Nothing in the book or the tests needs this: a reader who wants to run a chapter on a whole trace calls
`download("azure_conv", "data")` once and then `from_file`.
"""

from __future__ import annotations

import hashlib
import shutil
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from labcode.checks import one_of


@dataclass(frozen=True)
class Source:
    """Where a trace comes from.

    Attributes
    ----------
    url : str
        Address at the publisher, at a fixed commit.
    sha256 : str
        Digest of the whole file.
    licence, rows : str, int
        Licence of the data, and how many requests the file holds.
    """

    url: str
    sha256: str
    licence: str
    rows: int


COMMIT = "790921015d50dd6aae7f7e47f39ba0e235ad6b08"
AZURE = f"https://raw.githubusercontent.com/Azure/AzurePublicDataset/{COMMIT}/data/"
SOURCES = {
    "azure_conv": Source(
        AZURE + "AzureLLMInferenceTrace_conv.csv",
        "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
        "CC-BY-4.0",
        19_366,
    ),
    "azure_code": Source(
        AZURE + "AzureLLMInferenceTrace_code.csv",
        "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
        "CC-BY-4.0",
        8_819,
    ),
}


def download(
    name: str,
    folder: str | Path,
    *,
    source: Source | None = None,
    opener: Callable[[str], BinaryIO] = urllib.request.urlopen,
) -> Path:
    """Fetch a published trace, check its digest, and return the path of the file.

    A file that is there already with the right digest is not fetched again. A file whose digest is wrong is
    never left under its final name.

    Parameters
    ----------
    name : str
        One of `SOURCES`: "azure_conv" or "azure_code". Mooncake's traces (kvcache-ai/Mooncake, Apache-2.0)
        are read by `from_file` too, but no digest of the whole file is known here, so that they are left to
        the reader to fetch.
    folder : str or pathlib.Path
        Where to put it; made if it is not there.
    source : Source, optional
        Another address and digest for `name`, such as a mirror.
    opener : callable
        Opens an address for reading bytes.

    Raises
    ------
    ValueError
        If the name is unknown, or the digest of what came differs from the published one.
    OSError
        If the address cannot be reached or the folder not written.
    """
    chosen = source or SOURCES[str(one_of("name", name, SOURCES))]
    target = Path(folder) / chosen.url.rsplit("/", 1)[-1]
    if target.exists() and digest(target) == chosen.sha256:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    try:
        with opener(chosen.url) as stream, part.open("wb") as file:
            shutil.copyfileobj(stream, file)
        found = digest(part)
        if found != chosen.sha256:
            raise ValueError(f"{name}: {chosen.url} gave sha256 {found}, expected {chosen.sha256}")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def digest(path: Path) -> str:
    """Return the sha256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

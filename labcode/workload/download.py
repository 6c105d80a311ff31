"""Fetching published traces from their publishers, with a check of what came.

Nothing in the book or the tests needs this: a reader who wants to run a chapter on a whole trace calls
`download("azure_conv", "data")` once and then `from_file`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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


def download(name: str, folder: str | Path, *, source: Source | None = None) -> Path:
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

    Raises
    ------
    ValueError
        If the name is unknown, or the digest of what came differs from the published one.
    OSError
        If the address cannot be reached or the folder not written.
    """
    import pooch  # here, since it brings an HTTP library that nobody else needs

    chosen = source or SOURCES[str(one_of("name", name, SOURCES))]
    return Path(
        pooch.retrieve(chosen.url, f"sha256:{chosen.sha256}", fname=chosen.url.rsplit("/", 1)[-1], path=Path(folder))
    )

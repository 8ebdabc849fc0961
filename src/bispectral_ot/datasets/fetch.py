"""Bring the official files into the cache of this machine: checked, with retries, from any mirror."""

from __future__ import annotations

import contextlib
import logging
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bispectral_ot.cache import cache_folder
from bispectral_ot.datasets.idx import read_idx
from bispectral_ot.datasets.official import OfficialSet
from bispectral_ot.errors import DatasetError
from bispectral_ot.files import whole_file
from bispectral_ot.progress import Progress, silent


def fetch(official: OfficialSet, *, splits: tuple[str, ...] = ("train", "test"), progress: Progress = silent) -> Path:
    """Bring the files of ``splits`` into the cache, checked, and return the cache folder.

    What is there and whole is not fetched again; a cached file with a wrong checksum is removed first. Files out of an
    archive have no published checksum of their own, but as gzip files they end with one.
    """
    folder = cache_folder(official.name)
    files = [folder / f"{stem}.gz" for split in splits for stem in official.files[split]]
    if not official.archive:
        for file in files:
            _fetch_file(official, file.name, folder, progress)
        return folder
    damaged = [file for file in files if file.exists() and not _is_whole(file)]
    for file in damaged:
        file.unlink()
    if not all(file.exists() for file in files):
        archive = _fetch_file(official, official.archive, folder, progress, removed=damaged)
        _unpack(archive, [f"{stem}.gz" for pair in official.files.values() for stem in pair], folder)
        archive.unlink()  # half a gigabyte, of which the set is one tenth
    return folder


def _is_whole(path: Path) -> bool:
    """Whether a packed IDX file can be read: its header and the checksum that every gzip file ends with are right."""
    try:
        read_idx(path)
    except DatasetError:
        return False
    return True


def _fetch_file(
    official: OfficialSet, name: str, folder: Path, progress: Progress, *, removed: Sequence[Path] = ()
) -> Path:
    import pooch
    import requests

    target, sha256 = folder / name, official.sha256[name]
    troubles = []
    try:
        if target.exists() and not pooch.hashes.hash_matches(target, sha256):
            target.unlink()
            removed = [*removed, target]
        for mirror in official.mirrors:
            fetcher = pooch.create(path=folder, base_url=mirror, registry={name: sha256}, retry_if_failed=1)
            bar = _DownloadBar(f"fetch {official.name}/{name}", progress)
            downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=(10, 60))
            try:
                with _quiet_pooch():
                    return Path(fetcher.fetch(name, downloader=downloader))
            except requests.RequestException as error:
                troubles.append(f"{mirror}{name}: {_short(error)}")
            except ValueError:
                troubles.append(f"{mirror}{name}: wrong checksum, the download was removed")
    except OSError as error:
        raise DatasetError(
            f"{_told(removed)}cannot write {target}: {error.strerror or error}. Free or change the cache folder "
            f"(variable BISPECTRAL_OT_CACHE), or name a folder that has the files: root=... or BISPECTRAL_OT_DATA."
        ) from None
    raise DatasetError(
        f"{_told(removed)}cannot fetch {official.name}:\n  "
        + "\n  ".join(troubles)
        + f"\nWithout network: get {name} from one of these addresses (sha256 {sha256[:12]}...),\n"
        f"put it at {target},\nor name a folder that has it with root=... or the variable BISPECTRAL_OT_DATA."
    )


def _told(removed: Sequence[Path]) -> str:
    return "".join(f"{path} had a wrong checksum and was removed. " for path in removed)


def _unpack(archive: Path, names: list[str], folder: Path) -> None:
    """Take the files called ``names`` out of a zip archive, each whole or not at all."""
    with zipfile.ZipFile(archive) as packed:
        members = {Path(member).name: member for member in packed.namelist()}
        for name in names:
            try:
                with whole_file(folder / name) as part, packed.open(members[name]) as source, open(part, "wb") as sink:
                    shutil.copyfileobj(source, sink)
            except OSError as error:
                raise DatasetError(f"cannot write {folder / name}: {error.strerror or error}.") from None


def _short(error: Exception) -> str:
    """The first line of a network error, without the nested Python objects."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    return f"no connection ({type(error).__name__})"


@contextlib.contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Keep pooch's log lines off the screen while a progress bar is drawn there."""
    import pooch

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class _DownloadBar:
    """The progress-bar object that pooch drives, turned into calls of a :class:`Progress`."""

    def __init__(self, stage: str, progress: Progress) -> None:
        self.stage, self.progress = stage, progress
        self.total, self.done = 0, 0

    def update(self, count: int) -> None:
        self.done += count
        self.progress(self.stage, min(self.done, self.total) if self.total else self.done, self.total)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing to close: the receiver sees ``done == total``."""

"""Cache of encoded images: one SQLite file per encoder, rows under a hash of the image."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from bispectral_ot.errors import DataWarning, warn
from bispectral_ot.files import cache_folder
from bispectral_ot.transformer import Rows

T = TypeVar("T")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, row BLOB) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS encoder (name TEXT PRIMARY KEY)",
)


class Encodings(NamedTuple):
    """Cached rows of one encoder: file, description, number of images and bytes."""

    file: str
    encoder: str
    images: int
    bytes: int


def list_encodings() -> list[Encodings]:
    """Encoders whose rows are cached on disk."""
    found = []
    for path in sorted(cache_folder("encodings").glob("*.sqlite")):
        try:
            with closing(sqlite3.connect(path)) as connection:
                (images,) = connection.execute("SELECT count(*) FROM rows").fetchone()
                (name,) = connection.execute("SELECT name FROM encoder").fetchone()
        except (sqlite3.Error, TypeError):
            images, name = 0, "damaged"
        found.append(Encodings(path.name, str(name), int(images), path.stat().st_size))
    return found


def clear_encodings(file: str | None = None) -> int:
    """Delete the cached rows of one encoder, by its file, or of all; return the number of files."""
    folder = cache_folder("encodings")
    paths = sorted(folder.glob("*.sqlite")) if file is None else [folder / Path(file).name]
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def _with_database(digest: str, action: Callable[[sqlite3.Connection], T], default: T) -> T:
    """Result of an action on the database of an encoder; the default, with a warning, where it cannot be used."""
    path = cache_folder("encodings") / f"{digest}.sqlite"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            for table in _TABLES:
                connection.execute(table)
            return action(connection)
    except (OSError, sqlite3.Error) as error:
        warn(
            f"the cache of encodings {path} cannot be used ({error}); rows are not kept on disk. "
            "Delete it with clear_encodings() if it is damaged.",
            DataWarning,
        )
        return default


def load_rows(digest: str, keys: list[bytes]) -> dict[bytes, Rows]:
    """Rows of an encoder that are known, by key."""

    def read(connection: sqlite3.Connection) -> dict[bytes, Rows]:
        query = "SELECT row FROM rows WHERE key = ?"
        entries = ((key, connection.execute(query, (key,)).fetchone()) for key in keys)
        return {key: np.frombuffer(entry[0], dtype=np.float32) for key, entry in entries if entry is not None}

    return _with_database(digest, read, {})


def save_rows(digest: str, name: str, rows: dict[bytes, Rows]) -> None:
    """Add rows to those of an encoder."""

    def write(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT OR IGNORE INTO encoder VALUES (?)", (name,))
        entries = [(key, row.tobytes()) for key, row in rows.items()]
        connection.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", entries)

    _with_database(digest, write, None)

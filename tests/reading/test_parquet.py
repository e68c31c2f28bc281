"""A Parquet file with one bit flipped anywhere gives the same table as before, or one clear sentence."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hostile_files import say_all, write_run

from timing_logger.errors import NotATimingFileError
from timing_logger.reading import read_timings
from timing_logger.reading.converting import convert
from timing_logger.reading.parquet import pyarrow_parquet

pytest.importorskip("pyarrow")

N_FLIPS = 75  # in the pages, and as many in what describes them


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    write_run(folder / "in", 40)
    convert(folder / "in", "parquet", folder / "run.parquet")
    return folder / "run.parquet"


def _known(path: Path) -> tuple[Any, list[dict[str, Any]]]:
    table = read_timings(path)
    return table, [{**file, "path": ""} for file in table.attrs["files"]]


def _damaged(path: Path, name: str) -> bytes:
    """Return the file with one bit flipped near the end of a column."""
    _, parquet = pyarrow_parquet()
    group = parquet.read_metadata(path).row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    (column,) = [one for one in columns if one.path_in_schema == name]
    first = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(path.read_bytes())
    data[first + column.total_compressed_size - 3] ^= 1
    return bytes(data)


@pytest.mark.slow("flips bits by chance; that commands refuse a column that was damaged is quick")
@pytest.mark.parametrize("part", ["pages", "footer"])
def test_no_flipped_bit_changes_what_is_read(sound: Path, tmp_path: Path, part: str) -> None:
    data, chance = sound.read_bytes(), random.Random(part)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    whole, described = _known(sound)
    refused = 0
    for _ in range(N_FLIPS):
        at = chance.randrange(footer) if part == "pages" else chance.randrange(footer, len(data))
        path = tmp_path / "run.parquet"
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
        try:
            table, files = _known(path)
        except NotATimingFileError:
            refused += 1
        else:
            assert table.equals(whole), at
            assert files == described, at
    assert refused > N_FLIPS // 3


def test_commands_refuse_damage_in_one_sentence(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a command does not read cannot be refused, so the damage is in a column that all of them need."""
    (tmp_path / "run.parquet").write_bytes(_damaged(sound, "start_counter"))
    commands = [
        "summary",
        "stragglers",
        "trace -o {out}.json",
        "summary --engine pyarrow",
        "report -o {out}.html",
    ]
    for said in say_all(tmp_path / "run.parquet", tmp_path, capsys, commands).values():
        assert said.code == 2
        assert "was damaged since it was written" in said.err


def test_pages_have_checksums_of_their_own(sound: Path) -> None:
    """For whoever else reads them, too."""
    _, parquet = pyarrow_parquet()
    damaged = sound.with_name("damaged.parquet")
    damaged.write_bytes(_damaged(sound, "start_counter"))
    with pytest.raises(OSError, match="CRC"):
        parquet.read_table(damaged, page_checksum_verification=True)


def test_files_of_earlier_versions_have_none_and_are_read(sound: Path, tmp_path: Path) -> None:
    _, parquet = pyarrow_parquet()
    table = parquet.read_table(sound)
    stated = json.loads(table.schema.metadata[b"timing_logger"]) if table.schema.metadata else None
    stated = stated or json.loads(parquet.read_metadata(sound).metadata[b"timing_logger"])
    files = [{name: file[name] for name in file if name != "columns"} for file in stated["files"]]
    metadata = {b"timing_logger": json.dumps({"files": files}).encode()}
    rows = files[0]["rows"]
    parquet.write_table(
        table.replace_schema_metadata(metadata), tmp_path / "run.parquet", row_group_size=rows
    )
    assert read_timings(tmp_path / "run.parquet").equals(read_timings(sound))

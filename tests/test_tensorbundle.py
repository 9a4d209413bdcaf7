"""The reader of TensorFlow checkpoints, on files that TensorFlow wrote (see fixtures/make_tensorflow.py)."""

import random
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from masquerade.checkpoints import tensorflow as tensorbundle
from masquerade.checkpoints.tensorflow import read_bundle
from masquerade.errors import CheckpointError

FIXTURES = Path(__file__).parent / "fixtures" / "tensorflow"
BERT = FIXTURES / "bert" / "bert_model.ckpt"
SHARDED = FIXTURES / "sharded" / "model.ckpt"


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A copy of the BERT checkpoint, to be damaged."""
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(f"{BERT}{suffix}", tmp_path)
    return tmp_path / BERT.name


def index_of(prefix: Path) -> Path:
    return Path(f"{prefix}.index")


@pytest.mark.parametrize(
    "prefix", [BERT, FIXTURES / "albert" / "model.ckpt-best", SHARDED], ids=lambda p: p.parent.name
)
def test_names_shapes_types_and_values_are_those_that_were_saved(prefix: Path) -> None:
    read = read_bundle(prefix)
    saved = load_file(prefix.parent / "weights.safetensors")
    assert read.keys() == saved.keys()
    for name, tensor in saved.items():
        assert read[name].dtype == tensor.dtype, name
        assert read[name].shape == tensor.shape, name
        assert torch.equal(read[name], tensor), name


def test_the_sharded_checkpoint_has_every_supported_type_and_both_data_files() -> None:
    read = read_bundle(SHARDED)
    assert {tensor.dtype for tensor in read.values()} == set(tensorbundle._DTYPES.values())
    assert {name.split("/")[0] for name in read} == {"left", "right"}


def test_the_index_file_itself_may_be_given() -> None:
    assert read_bundle(index_of(BERT)).keys() == read_bundle(BERT).keys()


def test_only_wanted_names_are_read() -> None:
    assert list(read_bundle(BERT, wanted=lambda name: name == "global_step")) == ["global_step"]


def test_scalars_are_read_as_scalars() -> None:
    step = read_bundle(BERT)["global_step"]
    assert step.dtype == torch.int64
    assert step.shape == ()
    assert step.item() == 12345


def test_string_tensors_are_left_out() -> None:
    assert list(read_bundle(FIXTURES / "object" / "model.ckpt")) == ["weight/.ATTRIBUTES/VARIABLE_VALUE"]
    assert "left/text" not in read_bundle(SHARDED)


def test_tensors_can_be_changed_without_changing_the_file(bert: Path) -> None:
    read_bundle(bert)["global_step"].fill_(7)
    assert read_bundle(bert)["global_step"].item() == 12345


def test_an_unsupported_type_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"'signal'.*unknown type"):
        read_bundle(FIXTURES / "complex" / "model.ckpt")


def test_a_sliced_variable_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"'split'.*slices"):
        read_bundle(FIXTURES / "sliced" / "model.ckpt")


def test_a_missing_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"absent\.ckpt\.index cannot be opened"):
        read_bundle(tmp_path / "absent.ckpt")


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    for suffix in (".index", ".data-00000-of-00002"):
        shutil.copy(f"{SHARDED}{suffix}", tmp_path)
    with pytest.raises(CheckpointError, match=r"data-00001-of-00002 cannot be opened"):
        read_bundle(tmp_path / SHARDED.name)


def test_a_truncated_data_file_names_the_first_tensor_that_is_cut(bert: Path) -> None:
    data = Path(f"{bert}.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match=r"data-00000-of-00001 ends before the end of the tensor 'global_step'"):
        read_bundle(bert)


def test_a_file_of_another_kind_is_no_index(bert: Path) -> None:
    index_of(bert).write_bytes(b"PK\x03\x04" * 50)
    with pytest.raises(CheckpointError, match="no TensorFlow V2 index"):
        read_bundle(bert)


def test_a_changed_block_fails_its_checksum(bert: Path) -> None:
    contents = bytearray(index_of(bert).read_bytes())
    contents[20] ^= 1
    index_of(bert).write_bytes(contents)
    with pytest.raises(CheckpointError, match="checksum"):
        read_bundle(bert)


def test_any_truncated_index_is_reported(bert: Path) -> None:
    contents = index_of(bert).read_bytes()
    for length in range(0, len(contents), 7):
        index_of(bert).write_bytes(contents[:length])
        with pytest.raises(CheckpointError):
            read_bundle(bert)


@pytest.mark.parametrize("checksums", [True, False], ids=["with checksums", "past the checksums"])
def test_flipped_bytes_give_the_same_names_or_a_plain_error(
    bert: Path, checksums: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = index_of(bert).read_bytes()
    names = read_bundle(bert).keys()
    generator = random.Random(0)
    for _ in range(300):
        damaged = bytearray(contents)
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(len(damaged) - 8)] = generator.randrange(256)
        index_of(bert).write_bytes(damaged)
        if not checksums:  # let the damage through, as if it had been there when the checksum was made
            monkeypatch.setattr(tensorbundle, "_masked_crc32c", _AlwaysRight())
        try:
            read = read_bundle(bert)
        except CheckpointError as error:
            assert str(error).endswith(".")
        else:
            assert not checksums or read.keys() == names


class _AlwaysRight:
    """Stands in for the checksum and equals whatever it is compared with."""

    def __call__(self, data: bytes) -> "_AlwaysRight":
        return self

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def test_a_compressed_block_is_refused_in_a_sentence(bert: Path) -> None:
    plain = bytearray(index_of(bert).read_bytes())
    footer = tensorbundle._Reader(bytes(plain[-48:]))
    footer.varint(), footer.varint()
    start, size = footer.varint(), footer.varint()
    plain[start + size] = 1  # the kind of the block list: snappy
    checksum = tensorbundle._masked_crc32c(bytes(plain[start : start + size + 1]))
    plain[start + size + 1 : start + size + 5] = checksum.to_bytes(4, "little")
    index_of(bert).write_bytes(plain)
    with pytest.raises(CheckpointError, match="a block is compressed"):
        read_bundle(bert)


def test_the_checksum_is_the_published_one() -> None:
    """The check value of CRC-32C for the digits 1 to 9 is 0xE3069283; masking rotates it and adds a constant."""
    crc = 0xE3069283
    assert tensorbundle._masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

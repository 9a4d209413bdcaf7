"""What every objective has: a way to make examples, a loss, and perhaps helper networks."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence

from masquerade.data.checks import check_types
from masquerade.data.corpus import Pieces, Tokens
from masquerade.data.examples import Example
from masquerade.data.rng import Rng
from masquerade.data.streams import Segment
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss, Term, TermLoss, TokenTerm
from masquerade.text.vocabulary import ABSENT, Vocabulary


class Objective(ABC):
    """A pretraining objective. The same ids and the same state of the generator give the same example."""

    vocabulary: Vocabulary

    def __post_init__(self) -> None:
        check_types(vars(self), type(self), "The objective's option")

    def __call__(self, ids: Sequence[int], rng: Rng) -> Example:
        """The example of a piece's ids, special tokens included. An objective that needs more than one piece defines
        ``example`` instead."""
        raise NotImplementedError

    def cut(self, tokens: Tokens, length: int) -> Pieces:
        """The documents cut into pieces whose examples have at most ``length`` tokens of text and special tokens."""
        return tokens.pieces(length - 2)

    def example(self, pieces: Pieces, number: int, rng: Rng, draw: float) -> Example:
        """The example of one piece of a corpus. ``draw`` is a number from 0 to 1 (excluded); those of successive
        examples are spread evenly."""
        return self(self.enclosed(pieces, number), rng)

    def enclosed(self, pieces: Pieces, number: int) -> list[int]:
        """The ids of a piece between [CLS] and [SEP], as far as the vocabulary has them."""
        return self.vocabulary.enclosed(pieces[number])

    def segment(self, segment: Segment, rng: Rng) -> Example:
        """The example of a segment of a document, for networks that remember the segments before it."""
        raise NotImplementedError

    def config(self) -> dict[str, int]:
        """The entries of the saved configuration that say how to decode: start and end tokens."""
        return {}

    def terms(self) -> dict[str, Term]:
        """The terms of the loss, by name."""
        return {"tokens": TokenTerm()}

    def helpers(self, model: Model) -> dict[str, Model]:
        """The networks that are trained together with a model, by name, with fresh weights."""
        return {}

    def loss(self, networks: Mapping[str, Model]) -> Loss:
        """The loss of the networks: the model under "" and its helpers by their names."""
        return TermLoss(networks[""], self.terms())


def until_end(ids: list[int], vocabulary: Vocabulary, ended: bool) -> list[int]:
    """The ids of a piece, without its [SEP] unless the document ends there."""
    return ids if ended or ids[-1] != vocabulary.sep else ids[:-1]


def decoding_tokens(end: int, start: int | None = None, second: int | None = None) -> dict[str, int]:
    """Configuration entries for decoding: the end token, and the first tokens of the decoder's input. Tokens that the
    vocabulary does not have are left out."""
    found = {"eos_token_id": end, "decoder_start_token_id": start, "forced_bos_token_id": second}
    return {key: token for key, token in found.items() if token is not None and token != ABSENT}

"""How good answers are, by the published rules of SQuAD, CMRC 2018 and SogouQA.

All three take the best over the accepted answers of a question, and their means over all questions. They differ in
what counts as equal: words without articles (SQuAD), the longest run of Chinese characters and other words (CMRC 2018),
characters in any order (SogouQA). A question without a prediction scores 0.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from masquerade.errors import MasqueradeError
from masquerade.reading.records import HALF_WIDTH, QuestionRecord

CMRC_PUNCTUATION = "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
SOGOUQA_PUNCTUATION = (
    string.punctuation
    + "\x7f…‰※•—‖‘’“”№←↑→↓∴∨∵∶∩∈∑√∞≯≡≮≤≥≈≌⊥⊙⌒□◆◇◎●★☆♀♂¨°·§¤±\u3000、。〃々〈〉《》「」『』【】〓〔〕〖〗"
    "÷×′▲″△∠≠■ˇˉ￣￥＿！＄（），．：；？～﹑￠"
)

_NOTHING_FOR_ASCII = str.maketrans("", "", string.punctuation)
_NOTHING_FOR_CMRC = str.maketrans("", "", CMRC_PUNCTUATION)
_SPACE_FOR_SOGOUQA = str.maketrans(dict.fromkeys(SOGOUQA_PUNCTUATION, " "))
_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_ENGLISH = (  # where words that are not Chinese are cut
    (re.compile(r"[\[\](){}<>;@#$%&?!\"«»‘„\u2012-\u2015]|\.{2,}|,(?!\d)"), r" \g<0> "),
    (re.compile(r"(?<=[^.])\.(?=[\])}>\"'\s]*$)"), r" . "),  # a full stop at the end: others belong to their words
    (re.compile(r"(?<!\w)'(?=\w)"), r" ' "),
    (re.compile(r"(?<=[^'\s])('(?:s|m|d|ll|re|ve)?|n't)(?=\s|$)"), r" \1 "),
)


@dataclass(frozen=True)
class Scores:
    """The means over all questions, in percent; and the scores of each question by its id, from 0 to 1."""

    total: dict[str, float]
    each: dict[str, dict[str, float]]


def squad_scores(predictions: Mapping[str, str], records: Sequence[QuestionRecord]) -> Scores:
    """SQuAD's exact match and F1 over words. A question that has no answer is right if the prediction is empty; if
    there are such questions, those with and without an answer are scored by themselves, too."""
    found = _scores(predictions, records, _squad)
    answered = [found.each[record.id] for record in records if record.accepted]
    unanswered = [found.each[record.id] for record in records if not record.accepted]
    if answered and unanswered:
        found.total.update({f"has_answer_{name}": value for name, value in _means(answered).items()})
    if unanswered:
        found.total["no_answer_accuracy"] = _means(unanswered)["exact"]
    return found


def cmrc_scores(predictions: Mapping[str, str], records: Sequence[QuestionRecord]) -> Scores:
    """CMRC 2018's exact match without punctuation, and F1 by the longest run of tokens in common."""
    return _scores(predictions, records, _cmrc)


def sogouqa_scores(predictions: Mapping[str, str], records: Sequence[QuestionRecord]) -> Scores:
    """SogouQA's accuracy, F1 over characters, and the mean of both. The first accepted answer is the standard one: a
    prediction with the same parts between punctuation is right, in whatever order they are."""
    return _scores(predictions, records, _sogouqa)


METRICS: dict[str, Callable[[Mapping[str, str], Sequence[QuestionRecord]], Scores]] = {
    "squad": squad_scores,
    "cmrc": cmrc_scores,
    "sogouqa": sogouqa_scores,
}


def read_accepted(path: str | Path) -> dict[str, tuple[str, ...]]:
    """SogouQA's accepted answers by question: lines of id, standard answer, and all accepted ones with | between them,
    tabs in between. The standard answer comes first."""
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise MasqueradeError(f"The accepted answers {path} cannot be read: {error}.") from error
    found = {}
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) != 3:
            raise MasqueradeError(f"Line {number} of {path} is no id, answer and accepted answers, with tabs between.")
        found[fields[0]] = tuple(dict.fromkeys([fields[1], *fields[2].split("|")]))
    return found


def squad_normal(text: str) -> str:
    """Small letters; no punctuation (of ASCII), no articles, and single spaces."""
    words = re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_NOTHING_FOR_ASCII))
    return " ".join(words.split())


def cmrc_normal(text: str) -> str:
    """Small letters, without the punctuation of CMRC's list."""
    return text.lower().strip().translate(_NOTHING_FOR_CMRC)


def cmrc_tokens(text: str) -> list[str]:
    """Every Chinese character by itself, and what stands between them cut into words as for English. Punctuation goes
    first, so that it cuts nothing."""
    tokens = []
    for piece in re.findall(r"[\u4e00-\u9fa5]|[^\u4e00-\u9fa5]+", cmrc_normal(text)):
        for pattern, cut in _ENGLISH:
            piece = pattern.sub(cut, piece)
        tokens += piece.split()
    return tokens


def sogouqa_normal(text: str) -> str:
    """Half-width forms, small letters (of ASCII), without punctuation and white space."""
    return re.sub(r"\s+", "", text.translate(HALF_WIDTH).translate(_SMALL).translate(_SPACE_FOR_SOGOUQA), flags=re.A)


def _scores(
    predictions: Mapping[str, str],
    records: Sequence[QuestionRecord],
    score: Callable[[str | None, Sequence[str]], dict[str, float]],
) -> Scores:
    """Every question by one rule, and the means."""
    if not records:
        raise MasqueradeError("There are no questions to score; give some that have answers.")
    each = {record.id: score(predictions.get(record.id), record.accepted) for record in records}
    return Scores(_means(each.values()), each)


def _squad(prediction: str | None, accepted: Sequence[str]) -> dict[str, float]:
    if prediction is None:
        return {"exact": 0.0, "f1": 0.0}
    guess = squad_normal(prediction)
    answers = [normal for normal in map(squad_normal, accepted) if normal] or [""]
    return {"exact": float(guess in answers), "f1": max(_word_f1(guess.split(), answer.split()) for answer in answers)}


def _word_f1(guess: Sequence[str], answer: Sequence[str]) -> float:
    """F1 over words in any order; where there are none, only none is right."""
    return _f1(_common(guess, answer), guess, answer) if guess and answer else float(guess == answer)


def _cmrc(prediction: str | None, accepted: Sequence[str]) -> dict[str, float]:
    if prediction is None:
        return {"exact": 0.0, "f1": 0.0}
    guess, answers = cmrc_tokens(prediction), [cmrc_tokens(answer) for answer in accepted]
    if not answers:  # CMRC has no such questions; as in SQuAD 2.0, no answer is right and any other is wrong
        return {"exact": float(not prediction), "f1": float(not prediction)}
    return {
        "exact": float(cmrc_normal(prediction) in map(cmrc_normal, accepted)),
        "f1": max((_f1(_longest_run(guess, answer), guess, answer) for answer in answers), default=0.0),
    }


def _sogouqa(prediction: str | None, accepted: Sequence[str]) -> dict[str, float]:
    prediction = (prediction or "").strip(string.whitespace)
    if not prediction or not accepted:
        return {"accuracy": 0.0, "f1": 0.0, "final": 0.0}
    guess, answers = sogouqa_normal(prediction), [sogouqa_normal(answer) for answer in accepted]
    accuracy = float(guess in answers or _parts(prediction) == _parts(accepted[0]))
    f1 = max(_f1(_common(guess, answer), guess, answer) for answer in answers)
    return {"accuracy": accuracy, "f1": f1, "final": (accuracy + f1) / 2}


def _parts(text: str) -> set[str]:
    """What stands between punctuation. Nothing between two marks is a part, too, as it is in the published rule."""
    return {sogouqa_normal(part) for part in text.translate(_SPACE_FOR_SOGOUQA).split(" ")}


def _common(guess: Sequence[str], answer: Sequence[str]) -> int:
    """How many elements two sequences have in common, in any order, each as often as it is in both."""
    return (Counter(guess) & Counter(answer)).total()


def _longest_run(guess: Sequence[str], answer: Sequence[str]) -> int:
    """The length of the longest run of elements that stands in both."""
    return SequenceMatcher(None, guess, answer, autojunk=False).find_longest_match().size


def _f1(common: int, guess: Sequence[str], answer: Sequence[str]) -> float:
    return 2 * common / (len(guess) + len(answer)) if common else 0.0


def _means(each: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every score, in percent."""
    rows = list(each)
    return {name: 100 * sum(row[name] for row in rows) / len(rows) for name in rows[0]}

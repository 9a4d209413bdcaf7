"""Which kind of answer a question wants: a span, yes or no, or one of two things that it compares."""

from __future__ import annotations

import re

SPAN, YES_NO, WHICH = "span", "yes or no", "one of two"  # their numbers are the kinds of ``GraphNetwork.loss``
KINDS = (SPAN, YES_NO, WHICH)

_VERB = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)"
_GENERAL = re.compile(rf"^{_VERB}(?:n't)?\b|,\s*{_VERB}\b[^,]*\bboth\b", re.IGNORECASE)
_OR = re.compile(r"\bor\b", re.IGNORECASE)
_MORE = (  # comparatives, told from other words in -er, such as "composer"
    "(?:old|eld|young|larg|small|tall|long|short|high|low|bigg|great|earli|lat|clos|farth|furth|new|few|rich|deep|wid|"
    "fast|slow|soon|heavi|light|bett|near|broad|strong|warm|cold|hott|dens)er"
)
_COMPARED = re.compile(
    rf"\b(?:which|who|whose|what|where)\b.*\b(?:first|last|{_MORE}|more|most|less|least)\b"
    r"|\b(?:which|who)\b.*\bof (?:these|the) two\b",
    re.IGNORECASE,
)
_CHINESE_GENERAL = re.compile(r"吗[？?]?\s*$|是否|是不是|有没有|会不会|能不能")
_CHINESE_WHICH = re.compile(r"还是|(?:哪|谁)[^，。]*(?:更|最|先|早|晚|较)|(?:更|较)[^，。]*(?:哪|谁)")


def kind_of(question: str, named: int) -> str:
    """The kind of a question that names this many titles. A comparison needs two."""
    text = question.strip()
    if named < 2:
        return SPAN
    if _CHINESE_WHICH.search(text):
        return WHICH
    if _CHINESE_GENERAL.search(text):
        return YES_NO
    if _GENERAL.search(text):
        return WHICH if _OR.search(text) and not re.search(r"\b(?:both|same)\b", text, re.IGNORECASE) else YES_NO
    return WHICH if _OR.search(text) or _COMPARED.search(text) else SPAN

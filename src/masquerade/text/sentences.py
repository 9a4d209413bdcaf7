"""Where sentences end, in English and Chinese text: the one definition that everything here uses."""

from __future__ import annotations

import re

STOPS = "。！？.!?"  # the characters, and tokens, that end a sentence

# A title (Dr, Mrs, No) or an initial before a full stop does not end a sentence; I, V and X may be numbers, and do.
_FULL_STOP = r"(?<!\b[A-HJ-UWYZ])(?<!\.[a-z])(?<!\bNo)(?<!\b[DMS][rst])(?<!\bMrs)[.!?]+[\"'”’)\]]*(?=\s+[^\sa-z]|\s*\Z)"
END = rf"[。！？]+[”’」』）》]*|{_FULL_STOP}|\n\s*\n"
SENTENCE_END = re.compile(END)
SENTENCE = re.compile(rf"\S.*?(?:$|{END})", flags=re.MULTILINE)  # a sentence does not go on in the next line

"""Masked decoding: several [MASK] slots are predicted together and committed some at a time, block after block.

All parallel methods are plans of this one mechanism (see ``plans``). All slots in one block and one round is the
parallel reader; several rounds are masked diffusion, or mask-predict if committed tokens may be revised; blocks of one
slot are GPT. This file chooses and commits tokens; ``slots`` holds their state and lays them out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from masquerade.decoding.constraints import State, TokenSet
from masquerade.decoding.logits import any_seed, rng_for_text
from masquerade.decoding.loop import Commit, DecodingTask, Hypothesis, StepInput
from masquerade.decoding.slots import Slots, check_masks
from masquerade.decoding.strings import best_strings, variations
from masquerade.errors import MasqueradeError

Lengths = int | Sequence[int]  # in tokens, without the end token
SCHEDULES = {  # share of the rounds that are done → share of a block's slots that are known
    "linear": float,
    "cosine": lambda done: 1 - math.cos(math.pi / 2 * done),
}


@dataclass(frozen=True)
class Plan:
    """How slots are filled."""

    rounds: int = 1  # passes over a block
    size: int | None = None  # slots in a block; None: all of them
    both_ways: bool = True  # the prompt sees the slots as well, if there is only one block
    revise: bool = False  # committed tokens are masked again if they are among the least certain
    schedule: str = "linear"  # one of SCHEDULES
    each: int | None = None  # slots committed in each round, instead of a schedule
    lengths: Lengths | None = None
    temperature: float | None = None  # of sampling; None: the most probable tokens
    seed: int | None = None  # None: a random one
    copies: int = 1  # texts for each prompt
    vary: bool = False  # further copies are the next best texts of the same pass

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise MasqueradeError(f"Nothing is written in {self.rounds} rounds; give at least one.")
        if self.size is not None and self.size < 1:
            raise MasqueradeError(f"Blocks of {self.size} tokens do not exist; the smallest block is one token.")
        if self.schedule not in SCHEDULES:
            raise MasqueradeError(f"There is no schedule '{self.schedule}'; choose from {', '.join(SCHEDULES)}.")
        if self.each is not None and self.each < 1:
            raise MasqueradeError(f"A round that commits {self.each} tokens never ends; give at least one.")
        if self.temperature is not None and not self.temperature > 0:
            raise MasqueradeError(f"A temperature of {self.temperature} cannot be sampled at; give one above 0.")
        if self.copies < 1:
            raise MasqueradeError(f"{self.copies} texts cannot be written for a prompt; give at least one.")

    def start(self, task: DecodingTask) -> MaskedDecoding:
        return MaskedDecoding(task, self)

    def candidate_lengths(self, task: DecodingTask) -> list[int | None]:
        """The lengths to try for every prompt, in tokens; [None] if the length is open."""
        if self.lengths is None:
            return [None]
        room = min(task.limits) - int(task.end is not None)  # the end token takes a slot as well
        tried = [self.lengths] if isinstance(self.lengths, int) else sorted({int(length) for length in self.lengths})
        if not tried or tried[0] < 1:
            raise MasqueradeError(f"A text of {tried[0] if tried else 'no'} words cannot be written; try at least one.")
        if tried[-1] > room:
            raise MasqueradeError(f"A text of {tried[-1]} words does not fit where {room} can be; allow more.")
        return list(tried)


@dataclass
class MaskedDraft:
    """A text in progress, one row of the session."""

    prompt: int
    length: int | None
    rng: torch.Generator
    state: State
    trace: list[Commit] = field(default_factory=list)


class MaskedDecoding:
    """A run of masked decoding, with a row for each prompt, candidate length and sampled copy."""

    def __init__(self, task: DecodingTask, plan: Plan) -> None:
        check_masks(task)
        if task.processors:
            raise MasqueradeError(
                "'no_repeat' and 'repetition' do not work for tokens that are written at once; leave them out, or use "
                "the method greedy, sample or beam."
            )
        self.task, self.plan, self.round = task, plan, 0
        prompts, states = task.session.canvas.prompts(), task.states(range(len(task.limits)))
        lengths, seed = plan.candidate_lengths(task), any_seed(plan.seed)
        draws = 1 if plan.temperature is None else plan.copies
        if plan.copies > draws * len(lengths) and not plan.vary:
            raise MasqueradeError(f"{plan.copies} texts need as many lengths, or a temperature to sample them at.")
        self.drafts = [
            MaskedDraft(owner, length, rng_for_text(seed, prompts[owner], copy), state)
            for owner, state in enumerate(states)
            for length in lengths
            for copy in range(draws)
        ]
        owners, said = [draft.prompt for draft in self.drafts], [draft.length for draft in self.drafts]
        self.slots = Slots(task, owners, said, plan.size, plan.both_ways)
        self.found: list[list[Hypothesis]] = [[] for _ in prompts]
        self.dead: set[int] = set()  # rows whose constraint cannot be met at their length

    def next_input(self) -> StepInput | None:
        """The slots of the current block, and the tokens they see for the first time."""
        return self.slots.next_input() if self.drafts else None

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Scores (rows, slots of the block, vocab): choose a token for every open slot, keep the most certain."""
        self.round += 1
        logs, slots, now = scores.log_softmax(-1), self.slots, self.slots.window
        if self.plan.vary and self.plan.copies > 1:
            return self._all_at_once(logs, step)
        free, before = (slots.real & ~slots.given)[:, now], slots.known[:, now]
        missing = free & ~before
        chosen = self._choose(logs, scores)
        slots.ids[:, now] = chosen.where(missing, slots.ids[:, now])
        slots.logs[:, now] = logs.gather(-1, chosen[..., None])[..., 0].where(missing, slots.logs[:, now])
        worth = slots.logs[:, now].masked_fill(~free, -torch.inf)
        if not self.plan.revise:
            worth = worth.masked_fill(free & before, torch.inf)
        places = worth.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
        kept = free & (places < self._share(free.sum(1))[:, None])
        slots.known[:, now] = slots.given[:, now] | kept
        commits = self._record(missing if self.plan.revise else missing & kept, step)
        return commits + self._finish_rows()

    def results(self) -> list[list[Hypothesis]]:
        """The texts of each prompt, the best first: with several lengths, by mean log-probability."""
        for number, texts, constraint in zip(self.task.numbers, self.found, self.task.constraints, strict=True):
            if not texts:
                hint = "" if constraint is None else f": {constraint.hint}"
                raise MasqueradeError(f"The constraint on prompt {number} cannot be met at the lengths tried{hint}.")
            if self.plan.lengths is not None or self.plan.temperature is not None:
                texts.sort(key=lambda text: -text.score)
        return [texts[: self.plan.copies] for texts in self.found]

    def _share(self, free: Tensor) -> Tensor:
        """The number of slots known after this round, (rows,), from the number to fill, (rows,)."""
        plan, kept = self.plan, []
        for n in free.tolist():
            rounds = plan.rounds if plan.revise else min(plan.rounds, max(n, 1))  # further rounds would commit nothing
            share = 1.0 if self.round >= rounds else SCHEDULES[plan.schedule](self.round / rounds)
            known = n - math.floor(n * (1 - share) + 1e-9) if plan.each is None else plan.each * self.round
            kept.append(min(max(known, 1), n))
        return torch.tensor(kept, device=free.device)

    def _choose(self, logs: Tensor, scores: Tensor) -> Tensor:
        """A token for every slot of the block, (rows, slots), by scores (rows, slots, vocab) under the constraints."""
        table = logs if self.plan.temperature is None else self._noisy(scores / self.plan.temperature)
        allowed, strict = self._ruled(table)
        best, chosen = strict.max(-1)
        missing = ~self.slots.whole[:, self.slots.window]
        self.dead |= {int(row) for row in (best.isneginf() & missing).any(1).nonzero()}
        for row, draft in enumerate(self.drafts):
            own, constraint = self.slots.own(row), self.task.constraints[draft.prompt]
            if constraint is None or isinstance(constraint, TokenSet) or own.start == own.stop:
                continue
            found = self._strings(row, strict, 1) or self._strings(row, allowed, 1)
            if not found:
                self.dead.add(row)
            elif self.task.end is not None:
                padding = [self.task.end] * (own.stop - own.start - len(found[0]))
                chosen[row, own] = torch.tensor(found[0] + padding, device=chosen.device)
        return chosen

    def _strings(self, row: int, table: Tensor, n: int) -> list[list[int]]:
        """The ``n`` best strings for a row's slots of the block, with known slots fixed, by (rows, slots, vocab)."""
        task, slots, own, draft = self.task, self.slots, self.slots.own(row), self.drafts[row]
        known, ids = slots.known[row, slots.window][own], slots.ids[row, slots.window][own]
        certain = torch.full_like(table[row, own], -torch.inf).scatter_(1, ids[:, None], 0.0)
        open_to = torch.where(known[:, None], certain, table[row, own])
        constraint = task.constraints[draft.prompt]
        if constraint is None or isinstance(constraint, TokenSet):
            return variations(open_to, task.end, n)
        room = int(slots.count[row]) - slots.window.start - own.start
        return best_strings(task, constraint, draft.state, open_to, room, n)

    def _noisy(self, scores: Tensor) -> Tensor:
        """Log-probabilities plus Gumbel noise, (rows, slots, vocab), so that the greatest entry is a sample."""
        noisy, slots = scores.log_softmax(-1), self.slots
        for row, draft in enumerate(self.drafts):
            own = slots.own(row)
            if not bool(slots.known[row, slots.window][own].all()):
                uniform = torch.rand(own.stop - own.start, scores.shape[-1], generator=draft.rng)
                noisy[row, own] -= (-uniform.clamp(min=1e-20).log()).log().to(noisy)
        return noisy

    def _ruled(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """A table (rows, slots, vocab) with −∞ for tokens outside of a TokenSet, and for end tokens where the length is
        given; and the same with −∞ for end tokens before the least length, unless nothing would be left."""
        task, slots, allowed = self.task, self.slots, table
        for row, draft in enumerate(self.drafts):
            constraint = task.constraints[draft.prompt]
            if isinstance(constraint, TokenSet):
                ids = task.allowed(constraint, constraint.start(), 1).to(table.device)
                others = torch.ones(table.shape[-1], dtype=torch.bool, device=table.device).index_fill(0, ids, False)
                allowed = allowed.clone() if allowed is table else allowed
                allowed[row].masked_fill_(others, -torch.inf)
        if task.end is None:
            return allowed, allowed
        index = torch.arange(slots.window.start, slots.window.stop, device=table.device) - slots.offset[:, None]
        said = torch.tensor([draft.length is not None for draft in self.drafts], device=table.device)
        allowed = _without(allowed, task.end, said[:, None].expand(index.shape))
        strict = _without(allowed, task.end, index < task.least)
        return allowed, torch.where(strict.isneginf().all(-1, keepdim=True), allowed, strict)

    def _record(self, written: Tensor, step: int) -> list[Commit]:
        """Record which slots of the block, (rows, slots), were written; returns those that are final."""
        commits, slots = [], self.slots
        ids, offset = slots.ids[:, slots.window].tolist(), (slots.offset - slots.window.start).tolist()
        for row, place in written.nonzero().tolist():
            draft = self.drafts[row]
            commits.append(Commit(draft.prompt, step, place - offset[row], ids[row][place]))
            draft.trace.append(commits[-1])
        return [] if self.plan.revise else commits

    def _finish_rows(self) -> list[Commit]:
        """Remove finished rows, and begin the next block if this one is full. Returns tokens that became final."""
        slots, whole, going, commits = self.slots, self.slots.whole, list[int](), list[Commit]()
        index = torch.arange(slots.ids.shape[1], device=slots.ids.device)
        first = index.where(slots.known & (slots.ids == self.task.end) & (index >= slots.offset[:, None]), len(index))
        last = torch.minimum(first.amin(1) + 1, slots.count)  # (rows,), later slots are dropped
        over = whole.long().cumprod(1).sum(1) >= last  # every slot before it is known
        if self.plan.revise:
            over = over & whole[:, slots.window].all(1)
        for row, (draft, done) in enumerate(zip(self.drafts, over.tolist(), strict=True)):
            if row in self.dead:
                continue
            if not done:
                going.append(row)
                continue
            written = slice(int(slots.offset[row]), int(last[row]))
            said, log = int(slots.given[row, written].sum()), float(slots.logs[row, written].sum())
            text = self._finished(draft, slots.ids[row, written].tolist(), log, said)
            self.found[draft.prompt].append(text)
            commits += {commit.index: commit for commit in text.trace}.values() if self.plan.revise else []
        self.dead.clear()
        self.drafts = [self.drafts[row] for row in going]
        slots.select(going)
        if self.drafts and bool(slots.whole[:, slots.window].all()):
            for row, draft in enumerate(self.drafts):
                for token in slots.ids[row, slots.window][slots.own(row)].tolist():
                    draft.state = self.task.advance(draft.prompt, draft.state, token)
            slots.next_block()
            self.round = 0
        return commits

    def _finished(self, draft: MaskedDraft, ids: list[int], log: float, said: int) -> Hypothesis:
        """The hypothesis of a row; ``said`` of its tokens were given, and do not count in its score."""
        ended = ids[-1:] == [self.task.end]
        score = log if self.plan.lengths is None else log / max(len(ids) - said, 1)
        trace = [commit for commit in draft.trace if commit.index < len(ids)]
        return Hypothesis(ids[:-1] if ended else ids, score, ended, trace)

    def _all_at_once(self, logs: Tensor, step: int) -> list[Commit]:
        """Finish every row with its best texts by one pass, log-probabilities (rows, slots, vocab)."""
        (allowed, strict), n = self._ruled(logs), self.plan.copies
        for row, draft in enumerate(self.drafts):
            own = self.slots.own(row)
            given = self.slots.given[row, own]
            for ids in self._strings(row, strict, n) or self._strings(row, allowed, n):
                places = (~given[: len(ids)]).nonzero()[:, 0].tolist()
                draft.trace = [Commit(draft.prompt, step, place, ids[place]) for place in places]
                log = sum(float(logs[row, own.start + place, ids[place]]) for place in places)
                self.found[draft.prompt].append(self._finished(draft, ids, log, len(ids) - len(places)))
        self.drafts = []
        return [commit for texts in self.results() for commit in texts[0].trace]


def _without(table: Tensor, word: int, where: Tensor) -> Tensor:
    """A table (rows, slots, vocab) with −∞ for a token at some slots, (rows, slots)."""
    if not bool(where.any()):
        return table
    table = table.clone()
    table[..., word].masked_fill_(where, -torch.inf)
    return table

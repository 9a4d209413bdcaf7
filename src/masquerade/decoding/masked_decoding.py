"""Filling slots: [MASK]s that are asked together, committed some at a time, block after block.

All parallel methods are this one. All slots in one block and one round is the parallel reader; several rounds are
masked diffusion, or mask-predict if what was committed may be taken back; blocks of one slot are GPT.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from masquerade.decoding.constraints import State, TokenSet
from masquerade.decoding.lengths import Lengths, candidates
from masquerade.decoding.logits import rng_for_text
from masquerade.decoding.loop import Commit, DecodingTask, Hypothesis, StepInput
from masquerade.decoding.slots import Slots, check_masks
from masquerade.decoding.strings import best_strings, variations
from masquerade.errors import MasqueradeError

Schedule = Callable[[float], float]  # which share of a block is known after which share of its rounds; both end at 1


@dataclass(frozen=True)
class Plan:
    """How slots are filled."""

    rounds: int = 1  # passes over a block
    size: int | None = None  # slots in a block; None: all of them
    both_ways: bool = True  # the prompt sees the slots as well, if there is but one block
    revise: bool = False  # what was committed may be taken back, if it turns out to be among the least certain
    schedule: Schedule = float
    each: int | None = None  # commit so many slots a round, instead of a schedule
    lengths: Lengths | None = None
    temperature: float | None = None  # draw words by chance; None: the most probable ones
    seed: int = 0
    copies: int = 1  # texts for a prompt
    vary: bool = False  # … of which the others are what the one pass holds next best

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise MasqueradeError(f"Nothing is written in {self.rounds} rounds; give at least one.")
        if self.size is not None and self.size < 1:
            raise MasqueradeError(f"Blocks of {self.size} tokens do not exist; the smallest block is one token.")
        if self.each is not None and self.each < 1:
            raise MasqueradeError(f"A round that commits {self.each} tokens comes to no end; give at least one.")
        if self.temperature is not None and not self.temperature > 0:
            raise MasqueradeError(f"A temperature of {self.temperature} cannot be drawn at; give one above 0, or none.")
        if self.copies < 1:
            raise MasqueradeError(f"{self.copies} texts cannot be written for a prompt; ask for at least one.")


@dataclass
class MaskedDraft:
    """A text on the way, one row of the session."""

    prompt: int
    length: int | None
    rng: torch.Generator
    state: State
    trace: list[Commit] = field(default_factory=list)


class MaskedDecoding:
    """Slots being filled: a row for each prompt, length that is tried, and copy that is drawn."""

    def __init__(self, task: DecodingTask, plan: Plan) -> None:
        check_masks(task)
        if task.processors:
            raise MasqueradeError(
                "Words that are written at once cannot look at each other, so 'no_repeat' and 'repetition' do not hold "
                "for them; leave those out, or write by greedy, sample or beam."
            )
        self.task, self.plan, self.round = task, plan, 0
        prompts, states = task.session.canvas.prompts(), task.states(range(len(task.limits)))
        lengths: list[list[int]] | list[list[None]] = [[None]] * len(prompts)
        if plan.lengths is not None:
            lengths = candidates(plan.lengths, task)
        draws = 1 if plan.temperature is None else plan.copies
        if plan.copies > draws * min(len(tried) for tried in lengths) and not plan.vary:
            raise MasqueradeError(f"{plan.copies} texts need as many lengths, or a temperature to draw them at.")
        self.drafts = [
            MaskedDraft(owner, length, rng_for_text(plan.seed, prompts[owner], copy), state)
            for owner, state in enumerate(states)
            for length in lengths[owner]
            for copy in range(draws)
        ]
        owners, said = [draft.prompt for draft in self.drafts], [draft.length for draft in self.drafts]
        self.slots = Slots(task, owners, said, plan.size, plan.both_ways)
        self.found: list[list[Hypothesis]] = [[] for _ in prompts]
        self.dead: set[int] = set()  # rows for which a constraint has nothing of their length

    def next_input(self) -> StepInput | None:
        """The slots of a block, and what they look at."""
        return self.slots.next_input() if self.drafts else None

    def commit(self, scores: Tensor, step: int) -> list[Commit]:
        """Scores (rows, slots of the block, vocab): a word for every open slot, and the most certain ones are kept."""
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
        return commits + self._leave()

    def results(self) -> list[list[Hypothesis]]:
        """The texts of each prompt, the best first: where lengths compete, by the mean log-probability of a word."""
        for number, texts, constraint in zip(self.task.numbers, self.found, self.task.constraints, strict=True):
            if not texts:
                hint = "" if constraint is None else f": {constraint.hint}"
                raise MasqueradeError(f"The constraint on prompt {number} cannot be met at the lengths tried{hint}.")
            if self.plan.lengths is not None or self.plan.temperature is not None:
                texts.sort(key=lambda text: -text.score)
        return [texts[: self.plan.copies] for texts in self.found]

    def _share(self, free: Tensor) -> Tensor:
        """How many of so many slots, (rows,), are known after this round."""
        plan, kept = self.plan, []
        for n in free.tolist():
            rounds = plan.rounds if plan.revise else min(plan.rounds, max(n, 1))  # more could only wait
            share = 1.0 if self.round >= rounds else plan.schedule(self.round / rounds)
            known = n - math.floor(n * (1 - share) + 1e-9) if plan.each is None else plan.each * self.round
            kept.append(min(max(known, 1), n))
        return torch.tensor(kept, device=free.device)

    def _choose(self, logs: Tensor, scores: Tensor) -> Tensor:
        """A word for every slot of the block, (rows, slots), by its scores (rows, slots, vocab), under the rules."""
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
                behind = [self.task.end] * (own.stop - own.start - len(found[0]))
                chosen[row, own] = torch.tensor(found[0] + behind, device=chosen.device)
        return chosen

    def _strings(self, row: int, table: Tensor, n: int) -> list[list[int]]:
        """The best strings for a row's slots of the block, given what is known of them, by (rows, slots, vocab)."""
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
        """Scores (rows, slots, vocab) with a noise under which the best word is one drawn by its probability."""
        noisy, slots = scores.log_softmax(-1), self.slots
        for row, draft in enumerate(self.drafts):
            own = slots.own(row)
            if not bool(slots.known[row, slots.window][own].all()):
                rngs = torch.rand(own.stop - own.start, scores.shape[-1], generator=draft.rng)
                noisy[row, own] -= (-rngs.clamp(min=1e-20).log()).log().to(noisy)
        return noisy

    def _ruled(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """A table (rows, slots, vocab) with −∞ for the words that a set does not have, and for an end inside a length
        that is said; and the same with −∞ for an end that comes too early, unless nothing is left."""
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
        """Note which slots of the block, (rows, slots), were written; gives those that are for good."""
        commits, slots = [], self.slots
        ids, offset = slots.ids[:, slots.window].tolist(), (slots.offset - slots.window.start).tolist()
        for row, place in written.nonzero().tolist():
            draft = self.drafts[row]
            commits.append(Commit(draft.prompt, step, place - offset[row], ids[row][place]))
            draft.trace.append(commits[-1])
        return [] if self.plan.revise else commits

    def _leave(self) -> list[Commit]:
        """Let the rows go that are written; where the block is full, the next one begins. Gives what is only now for
        good."""
        slots, whole, going, commits = self.slots, self.slots.whole, list[int](), list[Commit]()
        index = torch.arange(slots.ids.shape[1], device=slots.ids.device)
        first = index.where(slots.known & (slots.ids == self.task.end) & (index >= slots.offset[:, None]), len(index))
        last = torch.minimum(first.amin(1) + 1, slots.count)  # (rows,), what is behind it is dropped
        over = whole.long().cumprod(1).sum(1) >= last  # all is known up to there
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
        """A text with its end, if it has one; ``said`` of its tokens were not the model's choice, and do not count."""
        ended = ids[-1:] == [self.task.end]
        score = log if self.plan.lengths is None else log / max(len(ids) - said, 1)
        trace = [commit for commit in draft.trace if commit.index < len(ids)]
        return Hypothesis(ids[:-1] if ended else ids, score, ended, trace)

    def _all_at_once(self, logs: Tensor, step: int) -> list[Commit]:
        """The best texts of every row by one pass, log-probabilities (rows, slots, vocab)."""
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
    """A table (rows, slots, vocab) with −∞ for a word at some slots, (rows, slots)."""
    if not bool(where.any()):
        return table
    table = table.clone()
    table[..., word].masked_fill_(where, -torch.inf)
    return table

"""Commands that generate text, and measure perplexity."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.app import AnyModel, Json, Panel, Texts, app


@app.command(rich_help_panel=Panel.WRITE)
def fill(
    text: Annotated[str, typer.Argument(help="A text with one or more [MASK] tokens.")],
    model: AnyModel,
    top: Annotated[int, typer.Option("--top", "-k", help="Number of words to list for each [MASK].")] = 5,
    method: Annotated[
        str | None, typer.Option(help="Fill all [MASK] tokens, or GLM's blanks, together by a method of generate.")
    ] = None,
    memory: Annotated[
        Path | None, typer.Option(help="A knowledge base, for a model that has a memory; shows links and facts too.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="With --memory: draw links, answers and facts to this .png or .svg file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the [MASK] tokens of a text: each by itself in one pass, or together by a method.

    [dim]masquerade fill "巴黎是[MASK]国的首都。" --model path/to/bert[/dim]
    [dim]masquerade fill "Marie Curie was born in [MASK]." --model runs/facts --memory kb[/dim]
    """
    if memory is not None:
        from masquerade.cli.show.entities import show_recalled

        show_recalled(model, memory, text, top, as_json, picture)
        return
    from masquerade.cli.show.texts import show_filled

    show_filled(model, text, top, method, as_json)


_rule = partial(typer.Option, rich_help_panel="Every method")
_sampling = partial(typer.Option, rich_help_panel="Sampling: sample, diffusion, blocks")
_search = partial(typer.Option, rich_help_panel="Search: beam, mixture, rerank")
_several = partial(
    typer.Option, rich_help_panel="Several tokens per step: parallel, mask-predict, diffusion, blocks, mixture, rerank"
)
_limit = partial(typer.Option, rich_help_panel="Constraints from a file (one of these)")
_shown = partial(typer.Option, rich_help_panel="Input and output")


@app.command(rich_help_panel=Panel.WRITE)
def generate(
    model: AnyModel,
    prompts: Annotated[list[str] | None, typer.Argument(help="The prompts.", metavar="PROMPT")] = None,
    method: Annotated[
        str, typer.Option(help="greedy, sample, beam, parallel, mask-predict, diffusion, blocks, mixture or rerank.")
    ] = "greedy",
    frame: Annotated[
        str | None,
        typer.Option(
            help="Layout of prompt and text: continue, prefix, shifted, masks, blank, decode; by default, by the model."
        ),
    ] = None,
    max_new: Annotated[
        int | None, _rule(help="Maximum number of new tokens; by default 64, or as many as fit.")
    ] = None,
    min_new: Annotated[int | None, _rule(help="Minimum number of new tokens.")] = None,
    repetition: Annotated[
        float | None, _rule(help="Repetition penalty; above 1, tokens that occurred become less likely.")
    ] = None,
    no_repeat: Annotated[int | None, _rule(help="No n-gram of this many tokens occurs twice.")] = None,
    copies: Annotated[int | None, _rule(help="Texts per prompt, for methods that return several.")] = None,
    temperature: Annotated[
        float | None, _sampling(help="Divides the logits: below 1 favours likely tokens, above 1 unlikely ones.")
    ] = None,
    top_k: Annotated[int | None, _sampling(help="Sample from this many of the most likely tokens.")] = None,
    top_p: Annotated[
        float | None, _sampling(help="Sample from the most likely tokens whose probabilities add up to this.")
    ] = None,
    seed: Annotated[int | None, _sampling(help="Random seed; the same seed gives the same texts.")] = None,
    beams: Annotated[int | None, _search(help="Number of beams.")] = None,
    length_penalty: Annotated[float | None, _search(help="Above 0 favours long texts, below 0 short ones.")] = None,
    length: Annotated[
        list[int] | None, _several(help="Number of tokens; may be given several times, then the best length is kept.")
    ] = None,
    rounds: Annotated[int | None, _several(help="Passes over a text or a block.")] = None,
    schedule: Annotated[str | None, _several(help="How many tokens each pass commits: linear or cosine.")] = None,
    each: Annotated[int | None, _several(help="Commit this many tokens per pass.")] = None,
    block_size: Annotated[int | None, _several(help="Tokens per block; 1 is greedy decoding.")] = None,
    gamma: Annotated[float | None, _several(help="Weight of the parallel model in a mixture, from 0 to 1.")] = None,
    drafts: Annotated[int | None, _several(help="Number of parallel texts that rerank chooses from.")] = None,
    span_of: Annotated[Path | None, _limit(help="The text has to be a span of this passage.")] = None,
    one_of: Annotated[Path | None, _limit(help="The text has to be one of these strings, one per line.")] = None,
    tokens_of: Annotated[Path | None, _limit(help="Only tokens that occur in this text.")] = None,
    source: Annotated[str | None, _shown("--in", help="A file with one prompt per line; - for standard input.")] = None,
    as_json: Annotated[bool, _shown("--json", help="Print one line of JSON per prompt.")] = False,
    trace: Annotated[bool, _shown("--trace", help="Print the text after each step.")] = False,
    trace_out: Annotated[Path | None, _shown(help="Draw the steps to a .png or .svg file.")] = None,
) -> None:
    """Generate text from a prompt: continue it, answer it, or fill its blank.

    On a terminal, greedy and sample print each token as it is generated.

    [dim]masquerade generate "Once upon a time" --model gpt2 --method sample --top-p 0.9 --seed 1[/dim]
    [dim]masquerade generate "北京是[MASK]。" --model glm --method beam --beams 4 --copies 3[/dim]
    [dim]masquerade generate --in news.txt --model title --method blocks --block-size 4 --trace-out steps.svg[/dim]
    """
    from masquerade.cli.show.texts import Limits, Output, show_texts

    settings = {
        "max_new": max_new, "min_new": min_new, "repetition": repetition, "no_repeat": no_repeat, "copies": copies,
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "beams": beams,
        "length_penalty": length_penalty, "lengths": length or None, "rounds": rounds, "schedule": schedule,
        "each": each, "size": block_size, "gamma": gamma, "drafts": drafts,
    }  # fmt: skip
    limits, output = Limits(span_of, one_of, tokens_of), Output(as_json, trace, trace_out)
    show_texts(model, prompts or [], source, method, frame, settings, limits, output)


@app.command(rich_help_panel=Panel.LOOK)
def keep(
    model: AnyModel,
    texts: Annotated[list[str], typer.Option(help="Texts whose tokens are kept; may be given several times.")],
    out: Annotated[Path, typer.Option(help="The folder for the smaller model.")],
    least: Annotated[int, typer.Option(help="Keep tokens that occur at least this often.")] = 1,
) -> None:
    """Reduce a model's vocabulary to the tokens of your texts. Their scores do not change.

    [dim]masquerade keep --model bert-zh --texts news.txt --least 2 --out bert-news[/dim]
    """
    from masquerade.cli.show.texts import show_keep
    from masquerade.data.corpus import read_documents

    show_keep(model, (document for source in texts for document in read_documents(source)), least, out)


@app.command(rich_help_panel=Panel.TRAIN)
def perplexity(
    texts: Texts,
    model: Annotated[str, typer.Option("--model", "-m", help="A model trained on next-token prediction.")],
    length: Annotated[int, typer.Option(help="Tokens per window; at most as many as in training.")] = 128,
    stride: Annotated[
        int | None,
        typer.Option(help="Tokens between the starts of two windows; by default half a window."),
    ] = None,
    memory: Annotated[
        list[int] | None,
        typer.Option(help="Read segments of --length and remember this many tokens before them; may be repeated."),
    ] = None,
    same_length: Annotated[
        bool, typer.Option("--same-length", help="With --memory: every token sees that many tokens, itself included.")
    ] = False,
    clamp: Annotated[
        int | None, typer.Option(help="With --memory: farther distances count as this one; 0: none does.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the perplexity of a language model on texts.

    Perplexity per token depends on the tokenizer: compare models per word, or per character for Chinese.

    A network with relative positions, such as a Transformer-XL, can remember what it read before a segment.

    [dim]masquerade perplexity test.txt --model runs/gpt/step-1000 --length 128[/dim]
    [dim]masquerade perplexity test.txt --model runs/xl --length 64 --memory 0 --memory 128[/dim]
    """
    from masquerade.cli.show.perplexity import show_perplexity

    show_perplexity(texts, model, length, stride, memory or [], same_length, clamp, as_json)


@app.command(rich_help_panel=Panel.TRAIN)
def ngram(
    train: Annotated[list[str], typer.Argument(help="Training texts: files or hub data sets.")],
    test: Annotated[list[str], typer.Option(help="Test texts; may be given several times.")],
    tokenizer: Annotated[Path, typer.Option(help="The folder of a tokenizer, or of a model with one.")],
    order: Annotated[int, typer.Option(help="The longest n-grams, in tokens.")] = 5,
    limit: Annotated[int | None, typer.Option(help="Train on this many tokens, from the first on.")] = None,
    as_json: Json = False,
) -> None:
    """Print the perplexity of n-gram models, as a baseline for networks.

    One line for each order up to the given one, with Kneser-Ney smoothing.

    [dim]masquerade ngram train.txt --test test.txt --tokenizer my-vocab --order 5[/dim]
    """
    from masquerade.cli.show.perplexity import show_ngrams

    show_ngrams(train, test, tokenizer, order, limit, as_json)

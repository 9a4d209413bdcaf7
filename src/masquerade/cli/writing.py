"""Commands that write texts, and measure how well texts are predicted."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.app import app


@app.command()
def fill(
    text: Annotated[str, typer.Argument(help="A text with one [MASK] or several.")],
    model: Annotated[str, typer.Option("--model", "-m", help="A model's folder, TensorFlow checkpoint or hub id.")],
    top: Annotated[int, typer.Option("--top", "-k", help="How many words to list for each [MASK].")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Fill the [MASK]s of a text, all of them in one step.

    [dim]masquerade fill "巴黎是[MASK]国的首都。" --model path/to/bert[/dim]
    """
    from masquerade.cli.show.texts import show_filled

    show_filled(model, text, top, as_json)


_rule = partial(typer.Option, rich_help_panel="Every method")
_sampling = partial(typer.Option, rich_help_panel="By chance: sample, diffusion, blocks")
_search = partial(typer.Option, rich_help_panel="Searching: beam, mixture, rerank")
_several = partial(typer.Option, rich_help_panel="Many tokens a step: parallel and those behind it")
_limit = partial(typer.Option, rich_help_panel="Only what a file allows (one of these)")
_shown = partial(typer.Option, rich_help_panel="What is read and shown")


@app.command()
def generate(
    model: Annotated[str, typer.Option("--model", "-m", help="A model's folder, TensorFlow checkpoint or hub id.")],
    prompts: Annotated[list[str] | None, typer.Argument(help="Texts to write from.", metavar="PROMPT")] = None,
    method: Annotated[
        str, typer.Option(help="greedy, sample, beam, parallel, mask-predict, diffusion, blocks, mixture or rerank.")
    ] = "greedy",
    frame: Annotated[
        str | None,
        typer.Option(help="Where: continue, prefix, shifted, masks, blank, decode; else as suits the model."),
    ] = None,
    max_new: Annotated[int | None, _rule(help="Tokens at most; 64, or as many as fit, if not given.")] = None,
    min_new: Annotated[int | None, _rule(help="Tokens at least.")] = None,
    repetition: Annotated[float | None, _rule(help="Above 1: less of what has occurred.")] = None,
    no_repeat: Annotated[int | None, _rule(help="No run of so many tokens twice.")] = None,
    copies: Annotated[int | None, _rule(help="Texts for each prompt, where a method has several.")] = None,
    temperature: Annotated[float | None, _sampling(help="Below 1 is more careful, above 1 is wilder.")] = None,
    top_k: Annotated[int | None, _sampling(help="Only the best so many tokens.")] = None,
    top_p: Annotated[float | None, _sampling(help="Only the best tokens of this probability together.")] = None,
    seed: Annotated[int | None, _sampling(help="A number; the same one gives the same texts.")] = None,
    beams: Annotated[int | None, _search(help="Beginnings that are kept side by side.")] = None,
    length_penalty: Annotated[float | None, _search(help="Above 0 favours long texts, below 0 short ones.")] = None,
    length: Annotated[
        list[int] | None, _several(help="Words of the text; several times: lengths to try, of which the best wins.")
    ] = None,
    rounds: Annotated[int | None, _several(help="Passes over a text, or over a block.")] = None,
    schedule: Annotated[str | None, _several(help="How much each round commits: linear or cosine.")] = None,
    each: Annotated[int | None, _several(help="… or just so many tokens.")] = None,
    block_size: Annotated[int | None, _several(help="Tokens of a block; 1 is greedy.")] = None,
    gamma: Annotated[float | None, _several(help="The parallel share of a mixture, from 0 to 1.")] = None,
    drafts: Annotated[int | None, _several(help="Parallel texts of which rerank takes the best.")] = None,
    span_of: Annotated[Path | None, _limit(help="A piece of this passage, word for word.")] = None,
    one_of: Annotated[Path | None, _limit(help="One of these strings, a line each.")] = None,
    tokens_of: Annotated[Path | None, _limit(help="Only tokens of this text.")] = None,
    source: Annotated[str | None, _shown("--in", help="A file with a prompt a line; - for standard input.")] = None,
    as_json: Annotated[bool, _shown("--json", help="Print a line of JSON for each prompt.")] = False,
    trace: Annotated[bool, _shown("--trace", help="Print the text after each step.")] = False,
    trace_out: Annotated[Path | None, _shown(help="Draw the steps to a .png or .svg file.")] = None,
) -> None:
    """Write from a prompt: continue it, answer it, or fill its blank; one token a step, or many.

    On a terminal, greedy and sample show their text as it comes.

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


@app.command()
def keep(
    model: Annotated[str, typer.Option("--model", "-m", help="A model's folder, TensorFlow checkpoint or hub id.")],
    texts: Annotated[list[str], typer.Option(help="Texts whose tokens stay; may be given several times.")],
    out: Annotated[Path, typer.Option(help="The folder for the smaller model.")],
    least: Annotated[int, typer.Option(help="How often a token has to occur to stay.")] = 1,
) -> None:
    """Cut a model's vocabulary to the tokens of your texts: smaller and faster, with the same scores.

    [dim]masquerade keep --model bert-zh --texts news.txt --least 2 --out bert-news[/dim]
    """
    from masquerade.cli.show.texts import show_keep
    from masquerade.data.corpus import read_documents

    show_keep(model, (document for source in texts for document in read_documents(source)), least, out)


@app.command()
def perplexity(
    texts: Annotated[list[str], typer.Argument(help="Text, JSON lines or Parquet files, or hub data sets.")],
    model: Annotated[str, typer.Option("--model", "-m", help="A model trained to predict the next token.")],
    length: Annotated[int, typer.Option(help="Tokens of a window; no more than the model was trained with.")] = 128,
    stride: Annotated[
        int | None,
        typer.Option(help="Tokens a window moves on by; half of it if not given. A whole window is as in training."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Measure how well a language model predicts texts.

    Perplexity per token depends on the tokenizer; compare models per word, or, as with Chinese, per character.

    [dim]masquerade perplexity test.txt --model runs/gpt/step-1000 --length 128[/dim]
    """
    from masquerade.cli.show.perplexity import show_perplexity

    show_perplexity(texts, model, length, stride, as_json)


@app.command()
def ngram(
    train: Annotated[list[str], typer.Argument(help="Texts to count in: files or hub data sets, as for vocab.")],
    test: Annotated[list[str], typer.Option(help="Texts to predict; may be given several times.")],
    tokenizer: Annotated[Path, typer.Option(help="The folder of a tokenizer, or of the model to compare with.")],
    order: Annotated[int, typer.Option(help="Tokens of the longest n-grams.")] = 5,
    limit: Annotated[int | None, typer.Option(help="Count in so many of the first tokens only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Count n-grams and measure how well they predict: what a network has to beat.

    Every order up to the one named is smoothed after Kneser and Ney, and has a line of its own.

    [dim]masquerade ngram train.txt --test test.txt --tokenizer my-vocab --order 5[/dim]
    """
    from masquerade.cli.show.perplexity import show_ngrams

    show_ngrams(train, test, tokenizer, order, limit, as_json)

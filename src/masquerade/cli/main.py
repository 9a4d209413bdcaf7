"""The command line: one short function a command. Heavy imports wait until a command needs them."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.asking import Ask
from masquerade.errors import MasqueradeError

app = typer.Typer(
    help="Small language models under any mask.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run a command; what went wrong for a reason the user can act on is told in one sentence."""
    try:
        app()
    except (MasqueradeError, ModuleNotFoundError) as error:
        name = error.name if isinstance(error, ModuleNotFoundError) else ""  # of a package that training needs
        missing = f"This needs the package '{name}'; install it with pip install 'masquerade[train]'."
        print(f"masquerade: {missing if name else error}", file=sys.stderr)
        sys.exit(1)


@app.command()
def draw(
    name: Annotated[str | None, typer.Argument(help="The mask: causal, prefix, two_stream … (all: see --all).")] = None,
    text: Annotated[
        str | None,
        typer.Option(help="Your own text, English or Chinese; | between the parts of a mask that has parts."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A .png or .svg file; with --all, a folder.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Draw every mask there is.")] = False,
) -> None:
    """Draw who sees whom: a row looks at its filled columns.

    [dim]masquerade draw prefix --text "北京是首都 | Beijing is the capital" --out prefix.png[/dim]
    """
    from masquerade.drawing.gallery import show

    show(name, text, out, every)


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
    from masquerade.cli.writing import show_filled

    show_filled(model, text, top, as_json)


@app.command()
def models(
    diagram: Annotated[str | None, typer.Option(metavar="NAME", help="Draw this model's stack instead.")] = None,
    out: Annotated[Path | None, typer.Option(help="With --diagram: a .png or .svg file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """List every model with its size, mask, objective and test, or draw one.

    [dim]masquerade models --diagram bert --out bert.svg[/dim]
    """
    from masquerade.families.catalogue import models as show

    show(diagram, out, as_json)


@app.command()
def pretrain(
    recipe: Annotated[Path, typer.Argument(help="A TOML file; recipes/ has examples.")],
    changes: Annotated[list[str] | None, typer.Argument(help="key=value, for any key of the recipe.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
) -> None:
    """Pretrain a model with any objective, as a recipe says.

    Several processes: torchrun --nproc-per-node 2 -m masquerade pretrain RECIPE

    [dim]masquerade pretrain recipes/mlm.toml steps=500 model.layers=4[/dim]
    """
    from masquerade.training.loop import Run
    from masquerade.training.pretraining import Pretrain
    from masquerade.training.recipe import Pretraining, read_recipe

    Run(Pretrain(read_recipe(recipe, Pretraining, changes or [])), resume).train()


@app.command()
def objectives() -> None:
    """List what a network can be pretrained to do."""
    from rich.console import Console
    from rich.table import Table

    from masquerade.objectives import OBJECTIVES

    table = Table("objective", "what it is")
    for name, entry in OBJECTIVES.items():
        table.add_row(name, entry.about)
    Console(highlight=False).print(table)


train = typer.Typer(help="Fine-tune a pretrained encoder, as a recipe says.", no_args_is_help=True)
evaluate = typer.Typer(help="Score a fine-tuned model on labelled records.", no_args_is_help=True)
app.add_typer(train, name="train")
app.add_typer(evaluate, name="evaluate")

RecipeFile = Annotated[Path, typer.Argument(help="A TOML file; recipes/ has examples.")]
Changes = Annotated[list[str] | None, typer.Argument(help="key=value, for any key of the recipe.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")]
ModelName = Annotated[str, typer.Option("--model", "-m", help="A model's or run's folder, or a hub id.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
Predictions = Annotated[Path | None, typer.Option(help="Save what was predicted here, as JSON lines.")]
Decoder = Annotated[
    str, typer.Option(help="parallel (all words at once, by all heads), blocks, autoregressive, rerank or mixture.")
]
InFile = Annotated[str | None, typer.Option("--in", help="A file with a text on each line; - for standard input.")]


@train.command("classifier")
def train_classifier(recipe: RecipeFile, changes: Changes = None, resume: Resume = False) -> None:
    """Train a classifier of sentences or of pairs, or with regression=true one that gives numbers.

    Records come as .tsv, .csv, .json, .jsonl or .parquet files, or from the hub.

    [dim]masquerade train classifier recipes/classifier.toml start=bert train=train.tsv held_out=dev.tsv[/dim]
    """
    from masquerade.labelling.training import TrainClassifier
    from masquerade.training.loop import Run
    from masquerade.training.recipe import FineTuning, read_recipe

    Run(TrainClassifier(read_recipe(recipe, FineTuning, changes or [])), resume).train()


@train.command("tagger")
def train_tagger(recipe: RecipeFile, changes: Changes = None, resume: Resume = False) -> None:
    """Train a tagger that finds entities in texts.

    Records have text and entities (kind, start, end), CLUENER's labels, or tokens and BIO tags; or give a text file
    with a token and its tag on each line.

    [dim]masquerade train tagger recipes/tagger.toml start=bert-zh train=train.json held_out=dev.json[/dim]
    """
    from masquerade.labelling.training import TrainTagger
    from masquerade.training.loop import Run
    from masquerade.training.recipe import FineTuning, read_recipe

    Run(TrainTagger(read_recipe(recipe, FineTuning, changes or [])), resume).train()


@train.command("reader")
def train_reader(recipe: RecipeFile, changes: Changes = None, resume: Resume = False) -> None:
    """Train a reader that answers questions from passages, in one parallel step or word by word.

    Questions come as SQuAD, CMRC 2018, WebQA or SogouQA files, as JSON lines, or from the hub.

    [dim]masquerade train reader recipes/reader-en.toml start=bert train=squad.json held_out=dev.json[/dim]
    """
    from masquerade.reading.training import Reading, TrainReader
    from masquerade.training.loop import Run
    from masquerade.training.recipe import read_recipe

    Run(TrainReader(read_recipe(recipe, Reading, changes or [])), resume).train()


@evaluate.command("classifier")
def evaluate_classifier(
    records: Annotated[list[str], typer.Argument(help="Files or hub data sets with labelled records.")],
    model: ModelName,
    text: Annotated[str, typer.Option(help="The field of the text, if it has an unusual name.")] = "",
    pair: Annotated[str, typer.Option(help="The field of the second text.")] = "",
    label: Annotated[str, typer.Option(help="The field of the label.")] = "",
    predictions: Predictions = None,
    as_json: Json = False,
) -> None:
    """Accuracy and F1 of a classifier, or the correlation of one that gives numbers.

    [dim]masquerade evaluate classifier dev.tsv --model runs/sst2[/dim]
    """
    from masquerade.cli.labelling import score_classifier

    score_classifier(records, model, (text, pair, label), predictions, as_json)


@evaluate.command("tagger")
def evaluate_tagger(
    records: Annotated[list[str], typer.Argument(help="Files or hub data sets with tagged records.")],
    model: ModelName,
    predictions: Predictions = None,
    as_json: Json = False,
) -> None:
    """Precision, recall and F1 of a tagger, for each kind of entity and for all of them.

    [dim]masquerade evaluate tagger dev.json --model runs/cluener[/dim]
    """
    from masquerade.cli.labelling import score_tagger

    score_tagger(records, model, predictions, as_json)


@evaluate.command("reader")
def evaluate_reader(
    records: Annotated[list[str], typer.Argument(help="Files or hub data sets with questions, passages and answers.")],
    model: ModelName,
    metric: Annotated[str | None, typer.Option(help="squad, cmrc or sogouqa; else as suits the questions.")] = None,
    decoder: Decoder = "parallel",
    vote: Annotated[str | None, typer.Option(help="best or all; all, if questions have several passages.")] = None,
    accepted: Annotated[Path | None, typer.Option(help="SogouQA's file of accepted answers.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many questions, the first ones.")] = None,
    predictions: Predictions = None,
    worst: Annotated[
        int | None, typer.Option(min=1, help="Print the worst so many; they are saved first, too.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a reader as SQuAD, CMRC 2018 or SogouQA do, and see which questions it is worst at.

    Questions come in the formats that train reader takes.

    [dim]masquerade evaluate reader dev.json --model en --worst 10 --predictions answers.jsonl[/dim]
    [dim]masquerade evaluate reader sogouqa.json --model zh --accepted gold.txt[/dim]
    """
    from masquerade.cli.reading import Exam, score_reader

    exam = Exam(records, metric, decoder, vote, accepted, limit)
    score_reader(model, exam, predictions, worst, as_json)


@app.command(cls=Ask)
def ask(
    question: Annotated[str | None, typer.Argument(help="What you want to know from the texts.")] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--in",
            metavar="FILE …",
            help="Text files, folders of .txt and .md files, or - for standard input; as often as you like.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="en, zh, a reader's or run's folder, or a hub id; else as suits the text."),
    ] = None,
    n_best: Annotated[int, typer.Option(help="How many answers, the best one first.")] = 1,
    decoder: Decoder = "parallel",
    vote: Annotated[
        str, typer.Option(help="Of several texts: best, the surest one says it; all, they say it together.")
    ] = "best",
    free: Annotated[bool, typer.Option("--free", help="Any words, not only a piece of the text.")] = False,
    as_json: Json = False,
) -> None:
    """Answer a question from your texts, with how sure that is and where it stands.

    Without a question it asks you for questions, or takes those of a pipe, a line each; the texts are read only once.

    [dim]masquerade ask "When was the stone found?" --in examples/rosetta.txt[/dim]
    [dim]masquerade ask "都江堰是谁修建的？" --in examples/dujiangyan.txt --n-best 3[/dim]
    [dim]masquerade ask --in notes report.md[/dim]
    """
    from masquerade.cli.reading import How, show_answers

    show_answers(question, source or [], model, How(n_best, vote, decoder, free), as_json)


@app.command()
def questions(
    texts: Annotated[list[str], typer.Argument(help="Text, JSON lines or Parquet files, or hub data sets.")],
    out: Annotated[Path, typer.Option(help="The file for the questions, JSON lines as 'train reader' takes them.")],
    count: Annotated[int, typer.Option(help="How many at most.")] = 10000,
    each: Annotated[int, typer.Option(help="How many of a passage at most.")] = 4,
    passages: Annotated[int, typer.Option(help="Of how many passages of a document at most.")] = 8,
    length: Annotated[int, typer.Option(help="Letters of a passage; a Chinese character counts as two.")] = 900,
    seed: Annotated[int, typer.Option(help="Another seed, other questions.")] = 0,
) -> None:
    """Make questions of your own texts, to train a reader on before, or beside, real ones.

    Half of them ask for words that stand twice in a passage, half for a date, a number or a name of one sentence.

    [dim]masquerade questions corpus.jsonl --count 5000 --out clozes.jsonl[/dim]
    [dim]masquerade train reader recipes/reader-en.toml train=clozes.jsonl out=runs/first[/dim]
    """
    from masquerade.cli.reading import make_questions

    make_questions(texts, out, count, each, passages, length, seed)


@app.command()
def classify(
    model: ModelName,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to classify.")] = None,
    pair: Annotated[str | None, typer.Option(help="A second text, for classifiers of pairs.")] = None,
    source: InFile = None,
    as_json: Json = False,
) -> None:
    """Classify texts, each with how sure the model is.

    [dim]masquerade classify --model runs/sst2 "A charming and often affecting journey."[/dim]
    """
    from masquerade.cli.labelling import show_classes

    show_classes(model, texts or [], pair, source, as_json)


@app.command()
def tag(
    model: ModelName,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to find entities in.")] = None,
    source: InFile = None,
    as_json: Json = False,
) -> None:
    """Find the entities in texts.

    [dim]masquerade tag --model runs/cluener "彭小军在台湾的银行工作。"[/dim]
    """
    from masquerade.cli.labelling import show_entities

    show_entities(model, texts or [], source, as_json)


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
    from masquerade.cli.writing import Limits, Output, show_texts

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
    from masquerade.cli.writing import show_keep
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
    from masquerade.cli.language_models import show_perplexity

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
    from masquerade.cli.language_models import show_ngrams

    show_ngrams(train, test, tokenizer, order, limit, as_json)


@app.command()
def vocab(
    texts: Annotated[list[str], typer.Argument(help="Text, JSON lines or Parquet files, or hub data sets.")],
    out: Annotated[Path, typer.Option(help="The folder for the tokenizer's files.")],
    kind: Annotated[str, typer.Option(help="wordpiece, bpe, unigram or characters.")] = "wordpiece",
    size: Annotated[int, typer.Option(help="How many tokens, special ones included.")] = 8000,
    lowercase: Annotated[bool, typer.Option(help="Fold capitals and accents.")] = True,
) -> None:
    """Train a tokenizer on your own texts.

    [dim]masquerade vocab corpus.txt --kind wordpiece --size 8000 --out my-vocab[/dim]
    """
    from masquerade.data.corpus import read_documents
    from masquerade.text.training import train_tokenizer

    documents = (document for source in texts for document in read_documents(source))
    tokenizer = train_tokenizer(documents, kind, size, lowercase)
    tokenizer.save(out)
    print(f"{out}: {kind}, {len(tokenizer):,} tokens")


@app.command()
def convert(
    source: Annotated[str, typer.Argument(help="A model's folder, TensorFlow checkpoint or hub id.")],
    target: Annotated[Path, typer.Argument(help="The folder to write: config.json, model.safetensors, tokenizer.")],
) -> None:
    """Read any checkpoint and write it as a folder that the reference library and this one can load.

    [dim]masquerade convert chinese_bert/bert_model.ckpt bert-zh[/dim]
    """
    from masquerade.checkpoints.folders import load, save

    if Path(source).exists() and target.exists() and Path(source).resolve() == target.resolve():
        raise MasqueradeError(f"'{source}' cannot be converted onto itself; give another folder.")
    model = load(source)
    save(model, target)
    count = sum(weight.numel() for weight in model.state_dict().values())
    size = f"{model.spec.layers} layers of {model.spec.width}, {count:,} weights"
    print(f"{source} → {target}: {model.spec.family}, {size}")

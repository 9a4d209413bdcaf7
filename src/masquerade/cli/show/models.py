"""What the command ``models`` prints and draws."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from masquerade.drawing.diagram import Figure, diagram, lay_figure, plan
from masquerade.drawing.pictures import save
from masquerade.errors import MasqueradeError
from masquerade.families.catalogue import CATALOGUE, CatalogueRow, base_spec, count, names, row
from masquerade.nn.spec import Spec


def show_models(name: str | None = None, out: Path | None = None, as_json: bool = False) -> None:
    """List every model; or draw one, by name or by the folder of a checkpoint, in the terminal or to a file."""
    if name is None and out is not None:
        raise MasqueradeError("--out is for the drawing of one model; say which: --diagram NAME.")
    if as_json:
        rows = [asdict(row(each)) for each in (names() if name is None else [name])]
        print(json.dumps(rows if name is None else rows[0], ensure_ascii=False, indent=2))
        return
    console = Console(highlight=False)
    if name is None:
        console.print(_table([row(each) for each in names()]))
        return
    drawn = _of_folder(Path(name)) if name not in names() and Path(name).is_dir() else _of_catalogue(name)
    if out is not None:
        save(lay_figure(drawn), out)
        console.print(f"drawn: {escape(str(out))}")
        return
    console.print(f"[bold]{escape(drawn.title)}[/bold]\n[dim]{escape(drawn.caption)}[/dim]")
    for line in plan(drawn):
        console.print(line)
    if drawn.size[0] > console.width:
        console.print("[yellow]Wider than this terminal; a file shows all of it: --out stack.svg[/yellow]")


def _table(rows: Sequence[CatalogueRow]) -> Table:
    """The list, 80 columns wide."""
    out = Table("model", "layers × width", "mask", "objective, description, reference", box=box.SIMPLE_HEAD)
    for each in rows:
        layers = f"{each.layers} + {each.decoder_layers}" if each.decoder_layers else f"{each.layers}"
        test = each.parity.partition("::")[0]
        out.add_row(
            f"[bold]{escape(each.name)}[/bold]",
            f"{layers} × {each.width}\n[dim]{each.parameters / 1e6:.1f} million[/dim]" if each.width else "",
            ("\n→ " if each.decoder_layers else "\n").join(each.masks),
            escape(each.objective) + f"\n[dim]{escape(each.about)}\n{escape(each.model)}; {each.against}, {test}[/dim]",
        )
    return out


def _of_catalogue(name: str) -> Figure:
    """The diagram of a model of the catalogue, at its published base size."""
    spec, listed = base_spec(name), row(name)
    return diagram(spec, f"{name} ({listed.model})", f"{_size(spec)}: {listed.about}", CATALOGUE[name].masks)


def _of_folder(folder: Path) -> Figure:
    """The diagram of a checkpoint."""
    from masquerade.checkpoints.folders import load

    spec = load(folder).spec
    return diagram(spec, f"{folder} ({spec.family})", _size(spec))


def _size(spec: Spec) -> str:
    layers = f"{len(spec.order)} + {len(spec.decoder.order)}" if spec.decoder else f"{len(spec.order)}"
    return f"{layers} layers of {spec.width}, {count(spec) / 1e6:.1f} million parameters"

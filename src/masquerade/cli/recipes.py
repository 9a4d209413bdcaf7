"""The recipes that come with Masquerade, by name."""

from __future__ import annotations

from pathlib import Path

from masquerade.errors import MasqueradeError


def shipped_recipes() -> dict[str, Path]:
    """Name → file, from inside the installed package or from a clone of the repository."""
    package = Path(__file__).parents[1]
    for folder in (package / "recipes", package.parents[1] / "recipes"):
        if found := sorted(folder.glob("*.toml")):
            return {path.stem: path for path in sorted(found, key=lambda path: path.stem)}
    return {}


def recipe_file(recipe: str) -> Path:
    """The file of a recipe that is given as a path or as the name of a shipped recipe."""
    path = Path(recipe).expanduser()
    if path.is_file() or path.suffix == ".toml" or path.name != recipe:
        return path
    known = shipped_recipes()
    if recipe not in known:
        raise MasqueradeError(
            f"There is no recipe '{recipe}'; give the path of a TOML file, or one of {', '.join(known) or 'no others'}."
        )
    return known[recipe]


def describe(path: Path) -> str:
    """What a recipe is for: the comment on its first line, which is a whole sentence."""
    with path.open(encoding="utf-8") as lines:
        return next(lines, "").lstrip("# ").strip().rstrip(":.")

"""Options that several commands share, so that they mean the same everywhere."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors; files are still written.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random choice; same seed, same result.")]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="Of CSV files: one character, or 'tab'. Guessed from the header.")
]
Decimal = Annotated[
    Literal["point", "comma"] | None,
    typer.Option("--decimal", help="The decimal mark of CSV files. Found out from the numbers by `fit`."),
]
Drop = Annotated[str | None, typer.Option("--drop", metavar="COLS", help="Columns to leave out, separated by commas.")]
Categorical = Annotated[
    str | None,
    typer.Option("--categorical", metavar="COLS", help="Columns of numbers that are names of categories."),
]
MaxCategories = Annotated[
    int, typer.Option("--max-categories", min=2, help="Most categories of a column that are told apart.")
]
Net = Annotated[
    str | None,
    typer.Option("--net", help="Such as 'mlp(depth=3, activation=erf)'; a wrong name prints what is possible."),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `widetail fit` wrote.")]
Impute = Annotated[
    bool, typer.Option("--impute", help="Replace missing cells by what the others let expect; an error otherwise.")
]
Chunk = Annotated[int, typer.Option("--chunk", min=1, help="Rows in memory at a time.")]
DECIMALS: dict[str | None, Literal[".", ","] | None] = {"point": ".", "comma": ",", None: None}
PlotFile = Annotated[Path | None, typer.Option("--plot", help="Draw to this .png, .svg or .pdf file.")]

"""`widetail kernel`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from widetail.cli import _options as options
from widetail.cli._errors import CommandError
from widetail.cli._output import Output, check_output

CONNECT_SECONDS = 30


def kernel(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A .csv or .parquet table, or inputs as .npy.")],
    net: Annotated[str, typer.Option("--net", help="Such as 'mlp(depth=3, activation=erf)'.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="K", help="The matrix: a .npy or .zarr.")],
    get: Annotated[Literal["nngp", "ntk"], typer.Option("--get", help="Which of the two kernels.")] = "nngp",
    dtype: Annotated[Literal["float64", "float32"], typer.Option("--dtype", help="Precision.")] = "float64",
    standardise: Annotated[
        bool, typer.Option(help="Give the columns of a table mean 0 and variance 1 first; .npy is taken as it is.")
    ] = True,
    block: Annotated[int, typer.Option("--block", min=1, help="Rows of the blocks that are written at a time.")] = 2000,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="Of a Dask cluster, such as tcp://10.0.0.1:8786."),
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Discard an unfinished result.")] = False,
    drop: options.Drop = None,
    categorical: options.Categorical = None,
    max_categories: options.MaxCategories = 100,
    impute: options.Impute = False,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
):
    """Write the kernel matrix of a table to disk.

    Block by block. After a kill, the same command goes on where it stopped. Memory: the inputs and a few blocks.
    With --scheduler the workers of a Dask cluster compute the blocks and write them.
    """
    from widetail.cli._specs import parse_net
    from widetail.kernels import matrix_facts, matrix_notes, tile_rows
    from widetail.stores import SUFFIXES, TileStore

    output = Output(as_json=as_json, quiet=quiet)
    if out.exists():
        raise CommandError(f"{str(out)!r} is there already; remove it, or use another --out.")
    check_output("--out", out, SUFFIXES)
    if scheduler and out.suffix != ".zarr":
        raise CommandError(f"--scheduler needs a .zarr, which many workers can write to at once; got --out {out}.")
    make_net = parse_net(net)
    if data.suffix == ".npy":
        x = _load_array(data)
    else:
        x = _read_inputs(
            output,
            data,
            delimiter,
            drop,
            impute=impute,
            standardise=standardise,
            categorical=categorical,
            max_levels=max_categories,
            decimal=options.DECIMALS[decimal],
        )
    x = x.astype(dtype)
    network = make_net(x.shape[-1])
    network.check_shape("DATA", x.shape[1:])
    rows_per_tile = tile_rows(network.numbers_per_pair(x.shape[1:]), len(x))
    store = TileStore(
        out,
        len(x),
        min(block, len(x)),
        dtype,
        matrix_facts(network, x, get, rows_per_tile),
        restart=restart,
        staged=True,
        attributes=matrix_notes(network, get),
    )
    computed = _fill(store, network, x, get, rows_per_tile, scheduler, output, quiet=quiet)
    results = {
        "rows": len(x),
        "blocks": store.tiles.total,
        "blocks_computed": computed,
        "net": repr(network),
        "get": get,
        "out": str(out),
    }
    output.result(results, lambda console: console.print(f"{len(x)} x {len(x)} {get} kernel written to {out}"))


def _fill(
    store: Any,
    network: Any,
    x: np.ndarray,
    get: Any,
    rows_per_tile: int,
    scheduler: str | None,
    output: Output,
    *,
    quiet: bool,
) -> int:
    """Compute the blocks that are missing, here or on a cluster; how many they were."""
    from widetail import kernels
    from widetail.distributed import ClusterError
    from widetail.progress import reporter
    from widetail.stores import StoreBusyError, StoreDamagedError, StoreMismatchError

    def compute(here: slice, there: slice) -> np.ndarray:
        other = None if here == there else x[there]
        values = kernels.evaluate(network, x[here], other, get, rows_per_tile=rows_per_tile)
        return np.asarray(values.ntk if get == "ntk" else values.nngp)

    try:
        with store:
            if store.done:
                output.remark(f"going on after {len(store.done)} of {store.tiles.total} blocks")
            if scheduler:
                computed = _fill_on_cluster(store, network, x, get, rows_per_tile, scheduler, quiet=quiet)
            else:
                store.check_here(reporter(not quiet, "checksums"))
                computed = store.fill_here(compute, reporter(not quiet, "blocks"))
            store.finish()
    except StoreMismatchError as error:
        raise CommandError(
            f"{str(store.tiles.location.address)!r} was begun with another {error.name} ({error.before!r}, now "
            f"{error.now!r}); use --restart to discard it, or another --out."
        ) from None
    except StoreDamagedError as error:
        raise CommandError(
            f"{error.location!r} is damaged: {error.what}; use --restart to discard it, or another --out."
        ) from None
    except FileExistsError:
        raise CommandError(
            f"{store.tiles.location.address!r} is there, and nothing says what it is of; use --restart to discard it."
        ) from None
    except (StoreBusyError, ClusterError) as error:
        raise CommandError(str(error)) from None
    return computed


def _fill_on_cluster(
    store: Any, network: Any, x: np.ndarray, get: Any, rows_per_tile: int, scheduler: str, *, quiet: bool
) -> int:
    from distributed import Client

    from widetail.distributed import fill_on_cluster

    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise CommandError(f"--scheduler: nothing answers at {scheduler!r} ({error}).") from None
    with client:
        return fill_on_cluster(store, network, x, get, rows_per_tile, client, progress=not quiet)


def _load_array(path: Path) -> np.ndarray:
    if not path.is_file():
        raise CommandError(f"there is no file {str(path)!r}.")
    try:
        x = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise CommandError(f"{str(path)!r} is not an array of numbers in NumPy's format: {error}") from None
    if x.ndim < 2 or not np.issubdtype(x.dtype, np.number):
        raise CommandError(
            f"{str(path)!r} must hold inputs (n, d) or images (n, ..., channels); got {x.dtype} {x.shape}."
        )
    return x


def _read_inputs(
    output: Output,
    data: Path,
    delimiter: str | None,
    drop: str | None,
    *,
    impute: bool,
    standardise: bool,
    categorical: str | None,
    **detection: Any,
) -> np.ndarray:
    from widetail.cli._tables import open_table
    from widetail.tables import TableEncoder, columns_of, detect_columns

    opened = open_table(data, delimiter)
    dropped = opened.split_names("--drop", drop)
    named = opened.split_names("--categorical", categorical)
    frame = opened.read().drop(dropped)
    columns = columns_of(frame)
    found = detect_columns(columns, categorical=named, usual_decimal=opened.usual_decimal, **detection)
    encoder = TableEncoder(standardise=standardise).learn(frame, found)
    for remark in encoder.remarks_:
        output.remark(remark)
    encoded, known = encoder.transform(frame), len(encoder.places_)
    is_unknown = np.any(encoded[:, known:], axis=1)
    if is_unknown.any() and not impute:
        rows = ", ".join(str(row + 1) for row in np.flatnonzero(is_unknown)[:5])
        raise CommandError(
            f"{str(data)!r} has missing values, such as in rows {rows}; --impute replaces them by what the other cells "
            f"let expect."
        )
    return encoded[:, :known]

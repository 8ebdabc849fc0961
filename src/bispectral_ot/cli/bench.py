"""The verb ``bench``: measure speed beside what one would use instead."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bispectral_ot.cli.console import output, progress_bars, say, shown_warnings
from bispectral_ot.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    help="Measure speed side by side with other libraries; what is not installed is skipped by name.",
)

_VERBS = {
    "features": "Ring bispectra against a loop over images and rings.",
    "costs": "L1, L2 and cosine distances against SciPy, scikit-learn and torch.",
    "solvers": "Sinkhorn against POT, GeomLoss and OTT-JAX, to the same measured marginal error.",
    "end-to-end": "Images to labels against the paper's recipe, and the growth with n.",
    "machine": "Kernels against the multiply-add rate and the memory bandwidth of this machine.",
    "all": "Everything, one after the other: half an hour at most, or three minutes with --quick.",
}
_BEGIN, _END = "<!-- bench tables -->", "<!-- end of bench tables -->"


def _add_verb(verb: str, help_text: str) -> None:
    """Add one benchmark to the program; they all take the same options."""

    def bench(
        out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for run.json and tables.md.")],
        root: Annotated[
            Path | None,
            typer.Option(metavar="DATA", help="Folder with the MNIST files.", show_default="mnist-5k"),
        ] = None,
        quick: Annotated[bool, typer.Option("--quick", help="Small sizes, fewer repeats.")] = False,
        time_box: Annotated[
            float | None,
            typer.Option(min=0.1, help="Seconds for one solve of a peer.", show_default="40, or 5 if quick"),
        ] = None,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run.")] = False,
    ) -> None:
        from bispectral_ot.benchmarks import BENCHMARKS, run_benchmarks, setting
        from bispectral_ot.benchmarks.tables import tables_as_markdown
        from bispectral_ot.files import write_json, write_text
        from bispectral_ot.runs import new_run

        sizes = setting.QUICK if quick else setting.FULL
        chosen = setting.Setting(sizes=sizes, time_box=time_box or (5.0 if quick else 40.0), root=root)
        with new_run(out, verb="bench", inputs=[root], overwrite=overwrite) as folder, shown_warnings():
            with progress_bars() as progress:
                names = list(BENCHMARKS) if verb == "all" else [verb]
                record = run_benchmarks(names, replace(chosen, progress=progress), show=_show)
            asked = (" --quick" if quick else "") + (f" --time-box {time_box:g}" if time_box else "")
            record["config"]["verb"] = "bench"
            record["config"]["command"] = f"bispectral-ot bench {verb}{asked} --out RUN"
            write_json(folder / "run.json", record)
            write_text(folder / "tables.md", tables_as_markdown(json.loads((folder / "run.json").read_text())))
        say(f"written to {out}")

    text = f"{help_text}\n\nExample: bispectral-ot bench {verb} --out runs/bench"
    app.command(verb, help=text)(bench)


for _verb, _help in _VERBS.items():
    _add_verb(_verb, _help)


@app.command()
def table(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs of bench, or their run.json.")],
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Put the tables between the marks in this file.")
    ] = None,
) -> None:
    """Print the tables of runs as Markdown, or put them into a document.

    Example: bispectral-ot bench table runs/bench --into docs/performance.md
    """
    from bispectral_ot.benchmarks.tables import tables_as_markdown
    from bispectral_ot.files import write_text

    texts = []
    for run in runs:
        path = run / "run.json" if run.is_dir() else run
        try:
            texts.append(tables_as_markdown(json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a run of bench; give the folder that --out named.") from error
    text = "\n".join(texts)
    if into is None:
        print(text)
        return
    document = into.read_text(encoding="utf-8") if into.is_file() else ""
    marked = re.compile(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", re.DOTALL)
    if not marked.search(document):
        raise InputError(f"{into} has no place for the tables; put the lines {_BEGIN} and {_END} where they belong.")
    write_text(into, marked.sub(lambda _: f"{_BEGIN}\n{text}\n{_END}", document))
    say(f"tables put into {into}")


def _show(result: Any) -> None:
    output.print(result.rich())

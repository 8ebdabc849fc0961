"""Options that several verbs have, with one help text each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bispectral_ot.choices import FeatureName, Metric, Storage

COMPARISON, IMAGES, SOLVER, MEMORY, OUTPUT = "Comparison", "Images", "Solver", "Memory", "Output"
SCHEDULER_HELP = (
    "Work on a Dask cluster: the address of its scheduler, such as tcp://host:8786, or local:4 for 4 processes on this "
    "machine."
)

NewRun = Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run; it appears when it is whole.")]
Features = Annotated[
    FeatureName | None,
    typer.Option(
        help="What images are compared by; ring-bispectrum is the paper's, aligned turns every pair to its best fit.",
        show_default="what suits the symmetry",
        rich_help_panel=COMPARISON,
    ),
]
FeatureMetric = Annotated[
    Metric | None,
    typer.Option(
        help="Distance between features.",
        show_default="sqeuclidean for combined, coupled, local and aligned, else l1",
        rich_help_panel=COMPARISON,
    ),
]
Components = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Reduce the features to this many principal components: faster, approximate.",
        rich_help_panel=COMPARISON,
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(help="Folder that has the official IDX files: nothing is downloaded.", rich_help_panel=IMAGES),
]
Resize = Annotated[
    str | None,
    typer.Option(
        help="Scale images to fit into this size, 32 or 32x48; the aspect ratio stays, background fills the rest.",
        show_default="their own; 64 or less where sizes differ",
        rich_help_panel=IMAGES,
    ),
]
Grey = Annotated[
    bool, typer.Option("--grey", help="Turn colours into grey, to compare with grey images.", rich_help_panel=IMAGES)
]
Center = Annotated[
    bool, typer.Option("--center", help="Move the content of every image to its centre.", rich_help_panel=IMAGES)
]
WorkingMemory = Annotated[
    str | None,
    typer.Option(
        help="Budget for features and distances, such as 4GB.",
        show_default="70 % of what is free",
        rich_help_panel=MEMORY,
    ),
]
CostStorage = Annotated[
    Storage | None,
    typer.Option(
        help="How to keep the distances; compact has 16 bits, recompute keeps none.",
        show_default="the most exact that fits",
        rich_help_panel=MEMORY,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help=SCHEDULER_HELP, show_default="the cores of this machine", rich_help_panel=MEMORY),
]
Replace = Annotated[
    bool, typer.Option("--overwrite", help="Replace an earlier run in that folder.", rich_help_panel=OUTPUT)
]
Report = Annotated[
    bool, typer.Option("--report", help="Write report.html, which opens in a browser.", rich_help_panel=OUTPUT)
]
Figures = Annotated[
    bool,
    typer.Option(
        "--figures/--no-figures", help="Draw figures; without them small runs are faster.", rich_help_panel=OUTPUT
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print results.json, and nothing else.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.", rich_help_panel=OUTPUT)]

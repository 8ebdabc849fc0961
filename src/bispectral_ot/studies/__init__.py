"""Studies: the paper's experiments, resumable, and the questions that a reader will ask."""

from bispectral_ot.studies.ablation import run_ablation
from bispectral_ot.studies.class_preservation import run_class_preservation
from bispectral_ot.studies.distances import run_distances
from bispectral_ot.studies.geometry import run_geometry
from bispectral_ot.studies.preset import Preset
from bispectral_ot.studies.symmetries import run_symmetries

__all__ = ["Preset", "run_ablation", "run_class_preservation", "run_distances", "run_geometry", "run_symmetries"]

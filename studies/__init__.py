"""Studies: the paper's experiments, resumable, and the questions that a reader will ask."""

from studies.ablation import run_ablation
from studies.class_preservation import run_class_preservation
from studies.distances import run_distances
from studies.geometry import run_geometry
from studies.preset import Preset
from studies.symmetries import run_symmetries

__all__ = ["Preset", "run_ablation", "run_class_preservation", "run_distances", "run_geometry", "run_symmetries"]

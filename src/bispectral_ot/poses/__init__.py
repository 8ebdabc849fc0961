"""Poses: how a source has to be turned, mirrored or moved to stand like its targets."""

from bispectral_ot.poses.estimate import Poses, estimate_poses, practice_rows
from bispectral_ot.poses.motions import MotionArray, Motions
from bispectral_ot.poses.motions_for import find_motions
from bispectral_ot.poses.upright import turn_image, upright_images
from bispectral_ot.poses.upright_files import upright_files

__all__ = [
    "MotionArray",
    "Motions",
    "Poses",
    "estimate_poses",
    "find_motions",
    "practice_rows",
    "turn_image",
    "upright_files",
    "upright_images",
]

"""Poses: how each source has to be turned, mirrored or moved to align with its targets."""

from bispectral_ot.poses.estimate import Poses, estimate_poses, find_motions, practice_rows
from bispectral_ot.poses.motions import MotionArray, Motions
from bispectral_ot.poses.upright import turn_image, upright_files, upright_images

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

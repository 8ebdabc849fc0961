"""Poses: the rotation, reflection or shift that aligns each source with its targets."""

from bispectral_ot.poses.estimate import Poses, estimate_poses
from bispectral_ot.poses.motions import MotionArray, find_motions
from bispectral_ot.poses.upright import turn_image, upright_files, upright_images

__all__ = ["MotionArray", "Poses", "estimate_poses", "find_motions", "turn_image", "upright_files", "upright_images"]

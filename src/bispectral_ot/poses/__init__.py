"""Poses: how a source has to be turned, mirrored or moved to stand like its targets."""

from bispectral_ot.poses.estimate import Poses, estimate_poses
from bispectral_ot.poses.motions import MotionArray, Motions

__all__ = ["MotionArray", "Motions", "Poses", "estimate_poses"]

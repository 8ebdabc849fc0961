"""Readers of files that the fields keep their images in, one file each; their libraries are loaded when one is read."""

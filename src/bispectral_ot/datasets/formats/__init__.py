"""Readers of files, one module for each format; their libraries are imported when a file is read."""

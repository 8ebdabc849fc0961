"""Studies: the paper's experiments, resumable, and the questions that a reader will ask."""

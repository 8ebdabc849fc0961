"""Studies: the experiments of the paper and further ones, resumable."""

"""Collection of tests: examples of the PyTorch front end need PyTorch, which is an extra."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["src/bispectral_ot/torch"]

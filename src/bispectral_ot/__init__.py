"""Match and compare two datasets up to a symmetry.

Each image is mapped to its bispectrum, a Fourier invariant that removes a group action and keeps the rest;
optimal transport between the invariants then pairs the two sets by content.

>>> import bispectral_ot as bot
>>> digits = bot.load("digits")
>>> source, target = bot.split_halves(digits, seed=0)
>>> source = bot.rotate_randomly(source, seed=0)
>>> match = bot.match(source, target, symmetry="rotation")
>>> match.converged
True
"""

import lazy_loader

# Names are listed in __init__.pyi. A subpackage is imported when one of its names is first used: imports stay fast.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

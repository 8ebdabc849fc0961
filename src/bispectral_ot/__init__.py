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

# The names stand in __init__.pyi. Rooms load when something of theirs is first asked for: the import stays fast.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

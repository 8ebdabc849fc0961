"""Compile the kernels that most tests need, once, before tests run in several processes that would all compile them."""

import warnings

import bispectral_ot as bot

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    source, target = bot.split_halves(bot.load("digits"), per_class=8)
    match = bot.match(bot.rotate_randomly(source), target)
    match.poses()
    match.predict(source.images[:3])
    pairs = ("ring-bispectrum", "l1"), ("pixels", "cosine"), ("pixels", "l2"), ("best-rotation", None)
    for features, metric in pairs:
        bot.match(source, target, features=features, metric=metric)
    bot.compare({"source": source, "target": target}, permutations=19)

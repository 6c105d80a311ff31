"""What labcode uses of the module of this name."""


def cache(function):
    """Return `function` with its results kept by argument."""
    kept = {}

    def cached(*args):
        if args not in kept:
            kept[args] = function(*args)
        return kept[args]

    return cached

"""What labcode uses of the module of this name."""


def cache(function):
    kept = {}

    def cached(*args):
        if args not in kept:
            kept[args] = function(*args)
        return kept[args]

    return cached

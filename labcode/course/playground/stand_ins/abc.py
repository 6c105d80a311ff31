"""What labcode uses of the module of this name."""


class ABC:
    pass


def abstractmethod(function):
    """Return the function as it is: in the page nobody makes an abstract object."""
    return function

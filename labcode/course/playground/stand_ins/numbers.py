"""What labcode.checks asks of the module of this name."""


class _Kind(type):
    def __instancecheck__(cls, value):
        return isinstance(value, cls.kinds)


class Real(metaclass=_Kind):
    kinds = (int, float)


class Integral(metaclass=_Kind):
    kinds = (int,)

"""What labcode's annotations use of `numpy.typing`."""


class _Open:
    def __class_getitem__(cls, item):
        return cls


ArrayLike = NDArray = _Open

"""What labcode's annotations use of `collections.abc`."""


class _Open:
    def __class_getitem__(cls, item):
        return cls


Callable = Collection = Iterable = Iterator = Mapping = Sequence = _Open

"""What labcode uses of the module of this name."""

TYPE_CHECKING = False


class _Open:
    def __class_getitem__(cls, item):
        return cls


class Any(_Open):
    pass


class Protocol(_Open):
    pass


class NamedTuple:
    """A tuple with names: each subclass gets its fields from its annotations."""

    def __init_subclass__(cls):
        names = list(cls.__annotations__)
        cls._fields = tuple(names)
        known = {f"_d_{name}": cls.__dict__[name] for name in names if name in cls.__dict__}
        arguments = [f"{name}=_d_{name}" if f"_d_{name}" in known else name for name in names]
        body = "".join([f"    self.{name} = {name}\n" for name in names])
        exec(f"def __init__(self, {', '.join(arguments)}):\n{body}", known)
        cls.__init__ = known["__init__"]

    def __iter__(self):
        return iter([getattr(self, name) for name in self._fields])

    def __getitem__(self, at):
        return getattr(self, self._fields[at])

    def __len__(self):
        return len(self._fields)

    def __eq__(self, other):
        return list(self) == list(other)

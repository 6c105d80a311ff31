"""What labcode uses of the module of this name."""

MISSING = object()


class FrozenInstanceError(AttributeError):
    """A field of a frozen instance was assigned to."""


class Field:
    def __init__(self, default, default_factory, init):
        self.default, self.default_factory, self.init, self.name = default, default_factory, init, ""


def field(*, default=MISSING, default_factory=MISSING, init=True, **unused):
    """Return what `dataclass` needs to know of a field."""
    return Field(default, default_factory, init)


def _own_fields(cls):
    found = {}
    for name, hint in getattr(cls, "__annotations__", {}).items():
        if str(hint).startswith("ClassVar"):
            continue
        given = cls.__dict__.get(name, MISSING)
        made = given if isinstance(given, Field) else Field(given, MISSING, True)
        made.name = name
        found[name] = made
    return found


def _init_of(cls, fields, frozen):
    known = {"MISSING": MISSING, "put": object.__setattr__}
    arguments, body = [], []
    for made in fields.values():
        if not made.init:
            continue
        name = made.name
        value = name
        if made.default is not MISSING:
            known["_d_" + name] = made.default
            arguments.append(f"{name}=_d_{name}")
        elif made.default_factory is not MISSING:
            known["_f_" + name] = made.default_factory
            arguments.append(f"{name}=MISSING")
            value = f"_f_{name}() if {name} is MISSING else {name}"
        else:
            arguments.append(name)
        body.append(f"    put(self, {name!r}, {value})" if frozen else f"    self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
    source = f"def __init__(self, {', '.join(arguments)}):\n" + "\n".join(body or ["    pass"])
    exec(source, known)
    return known["__init__"]


def dataclass(cls=None, *, frozen=False, eq=True, slots=False, **unused):
    """Give a class its `__init__`, and `__eq__` and a refusal of changes if asked for."""
    if cls is None:
        return lambda decorated: dataclass(decorated, frozen=frozen, eq=eq)
    fields = {}
    for base in reversed(cls.__mro__[1:]):
        fields.update(base.__dict__.get("__dataclass_fields__", {}))
    own = _own_fields(cls)
    fields.update(own)
    cls.__dataclass_fields__ = fields
    for made in own.values():
        if isinstance(cls.__dict__.get(made.name), Field):
            delattr(cls, made.name)
    cls.__init__ = _init_of(cls, fields, frozen)
    names = list(fields)

    def values(self):
        return tuple(getattr(self, name) for name in names)

    if eq:
        cls.__eq__ = lambda self, other: type(other) is type(self) and values(self) == values(other)
        if frozen:
            cls.__hash__ = lambda self: hash(values(self))
    if "__repr__" not in cls.__dict__:
        cls.__repr__ = lambda self: f"{cls.__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"
    if frozen:

        def __setattr__(self, name, value):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

        cls.__setattr__ = __setattr__
    return cls


def replace(instance, **changes):
    """Return a copy of `instance` with some fields changed."""
    kept = {made.name: getattr(instance, made.name) for made in instance.__dataclass_fields__.values() if made.init}
    kept.update(changes)
    return type(instance)(**kept)

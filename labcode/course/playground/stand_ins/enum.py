"""What labcode uses of the module of this name."""


class EnumType(type):
    def __new__(mcls, name, bases, space):
        made = super().__new__(mcls, name, bases, dict(space))
        made._members = []
        if bases:
            for key, value in list(space.items()):
                if not key.startswith("_") and not callable(value):
                    member = object.__new__(made)
                    member.name, member.value = key, value
                    setattr(made, key, member)
                    made._members.append(member)
        return made

    def __iter__(cls):
        return iter(cls._members)

    def __len__(cls):
        return len(cls._members)


class Enum(metaclass=EnumType):
    def __repr__(self):
        return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

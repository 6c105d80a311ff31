"""What labcode uses of the module of this name."""


class OrderedDict(dict):
    def move_to_end(self, key):
        self[key] = self.pop(key)

    def popitem(self, last=True):
        key = list(self)[-1 if last else 0]
        return key, self.pop(key)

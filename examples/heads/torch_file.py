"""Reads the tensors of a PyTorch file (a zip with a pickle) without running anything that the file says.

A pickle is a program. This interpreter knows the few operations that put together dictionaries, lists and numbers; the
only names that it accepts are those of tensors and their storages, and it never imports or calls one of them. Whatever
else a file names is refused, with the name.
"""

import math
import pickletools
import zipfile
from collections import OrderedDict

import numpy as np


class Refused(Exception):
    """The file is not one that is read here, or asks for more than tensors."""


# Storage class to the type of its numbers; bf16 has none in numpy and is widened from its bits.
STORAGES = {
    "FloatStorage": np.dtype("<f4"),
    "DoubleStorage": np.dtype("<f8"),
    "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": np.dtype("<u2"),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"),
    "CharStorage": np.dtype("i1"),
    "ByteStorage": np.dtype("u1"),
    "BoolStorage": np.dtype("?"),
}
DTYPES = {"float32", "float64", "float16", "bfloat16", "int64", "int32"}


class Named:
    """A global of the pickle: a name and nothing more."""

    def __init__(self, module, name):
        self.path = f"{module}.{name}"
        known = self.path in CALLED or (module == "torch" and (name in STORAGES or name in DTYPES))
        if not known:
            raise Refused(f"it names {self.path}, which is no part of a tensor; nothing was run")
        self.name = name


class Storage:
    """Numbers in the zip that tensors are views of."""

    def __init__(self, archive, persistent):
        if not (isinstance(persistent, tuple) and len(persistent) == 5 and persistent[0] == "storage"):
            raise Refused("it has a reference that is no storage")
        _, kind, key, _device, _count = persistent
        if not (isinstance(kind, Named) and kind.name in STORAGES and isinstance(key, str)):
            raise Refused("it has a storage of no known type")
        self.kind, self.numbers = kind.name, archive.numbers(key, STORAGES[kind.name])


class Archive:
    """The zip: one folder with data.pkl and data/<key>."""

    def __init__(self, path):
        try:
            self.zip = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            problem = "is no zip file; files of torch before 1.6 are not read: save it again with a newer one"
            raise Refused(problem) from error
        programs = [name for name in self.zip.namelist() if name.endswith("/data.pkl") or name == "data.pkl"]
        if len(programs) != 1:
            raise Refused(f"has {len(programs)} files called data.pkl; one is expected")
        self.program = programs[0]
        self.folder = self.program[: -len("data.pkl")]
        if self.folder + "byteorder" in self.zip.namelist():
            if self.zip.read(self.folder + "byteorder") != b"little":
                raise Refused("is of a machine of the other byte order")

    def numbers(self, key, kind):
        try:
            data = self.zip.read(f"{self.folder}data/{key}")
        except KeyError as error:
            raise Refused(f"lacks the storage {key}") from error
        return np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)


def tensor(storage, offset, size, stride, *_rest):
    """What torch._utils._rebuild_tensor_v2 makes, as a numpy array; floats of any kind become f32."""
    whole = isinstance(storage, Storage) and all(isinstance(n, int) and n >= 0 for n in (offset, *size, *stride))
    if not whole or len(size) != len(stride):
        raise Refused("it has a tensor of no known form")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride))
    numbers = storage.numbers
    if 0 in size:
        return np.zeros(size, np.float32)
    # The second keeps a step of 0 from making much of little.
    if last >= len(numbers) or math.prod(size) > len(numbers):
        raise Refused(f"it has a tensor of shape {list(size)} beyond its storage of {len(numbers)} numbers")
    steps = [step * numbers.itemsize for step in stride]
    view = np.lib.stride_tricks.as_strided(numbers[offset:], size, steps, writeable=False)
    if storage.kind == "BFloat16Storage":
        return (view.astype(np.uint32) << 16).view(np.float32)
    return view.astype(np.float32) if view.dtype.kind == "f" else view.copy()


# The only functions of a pickle that have an effect, and this is theirs.
CALLED = {
    "torch._utils._rebuild_tensor_v2": tensor,
    "torch._utils._rebuild_parameter": lambda data, *_rest: data,
    "collections.OrderedDict": OrderedDict,
}
MARK = object()


class Machine:
    """The stack and the memo of a pickle."""

    def __init__(self, archive):
        self.archive, self.stack, self.memo = archive, [], {}

    def since_mark(self):
        at = len(self.stack) - 1
        while at >= 0 and self.stack[at] is not MARK:
            at -= 1
        if at < 0:
            raise Refused("its pickle is torn")
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def pop(self, count):
        items = self.stack[-count:]
        if len(items) < count:
            raise Refused("its pickle is torn")
        del self.stack[-count:]
        return items

    def call(self):
        function, arguments = self.pop(2)
        if not (isinstance(function, Named) and function.path in CALLED and isinstance(arguments, tuple)):
            raise Refused("it calls something that is no part of a tensor; nothing was run")
        if function.path == "collections.OrderedDict" and arguments:
            raise Refused("it has a dictionary of no known form")
        self.stack.append(CALLED[function.path](*arguments))

    def build(self):
        # A state dict has its versions as an attribute; nothing else has a state here, and no state is kept.
        self.pop(1)
        if not isinstance(self.stack[-1], OrderedDict):
            raise Refused("it sets the state of something that is no dictionary")

    def items(self, pairs):
        into = self.stack[-1]
        if not isinstance(into, dict):
            raise Refused("it sets items of something that is no dictionary")
        into.update(zip(pairs[::2], pairs[1::2]))

    def extend(self, items):
        if type(self.stack[-1]) is not list:
            raise Refused("it appends to something that is no list")
        self.stack[-1].extend(items)

    def step(self, name, argument):
        push = self.stack.append
        if name in CONSTANTS:
            push(CONSTANTS[name]())
        elif name in LITERALS:
            push(argument)
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            push(self.memo[argument])
        elif name == "GLOBAL":
            push(Named(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            push(Named(*self.pop(2)))
        elif name == "MARK":
            push(MARK)
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            push(tuple(self.pop(int(name[-1]))))
        elif name == "TUPLE":
            push(tuple(self.since_mark()))
        elif name == "SETITEM":
            self.items(self.pop(2))
        elif name == "SETITEMS":
            self.items(self.since_mark())
        elif name == "APPEND":
            self.extend(self.pop(1))
        elif name == "APPENDS":
            self.extend(self.since_mark())
        elif name == "BINPERSID":
            push(Storage(self.archive, *self.pop(1)))
        elif name == "REDUCE":
            self.call()
        elif name == "BUILD":
            self.build()
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise Refused(f"it has the pickle operation {name}, which no tensor needs; nothing was run")


CONSTANTS = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
LITERALS = {
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
}


def load(path):
    """What the file holds: dictionaries, lists, numbers, texts, and tensors as numpy arrays."""
    try:
        archive = Archive(path)
        machine = Machine(archive)
        for operation, argument, _place in pickletools.genops(archive.zip.read(archive.program)):
            machine.step(operation.name, argument)
        (whole,) = machine.stack
        return whole
    except Refused as refused:
        raise Refused(f"{path}: {refused}") from refused.__cause__
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise Refused(f"{path}: its pickle is torn ({error})") from error

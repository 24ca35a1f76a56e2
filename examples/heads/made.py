"""Makes files like those that R2R and CITER publish, with random weights, without torch.

    python3 made.py r2r 1024 router.pt

writes one of the published size for a model of that hidden width, to measure with; the tests make small ones.
The pickle is written by the standard library with classes that have the names of torch's; the zip is laid out as
torch.save does it.
"""

import io
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np

TYPES = {"FloatStorage": "<f4", "HalfStorage": "<f2", "BFloat16Storage": "<u2", "LongStorage": "<i8"}


class Tensor:
    """Numbers to be written as a tensor of a storage type."""

    def __init__(self, numbers, storage="FloatStorage"):
        self.numbers, self.storage = np.asarray(numbers), storage


@contextmanager
def torch_names():
    """Modules that are called torch, so that the pickler can name their content."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in TYPES:
        setattr(torch, name, type(name, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2():
        raise AssertionError("never called")

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        yield torch, utils
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def save(path, whole):
    """Writes a file as torch.save does; `Tensor`s become tensors."""
    storages = {}
    with torch_names() as (torch, utils):

        class Reference:
            def __init__(self, key, tensor):
                kind = getattr(torch, tensor.storage)
                self.key = ("storage", kind, key, "cpu", tensor.numbers.size)

        class Pickler(pickle.Pickler):
            def persistent_id(self, item):
                return item.key if isinstance(item, Reference) else None

            def reducer_override(self, item):
                if not isinstance(item, Tensor):
                    return NotImplemented
                key = str(len(storages))
                storages[key] = item.numbers.astype(TYPES[item.storage], copy=False)
                shape = item.numbers.shape
                steps = tuple(int(np.prod(shape[at + 1 :], dtype=int)) for at in range(len(shape)))
                arguments = (Reference(key, item), 0, shape, steps, False, OrderedDict())
                return utils._rebuild_tensor_v2, arguments

        program = io.BytesIO()
        Pickler(program, protocol=2).dump(whole)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program.getvalue())
        archive.writestr("archive/byteorder", "little")
        for key, numbers in storages.items():
            archive.writestr(f"archive/data/{key}", numbers.tobytes())


def state_dict(tensors):
    """An ordered dictionary with the attribute that torch gives it."""
    state = OrderedDict((name, Tensor(numbers)) for name, numbers in tensors.items())
    state._metadata = OrderedDict({"": {"version": 1}})
    return state


class Layers:
    """Random tensors by name."""

    def __init__(self, seed):
        self.random, self.tensors = np.random.default_rng(seed), {}

    def vector(self, name, width, around=0.0):
        self.tensors[name] = (around + 0.2 * self.random.standard_normal(width)).astype(np.float32)

    def linear(self, name, outputs, inputs):
        weight = self.random.standard_normal((outputs, inputs)) / np.sqrt(inputs)
        self.tensors[f"{name}.weight"] = weight.astype(np.float32)
        self.vector(f"{name}.bias", outputs)

    def norm(self, name, width):
        self.vector(f"{name}.weight", width, 1.0)
        self.vector(f"{name}.bias", width)

    def batch_norm(self, name, width):
        self.norm(name, width)
        self.vector(f"{name}.running_mean", width)
        self.tensors[f"{name}.running_var"] = self.random.uniform(0.3, 2.0, width).astype(np.float32)


def r2r(hidden, logits, widths, normalised=False, seed=1):
    """Tensors of R2R's network; a block for each width, as wide as that."""
    layers = Layers(seed)
    if normalised:
        layers.norm("layer_norm_hidden_states", hidden)
        layers.norm("layer_norm_token", hidden)
    layers.linear("logits_projection", hidden, logits)
    layers.linear("combined_projection", widths[0], 3 * hidden)
    layers.linear("backbone.input_projection", widths[0], widths[0])
    for block, (inputs, outputs) in enumerate(zip(widths, (*widths[1:], widths[-1]))):
        name = f"backbone.blocks.{block}"
        layers.norm(f"{name}.layer_norm", inputs)
        layers.linear(f"{name}.mlp.0", 4 * inputs, inputs)
        layers.linear(f"{name}.mlp.3", outputs, 4 * inputs)
        if inputs != outputs:
            layers.linear(f"{name}.dim_change", outputs, inputs)
    layers.norm("backbone.output_layer.0", widths[-1])
    layers.linear("backbone.output_layer.1", 1, widths[-1])
    return layers.tensors


def citer(hidden, seed=2):
    """Tensors of CITER's network: h-2h-h-1, dropout after each activation."""
    layers = Layers(seed)
    layers.linear("0", 2 * hidden, hidden)
    layers.batch_norm("1", 2 * hidden)
    layers.linear("3", hidden, 2 * hidden)
    layers.batch_norm("4", hidden)
    layers.linear("6", 1, hidden)
    return layers.tensors


def main(kind, hidden, path):
    tensors = r2r(int(hidden), 100, (1024,) * 6) if kind == "r2r" else citer(int(hidden))
    save(path, {"state_dict": state_dict(tensors)})


if __name__ == "__main__":
    main(*sys.argv[1:])

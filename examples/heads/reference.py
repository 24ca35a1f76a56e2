"""The published networks in numpy, from the tensors of their files, in double precision; and heads as a graph says them.

Two ways to the same numbers that share nothing: `r2r` and `citer` read a state dict, `graph` what convert.py wrote.
"""

import json
import math
import struct
import tomllib

import numpy as np

EPS = 1e-5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPS) * weight + bias


def doubles(state):
    return {name: value.astype(np.float64) for name, value in state.items() if isinstance(value, np.ndarray)}


def r2r(state, hidden, embedding, logits):
    """Scores of R2R's HiddenStatesTokenLMHeadLogitsClassifier, one for each row."""
    w = doubles(state)
    linear = lambda name, x: x @ w[f"{name}.weight"].T + w[f"{name}.bias"]
    norm = lambda name, x: layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"])
    if "layer_norm_hidden_states.weight" in w:
        hidden, embedding = norm("layer_norm_hidden_states", hidden), norm("layer_norm_token", embedding)
        logits = softmax(logits)
    x = np.concatenate([hidden, embedding, linear("logits_projection", logits)], -1)
    x = linear("backbone.input_projection", linear("combined_projection", x))
    block = 0
    while (name := f"backbone.blocks.{block}") + ".mlp.0.weight" in w:
        inner = linear(f"{name}.mlp.3", gelu(linear(f"{name}.mlp.0", norm(f"{name}.layer_norm", x))))
        x = (linear(f"{name}.dim_change", x) if f"{name}.dim_change.weight" in w else x) + inner
        block += 1
    return sigmoid(linear("backbone.output_layer.1", norm("backbone.output_layer.0", x)))[:, 0]


def citer(state, hidden, linears=("0", "3", "6"), norms=("1", "4")):
    """Scores of CITER's MLP; its layers are called as a torch.nn.Sequential with dropout calls them."""
    w, x = doubles(state), hidden
    for name, norm in zip(linears, (*norms, None)):
        x = x @ w[f"{name}.weight"].T + w[f"{name}.bias"]
        if norm is not None:
            normed = (x - w[f"{norm}.running_mean"]) / np.sqrt(w[f"{norm}.running_var"] + EPS)
            x = np.maximum(normed * w[f"{norm}.weight"] + w[f"{norm}.bias"], 0)
    return sigmoid(x)[:, 0]


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    cut = lambda entry: body[entry["data_offsets"][0] : entry["data_offsets"][1]]
    return {name: np.frombuffer(cut(entry), "<f4").reshape(entry["shape"]) for name, entry in header.items()}


def graph(path, inputs):
    """The scores of a graph's file; `inputs` are rows by the inputs' names."""
    written = tomllib.loads(path.read_text())
    tensors = doubles(read_safetensors(path.parent / written["weights"]))
    values = dict(inputs)
    for node in written["nodes"]:
        source = node["from"]
        x = [values[name] for name in source] if isinstance(source, list) else values[source]
        weights = {key: tensors[node[key]] for key in ("weight", "bias", "scale", "shift") if key in node}
        values[node["name"]] = OPERATIONS[node["op"]](x, weights, node)
    return [values[name][:, 0] for name in written["scores"]]


OPERATIONS = {
    "concat": lambda x, w, node: np.concatenate(x, -1),
    "linear": lambda x, w, node: x @ w["weight"].T + w.get("bias", 0),
    "layer-norm": lambda x, w, node: layer_norm(x, w["weight"], w.get("bias", 0)),
    "scale-shift": lambda x, w, node: x * w["scale"] + w["shift"],
    "gelu": lambda x, w, node: gelu(x),
    "relu": lambda x, w, node: np.maximum(x, 0),
    "sigmoid": lambda x, w, node: sigmoid(x),
    "softmax": lambda x, w, node: softmax(x),
    "add": lambda x, w, node: sum(x),
    "pick": lambda x, w, node: x[:, node["index"], None],
}

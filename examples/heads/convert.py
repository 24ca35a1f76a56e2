"""Turns the published routers of R2R and CITER into heads: a graph in TOML beside a safetensors file.

    python3 convert.py r2r router.pt heads/r2r.toml
    python3 convert.py citer router.bin heads/citer.toml --names names.json

Needs numpy and nothing else; nothing that a file says is run (see torch_file.py). Depth and widths are read off the
shapes. See README.md for the form of what comes out.
"""

import argparse
import json
import re
import struct
import sys
from pathlib import Path

import numpy as np

import torch_file
from torch_file import Refused

NORM_EPS = 1e-5  # torch's default of LayerNorm and BatchNorm1d, which both trainings leave as it is


class Graph:
    """Nodes in order, and the tensors that they name."""

    def __init__(self, state):
        self.state, self.nodes, self.tensors = state, [], {}
        self.used = set()

    def take(self, name, rank):
        """A tensor of the file, which is then known to be used."""
        if name not in self.state:
            known = ", ".join(sorted(self.state))
            raise Refused(f"no tensor {name}; there are {known}. Name the file's own with --names")
        found = self.state[name]
        if found.ndim != rank:
            raise Refused(f"tensor {name} has shape {list(found.shape)}; {rank} dimensions are expected")
        self.used.add(name)
        return found.astype(np.float32)

    def has(self, name):
        return name in self.state

    def keep(self, name, numbers):
        if not np.isfinite(numbers).all():
            raise Refused(f"tensor {name} holds a number that is not finite")
        self.tensors[name] = np.ascontiguousarray(numbers, np.float32)
        return name

    def node(self, name, op, source, **keys):
        self.nodes.append({"name": name, "op": op, "from": source, **keys})
        return name

    def linear(self, name, source, tensor):
        keys = {"weight": self.keep(f"{tensor}.weight", self.take(f"{tensor}.weight", 2))}
        if self.has(f"{tensor}.bias"):
            keys["bias"] = self.keep(f"{tensor}.bias", self.take(f"{tensor}.bias", 1))
        return self.node(name, "linear", source, **keys)

    def layer_norm(self, name, source, tensor):
        keys = {key: self.keep(f"{tensor}.{key}", self.take(f"{tensor}.{key}", 1)) for key in ("weight", "bias")}
        return self.node(name, "layer-norm", source, **keys, eps=NORM_EPS)

    def batch_norm(self, name, source, tensor):
        """Folded: at inference it is a factor and an addend for each number."""
        mean, variance = (self.take(f"{tensor}.running_{key}", 1).astype(np.float64) for key in ("mean", "var"))
        scale = 1 / np.sqrt(variance + NORM_EPS)
        if self.has(f"{tensor}.weight"):
            scale *= self.take(f"{tensor}.weight", 1)
        shift = -mean * scale
        if self.has(f"{tensor}.bias"):
            shift += self.take(f"{tensor}.bias", 1)
        self.used.add(f"{tensor}.num_batches_tracked")
        keys = {"scale": self.keep(f"{tensor}.scale", scale), "shift": self.keep(f"{tensor}.shift", shift)}
        return self.node(name, "scale-shift", source, **keys)

    def check_all_used(self):
        left = sorted(name for name in self.state if name not in self.used)
        if left:
            raise Refused(f"these tensors have no place in the network: {', '.join(left)}")


def r2r(graph, about):
    """HiddenStatesTokenLMHeadLogitsClassifier of thu-nics/R2R; returns the width of the hidden state."""
    kind = about.get("model_type", "HiddenStatesTokenLMHeadLogitsClassifier")
    if kind != "HiddenStatesTokenLMHeadLogitsClassifier":
        raise Refused(f"it is a {kind}; HiddenStatesTokenLMHeadLogitsClassifier is converted")
    if graph.has("backbone.position_embedding"):
        raise Refused("it adds position embeddings, which a head does not have")
    # The model's own table takes its place, as in R2R's published files.
    graph.used.add("token_embeddings.weight")
    hidden, logit_count = graph.take("logits_projection.weight", 2).shape
    hidden_source, embedding, logits = "hidden", "token-embedding", f"topk-logits({logit_count})"
    if graph.has("layer_norm_hidden_states.weight"):
        hidden_source = graph.layer_norm("hidden-norm", "hidden", "layer_norm_hidden_states")
        embedding = graph.layer_norm("embedding-norm", "token-embedding", "layer_norm_token")
        logits = graph.node("probabilities", "softmax", logits)
    projected = graph.linear("logits", logits, "logits_projection")
    combined = graph.node("all", "concat", [hidden_source, embedding, projected])
    x = graph.linear("combined", combined, "combined_projection")
    x = graph.linear("x", x, "backbone.input_projection")
    for block in range(count(graph.state, r"backbone\.blocks\.(\d+)\.")):
        x = r2r_block(graph, block, x)
    x = graph.layer_norm("norm", x, "backbone.output_layer.0")
    x = graph.linear("logit", x, "backbone.output_layer.1")
    graph.node("score", "sigmoid", x)
    return hidden


def r2r_block(graph, block, x):
    tensor = f"backbone.blocks.{block}"
    inner = graph.layer_norm(f"norm-{block}", x, f"{tensor}.layer_norm")
    inner = graph.linear(f"up-{block}", inner, f"{tensor}.mlp.0")
    inner = graph.node(f"gelu-{block}", "gelu", inner)
    inner = graph.linear(f"down-{block}", inner, f"{tensor}.mlp.3")
    if graph.has(f"{tensor}.dim_change.weight"):
        x = graph.linear(f"change-{block}", x, f"{tensor}.dim_change")
    return graph.node(f"x-{block}", "add", [x, inner])


def citer(graph, _about):
    """CITER's MLP: linear layers, a batch norm and ReLU after each but the last; returns the hidden width."""
    linears = layers(graph.state, "weight", 2)
    norms = layers(graph.state, "running_mean", 1)
    if not linears or len(norms) not in (0, len(linears) - 1):
        problem = f"it has {len(linears)} linear layers and {len(norms)} batch norms"
        raise Refused(f"{problem}; a batch norm is expected after each linear layer but the last")
    x = "hidden"
    for index, tensor in enumerate(linears):
        x = graph.linear(f"linear-{index}", x, tensor)
        if index + 1 < len(linears):
            x = graph.batch_norm(f"norm-{index}", x, norms[index]) if norms else x
            x = graph.node(f"relu-{index}", "relu", x)
    graph.node("score", "sigmoid", x)
    return graph.state[f"{linears[0]}.weight"].shape[1]


def layers(state, key, rank):
    """Prefixes of the tensors `key` of so many dimensions, in the order of the file."""
    ends = f".{key}"
    return [name[: -len(ends)] for name, found in state.items() if name.endswith(ends) and found.ndim == rank]


def count(state, pattern):
    numbers = [int(found.group(1)) for found in (re.match(pattern, name) for name in state) if found]
    return max(numbers, default=-1) + 1


KINDS = {"r2r": r2r, "citer": citer}
HOLDERS = ("state_dict", "model_state_dict", "model")


def state_of(whole):
    """The tensors of a file by name, and what else it says."""
    if not isinstance(whole, dict):
        raise Refused("it holds no dictionary of tensors")
    for holder in HOLDERS:
        if isinstance(whole.get(holder), dict):
            return whole[holder], {key: value for key, value in whole.items() if key != holder}
    return whole, {}


def named(state, names):
    """The tensors under the names that are expected; `names` maps those of the file to them."""
    missing = sorted(set(names) - set(state))
    if missing:
        raise Refused(f"--names has {', '.join(missing)}, which the file has not")
    tensors = {str(name): value for name, value in state.items() if isinstance(value, np.ndarray)}
    found = {names.get(name, name.removeprefix("module.")): value for name, value in tensors.items()}
    if len(found) < len(tensors):
        raise Refused("two tensors have one name after --names")
    return found


def convert(kind, whole, names):
    """The graph of a file's content, and what it says about itself."""
    state, about = state_of(whole)
    graph = Graph(named(state, names))
    graph.hidden = KINDS[kind](graph, about)
    graph.check_all_used()
    return graph, about


def toml(graph, weights, about):
    """The text of a graph."""
    lines = [f"# {line}" for line in about]
    lines += [f'weights = "{weights}"', f"hidden = {graph.hidden}", 'scores = ["score"]']
    for node in graph.nodes:
        # JSON's texts, lists of texts and numbers are TOML's.
        lines += ["", "[[nodes]]"] + [f"{key} = {json.dumps(value)}" for key, value in node.items()]
    return "\n".join(lines) + "\n"


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, numbers in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(numbers.shape), "data_offsets": [at, at + numbers.nbytes]}
        at += numbers.nbytes
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for numbers in tensors.values():
            file.write(numbers.astype("<f4").tobytes())


def write(graph, path, about):
    """Writes both files; the weights are beside the graph, under its name."""
    weights = path.with_suffix(".safetensors")
    write_safetensors(weights, graph.tensors)
    path.write_text(toml(graph, weights.name, about))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("file", type=Path, help="the published .pt or .bin file")
    parser.add_argument("graph", type=Path, help="the .toml file to write; the weights come beside it")
    parser.add_argument("--names", type=Path, help="JSON: tensor names of the file to the expected ones")
    options = parser.parse_args(arguments)
    try:
        names = json.loads(options.names.read_text()) if options.names else {}
        graph, about = convert(options.kind, torch_file.load(options.file), names)
    except Refused as refused:
        sys.exit(str(refused))
    threshold = (about.get("common_args") or {}).get("threshold")
    notes = [f"Converted by examples/heads/convert.py from {options.kind}'s {options.file.name}."]
    if isinstance(threshold, float):
        notes.append(f"It was published with the threshold {threshold}.")
    write(graph, options.graph, notes)
    flops = 2 * sum(numbers.size for numbers in graph.tensors.values() if numbers.ndim == 2)
    print(f"{options.graph}: {len(graph.nodes)} nodes, {flops / 1e6:.1f} MFLOP a token", *notes[1:], sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])

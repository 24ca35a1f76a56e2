"""Tests of the converter: `python3 -m unittest` in this folder. Needs numpy, and no torch."""

import contextlib
import io
import json
import os
import pickle
import tempfile
import tomllib
import unittest
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np

import convert
import made
import reference
import torch_file
from made import Tensor
from torch_file import Refused

HIDDEN, LOGITS, ROWS = 6, 5, 4


class Command:
    """What a pickle can do to whoever loads it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        random = np.random.default_rng(9)
        self.hidden, self.embedding = random.standard_normal((2, ROWS, HIDDEN))
        self.logits = -np.sort(-random.standard_normal((ROWS, LOGITS)) * 5)

    def saved(self, whole, name="router.pt"):
        made.save(self.folder / name, whole)
        return self.folder / name

    def converted(self, kind, file, *options):
        with contextlib.redirect_stdout(io.StringIO()):
            convert.main([kind, str(file), str(self.folder / "out.toml"), *options])
        return self.folder / "out.toml"

    def scores(self, path):
        inputs = {"hidden": self.hidden, "token-embedding": self.embedding}
        return reference.graph(path, {**inputs, f"topk-logits({LOGITS})": self.logits})[0]

    def refused(self, kind, file, *options):
        with self.assertRaises(SystemExit) as stop:
            self.converted(kind, file, *options)
        return str(stop.exception)

    def assert_close(self, found, expected):
        self.assertLess(np.abs(found - expected).max(), 1e-6)
        self.assertGreater(np.ptp(expected), 1e-3, "the scores differ by row")


class Conversion(InFolder):
    def r2r_file(self, tensors):
        common = {"threshold": 0.42, "input_type": ["hidden_states", "token", "logits"]}
        init = {"hidden_dims": [8, 8], "dropout_rate": 0.3, "use_position_embedding": False, "topk": None}
        kind = "HiddenStatesTokenLMHeadLogitsClassifier"
        rest = {"model_type": kind, "init_args": init, "common_args": common, "model_specific_args": {}}
        return self.saved({**rest, "state_dict": made.state_dict(tensors)})

    def test_r2r_gives_the_same_scores(self):
        for widths, normalised in [((8, 8), False), ((8, 12, 7), False), ((8,), True)]:
            tensors = made.r2r(HIDDEN, LOGITS, widths, normalised)
            path = self.converted("r2r", self.r2r_file(tensors))
            expected = reference.r2r(tensors, self.hidden, self.embedding, self.logits)
            self.assert_close(self.scores(path), expected)
            self.assertEqual(tomllib.loads(path.read_text())["hidden"], HIDDEN)
            self.assertIn("threshold 0.42", path.read_text())

    def test_the_token_table_is_left_to_the_model(self):
        tensors = made.r2r(HIDDEN, LOGITS, (8,))
        path = self.converted("r2r", self.r2r_file({"token_embeddings.weight": np.zeros((9, HIDDEN)), **tensors}))
        self.assertNotIn("token_embeddings.weight", reference.read_safetensors(path.with_suffix(".safetensors")))

    def test_citer_gives_the_same_scores(self):
        tensors = made.citer(HIDDEN)
        path = self.converted("citer", self.saved(made.state_dict(tensors)))
        self.assert_close(self.scores(path), reference.citer(tensors, self.hidden))

    def test_names_are_mapped(self):
        tensors = made.r2r(HIDDEN, LOGITS, (8,))
        other = {name.replace("backbone", "trunk"): value for name, value in tensors.items()}
        names = {name.replace("backbone", "trunk"): name for name in tensors if "backbone" in name}
        file = self.r2r_file(other)
        self.assertIn("no tensor backbone.input_projection.weight", self.refused("r2r", file))
        (self.folder / "names.json").write_text(json.dumps(names))
        path = self.converted("r2r", file, "--names", str(self.folder / "names.json"))
        expected = reference.r2r(tensors, self.hidden, self.embedding, self.logits)
        self.assert_close(self.scores(path), expected)

    def test_what_has_no_place_is_refused(self):
        tensors = made.citer(HIDDEN)
        file = self.saved(made.state_dict({**tensors, "attention": np.zeros(3)}))
        self.assertIn("no place in the network: attention", self.refused("citer", file))
        file = self.saved(made.state_dict({**tensors, "8.weight": np.zeros((1, 1))}))
        self.assertIn("4 linear layers and 2 batch norms", self.refused("citer", file))
        file = self.r2r_file({**made.r2r(HIDDEN, LOGITS, (8,)), "backbone.position_embedding": np.zeros((2, 8))})
        self.assertIn("position embeddings", self.refused("r2r", file))
        tensors["6.bias"] = np.array([np.nan], np.float32)
        self.assertIn("not finite", self.refused("citer", self.saved(made.state_dict(tensors))))
        file = self.saved({"model_type": "LogitsClassifier", "state_dict": made.state_dict({})})
        self.assertIn("it is a LogitsClassifier", self.refused("r2r", file))


class Reading(InFolder):
    def test_tensors_of_every_float_type_are_read(self):
        numbers = np.array([[1.0, -2.5, 0.0], [3.0, 0.5, 65504.0]], np.float32)
        brain = Tensor((numbers.view(np.uint32) >> 16).astype(np.uint16), "BFloat16Storage")
        half = Tensor(numbers, "HalfStorage")
        whole = torch_file.load(self.saved({"f": Tensor(numbers), "h": half, "b": brain, "n": Tensor([3], "LongStorage")}))
        np.testing.assert_array_equal(whole["f"], numbers)
        np.testing.assert_array_equal(whole["h"], numbers)
        np.testing.assert_array_equal(whole["b"][0], numbers[0])
        np.testing.assert_array_equal(whole["n"], [3])

    def test_a_command_is_refused_by_name_and_not_run(self):
        touched = self.folder / "touched"
        file = self.saved({"state_dict": Command(touched)})
        with self.assertRaisesRegex(Refused, r"(posix|os)\.system"):
            torch_file.load(file)
        self.assertFalse(touched.exists())
        self.assertIn("system", self.refused("r2r", file))

    def test_every_protocol_of_a_command_is_refused(self):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            file = self.folder / f"{protocol}.pt"
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("a/data.pkl", pickle.dumps(Command(self.folder / "touched"), protocol))
            with self.assertRaises(Refused):
                torch_file.load(file)
        self.assertFalse((self.folder / "touched").exists())

    def test_known_names_cannot_be_misused(self):
        programs = {
            b"ctorch\nFloatStorage\n(tR.": "calls something",
            b"ccollections\nOrderedDict\n((lp0\ntR.": "",
            b"cbuiltins\neval\n.": "builtins.eval",
            b"ctorch\nload\n.": "torch.load",
            b"ctorch._utils\n_rebuild_tensor_v2\n(tR.": "",
            b"N}b.": "",
            b"]": "",
            b"": "",
        }
        for program, text in programs.items():
            with zipfile.ZipFile(self.folder / "odd.pt", "w") as archive:
                archive.writestr("a/data.pkl", program)
            with self.assertRaisesRegex(Refused, text):
                torch_file.load(self.folder / "odd.pt")

    def test_tensors_beyond_their_storage_are_refused(self):
        file = self.saved({"t": Tensor(np.zeros((4, 4)))})
        with zipfile.ZipFile(file) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        parts["archive/data/0"] = parts["archive/data/0"][:-4]
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        with self.assertRaisesRegex(Refused, "beyond its storage of 15 numbers"):
            torch_file.load(file)

    def test_other_files_are_refused(self):
        (self.folder / "text.pt").write_text("no zip")
        with self.assertRaisesRegex(Refused, "no zip file"):
            torch_file.load(self.folder / "text.pt")
        with zipfile.ZipFile(self.folder / "empty.pt", "w"):
            pass
        with self.assertRaisesRegex(Refused, "0 files called data.pkl"):
            torch_file.load(self.folder / "empty.pt")

    def test_a_state_dict_is_a_dictionary(self):
        whole = torch_file.load(self.saved(OrderedDict(a=Tensor([1.0, 2.0]))))
        self.assertEqual(list(whole), ["a"])


if __name__ == "__main__":
    unittest.main()

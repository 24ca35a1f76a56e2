"""Makes the golden heads in heads/: `python heads.py`, needs numpy only.

Networks of R2R's and CITER's form with random weights are written as PyTorch would write them, converted as a user would
convert them (examples/heads), and scored by their formulas in double precision for a few made-up draws.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "examples" / "heads"))

import convert  # noqa: E402
import made  # noqa: E402
import reference  # noqa: E402

HIDDEN, LOGITS, DRAWS = 16, 9, 6


def make():
    (HERE / "heads").mkdir(exist_ok=True)
    random = np.random.default_rng(7)
    hidden, embedding = random.standard_normal((2, DRAWS, HIDDEN)).astype(np.float32)
    logits = -np.sort(-6 * random.standard_normal((DRAWS, LOGITS))).astype(np.float32)
    networks = {"r2r": made.r2r(HIDDEN, LOGITS, (12, 10)), "citer": made.citer(HIDDEN)}
    for name, tensors in networks.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "router.pt"
            made.save(file, {"state_dict": made.state_dict(tensors)})
            convert.main([name, str(file), str(HERE / "heads" / f"{name}.toml")])
    wide = (hidden.astype(float), embedding.astype(float), logits.astype(float))
    golden = {
        "hidden": hidden.tolist(),
        "embedding": embedding.tolist(),
        "logits": logits.tolist(),
        "scores": {
            "r2r": reference.r2r(networks["r2r"], *wide).tolist(),
            "citer": reference.citer(networks["citer"], wide[0]).tolist(),
        },
    }
    (HERE / "heads" / "golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    make()

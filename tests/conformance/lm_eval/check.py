"""lm-eval's local-completions against a running server, and the transformers library on the same weights.

check.py URL MODELS MODEL [MODEL...]: MODELS is the folder of checkpoints by name; a model may be a route NAME=CHECKPOINT, whose
prompts are scored by the model that begins. Prints one JSON object: by model how many log-likelihoods were compared, and the
largest difference. Nothing is fetched.
"""

import json
import logging
import os
import sys
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import lm_eval  # noqa: E402
import torch  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

HERE = Path(__file__).parent
MOST = 1e-3
BACKENDS = ["huggingface", "remote"]


def evaluated(model: str, arguments: dict) -> dict:
    """By context and continuation: log-likelihood, and whether it is what greedy decoding gives."""
    with (HERE / "problems.yaml").open() as file:
        import yaml

        task = yaml.safe_load(file)
    task["dataset_kwargs"] = {"data_files": {"test": str(HERE / "problems.jsonl")}}
    results = lm_eval.simple_evaluate(
        model=model, model_args=arguments, tasks=[task], task_manager=TaskManager(include_path=None), log_samples=True,
        bootstrap_iters=0,
    )
    said = {}
    for sample in results["samples"]["problems"]:
        arguments_of = [tuple(arguments.values()) if isinstance(arguments, dict) else tuple(arguments)
                        for arguments in sample["arguments"]]
        for (context, continuation, *_), response in zip(arguments_of, sample["resps"], strict=True):
            response = response[0] if isinstance(response[0], (list, tuple)) else response
            said[context, continuation] = (float(response[0]), str(response[1]) == "True")
    return said


def compared(url: str, model: str, checkpoint: Path) -> dict:
    reference = evaluated("hf", {"pretrained": str(checkpoint), "dtype": "float32", "device": "cpu", "batch_size": 8})
    base = {"base_url": f"{url}/v1/completions", "model": model, "max_length": 1024, "num_concurrent": 2}
    worst = {}
    for backend in BACKENDS:
        tokenizer = {"tokenizer": str(checkpoint)} if backend == "huggingface" else {}
        ours = evaluated("local-completions", {**base, **tokenizer, "tokenizer_backend": backend, "batch_size": 8})
        assert ours.keys() == reference.keys(), "the same questions"
        worst[backend] = max(abs(ours[asked][0] - reference[asked][0]) for asked in ours)
        greedy = [asked for asked in ours if ours[asked][1] != reference[asked][1]]
        assert not greedy, f"greedy or not: {greedy}"
    return {"compared": len(reference), "worst": worst}


def main() -> None:
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    url, models, *names = sys.argv[1:]
    told = {}
    for name in names:
        model, _, checkpoint = name.partition("=")
        told[model] = compared(url, model, Path(models) / (checkpoint or model))
        assert all(worst <= MOST for worst in told[model]["worst"].values()), told
    print(json.dumps(told))


if __name__ == "__main__":
    main()

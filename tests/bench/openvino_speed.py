"""Speed of OpenVINO GenAI on a GGUF file: MODEL THREADS PROMPT TOKENS BATCH...; a child of compare.py.

It can only be timed from outside, so decoding is what TOKENS more tokens cost a `generate` call:
(T(TOKENS + 1) - T(1)) / TOKENS per step. T(1) counts as the prefill. Prompts never repeat, as it keeps prefixes.
"""

import json
import random
import sys
import time

import numpy
import openvino
import openvino_genai


def main():
    """Prints {batch: {"prefill": tokens/s, "decode": tokens/s}}."""
    model, threads, prompt, tokens, *batches = sys.argv[1], *map(int, sys.argv[2:])
    pipe = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)
    numbers = random.Random(SEED)

    def seconds(batch, new):
        prompts = [[numbers.randrange(*IDS) for _ in range(prompt)] for _ in range(batch)]
        ids = numpy.array(prompts, dtype=numpy.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        begun = time.perf_counter()
        made = pipe.generate(inputs, max_new_tokens=new, min_new_tokens=new, ignore_eos=True, do_sample=False)
        elapsed = time.perf_counter() - begun
        assert [len(one) for one in made.tokens] == [new] * batch, "it stopped early"
        return elapsed

    speeds = {}
    for batch in batches:
        for _ in range(2):  # The second counts.
            prefill = seconds(batch, 1)
            decode = seconds(batch, tokens + 1) - prefill
        speeds[batch] = {"prefill": batch * prompt / prefill, "decode": batch * tokens / decode}
    print(json.dumps(speeds))


SEED = 1
# Ordinary tokens of any vocabulary.
IDS = (1000, 30000)

if __name__ == "__main__":
    main()

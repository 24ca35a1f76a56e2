"""The openai package, unmodified, on a routed pair; prints the answer as it comes, then who made it.

pip install openai; tokenrouter serve; python examples/clients/chat.py ["QUESTION"]
"""

import os
import sys

from openai import OpenAI

QUESTION = "Mia has 31 shells. She finds 24 more shells. A magic box makes them 3 times as many. How many shells does Mia have now?"

client = OpenAI(base_url=os.environ.get("TOKENROUTER_URL", "http://127.0.0.1:8080/v1"), api_key="none", max_retries=0)
stream = client.chat.completions.create(
    model="pair/entropy",
    messages=[{"role": "user", "content": sys.argv[1] if len(sys.argv) > 1 else QUESTION}],
    temperature=0,
    stream=True,
    stream_options={"include_usage": True},
)
usage = None
for chunk in stream:
    usage = chunk.usage or usage
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
print("\n", usage.model_dump().get("completion_tokens_by_model"))

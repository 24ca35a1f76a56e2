"""The openai package, unmodified, against a running server: `openai_client.py BASE_URL`."""

import sys

import openai
from openai import OpenAI

QUESTION = [{"role": "user", "content": "What is 12 + 30?"}]


def whole_and_streamed_chat(client: OpenAI, model: str) -> None:
    asked = {"model": model, "messages": QUESTION, "temperature": 0, "seed": 1, "max_tokens": 60}
    whole = client.chat.completions.create(**asked)
    choice = whole.choices[0]
    assert choice.finish_reason in ("stop", "length"), choice
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options=options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == choice.message.content, (text, choice.message.content)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage, chunks[-1]


def conversation_goes_on(client: OpenAI) -> None:
    first = client.chat.completions.create(model="small", messages=QUESTION, max_tokens=20, temperature=0)
    messages = [*QUESTION, first.choices[0].message, {"role": "user", "content": "And 5 more?"}]
    second = client.chat.completions.create(model="small", messages=messages, max_tokens=20)
    assert second.usage.prompt_tokens > first.usage.prompt_tokens


def stream_helper(client: OpenAI) -> None:
    with client.chat.completions.stream(model="pair/entropy", messages=QUESTION, max_tokens=30) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
    assert "".join(deltas) == stream.get_final_completion().choices[0].message.content


def logprobs(client: OpenAI) -> None:
    chat = client.chat.completions.create(
        model="small", messages=QUESTION, max_tokens=5, logprobs=True, top_logprobs=2, temperature=0
    )
    content = chat.choices[0].logprobs.content
    assert len(content) == 5 and all(len(entry.top_logprobs) == 2 for entry in content), content
    text = client.completions.create(model="small", prompt="12 + 30 =", max_tokens=4, logprobs=2)
    found = text.choices[0].logprobs
    assert "".join(found.tokens) == text.choices[0].text and len(found.token_logprobs) == len(found.tokens)


def several_answers(client: OpenAI) -> None:
    asked = {"model": "pair/entropy", "messages": QUESTION, "n": 3, "seed": 5, "temperature": 1, "max_tokens": 20}
    whole = client.chat.completions.create(**asked)
    assert [choice.index for choice in whole.choices] == [0, 1, 2], whole
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(**asked, stream=True):
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in whole.choices], texts
    prompts = client.completions.create(model="small", prompt=["12 + 30 =", "5 + 6 ="], max_tokens=3, temperature=0)
    assert [choice.index for choice in prompts.choices] == [0, 1], prompts


def echoed_prompt(client: OpenAI) -> None:
    prompt = "12 + 30 ="
    answer = client.completions.create(model="small", prompt=prompt, max_tokens=0, echo=True, logprobs=1)
    (choice,) = answer.choices
    assert choice.text == prompt and choice.logprobs.token_logprobs[0] is None, choice
    assert all(logprob <= 0 for logprob in choice.logprobs.token_logprobs[1:]), choice


def extensions(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="pair/entropy@threshold=0.6", messages=QUESTION, max_tokens=30, extra_body={"route_trace": True}
    )
    trace = answer.route_trace
    assert "".join(token["text"] for token in trace["tokens"]) == answer.choices[0].message.content
    assert trace["policy"] == "entropy" and trace["revision"] == answer.system_fingerprint


def errors(client: OpenAI) -> None:
    def refused(kind: type, code: str, **asked: object) -> None:
        try:
            client.chat.completions.create(**{"model": "small", "messages": QUESTION, **asked})
        except kind as error:
            assert error.code == code, error
            assert error.request_id, "x-request-id is read"
        else:
            raise AssertionError(f"{asked} was not refused")

    refused(openai.NotFoundError, "model_not_found", model="gpt-4")
    refused(openai.BadRequestError, "invalid_value", n=0)
    refused(openai.BadRequestError, "context_length_exceeded", max_tokens=100_000)


def main() -> None:
    client = OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="not needed", timeout=30, max_retries=0)
    ids = {model.id for model in client.models.list()}
    assert {"small", "large", "pair/entropy"} <= ids, ids
    assert client.models.retrieve("pair/entropy").id == "pair/entropy"
    for model in ("small", "pair/entropy"):
        whole_and_streamed_chat(client, model)
    conversation_goes_on(client)
    stream_helper(client)
    logprobs(client)
    several_answers(client)
    echoed_prompt(client)
    extensions(client)
    errors(client)
    print(f"openai {openai.__version__}: ok")


if __name__ == "__main__":
    main()

// The openai package, unmodified, against a running server: `node openai_client.mjs BASE_URL`.
// It must lie where node finds the package; the test copies it there.

import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "not needed", timeout: 30_000, maxRetries: 0 });
const messages = [{ role: "user", content: "What is 12 + 30?" }];

async function wholeAndStreamedChat(model) {
  const asked = { model, messages, temperature: 0, seed: 1, max_tokens: 60 };
  const whole = await client.chat.completions.create(asked);
  const stream = await client.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } });
  let text = "";
  let last;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    last = chunk;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.deepEqual(last.choices, []);
  assert.deepEqual(last.usage, whole.usage);
}

async function streamHelper() {
  const stream = client.chat.completions.stream({ model: "pair/entropy", messages, max_tokens: 30, temperature: 0 });
  let text = "";
  stream.on("content", (delta) => (text += delta));
  const final = await stream.finalChatCompletion();
  assert.equal(text, final.choices[0].message.content);
}

async function completion() {
  const answer = await client.completions.create({ model: "small", prompt: "12 + 30 =", max_tokens: 4, logprobs: 1 });
  assert.equal(answer.choices[0].logprobs.tokens.join(""), answer.choices[0].text);
}

async function severalAnswers() {
  const asked = { model: "pair/entropy", messages, n: 3, seed: 5, temperature: 1, max_tokens: 20 };
  const whole = await client.chat.completions.create(asked);
  const texts = ["", "", ""];
  for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
    for (const choice of chunk.choices) texts[choice.index] += choice.delta.content ?? "";
  }
  assert.deepEqual(texts, whole.choices.map((choice) => choice.message.content));
}

async function trace() {
  const answer = await client.chat.completions.create({ model: "pair/entropy", messages, max_tokens: 30, route_trace: true });
  const text = answer.route_trace.tokens.map((token) => token.text).join("");
  assert.equal(text, answer.choices[0].message.content);
}

async function errors() {
  const refused = (asked, status, code) =>
    assert.rejects(client.chat.completions.create({ model: "small", messages, ...asked }), (error) => {
      assert.ok(error instanceof OpenAI.APIError);
      assert.deepEqual([error.status, error.code], [status, code]);
      return true;
    });
  await refused({ model: "gpt-4" }, 404, "model_not_found");
  await refused({ temperature: 3 }, 400, "invalid_value");
}

async function leaveInMidStream() {
  const stream = await client.chat.completions.create({ model: "pair/random", messages, stream: true, temperature: 2, max_tokens: 400 });
  for await (const chunk of stream) {
    if (chunk.choices[0].delta.content) break;
  }
}

const ids = (await client.models.list()).data.map((model) => model.id);
assert.ok(ids.includes("pair/entropy"), ids);
assert.equal((await client.models.retrieve("pair/entropy")).id, "pair/entropy");
await wholeAndStreamedChat("small");
await wholeAndStreamedChat("pair/entropy");
await streamHelper();
await completion();
await severalAnswers();
await trace();
await errors();
await leaveInMidStream();
console.log("openai for JavaScript: ok");

// The openai package, unmodified, on a routed pair.
//
// npm install openai; tokenrouter serve; node examples/clients/chat.mjs ["QUESTION"]
import OpenAI from "openai";

const question = process.argv[2] ?? "Tom has 17 coins. He buys 48 more coins. He finds 12 more coins. How many coins does Tom have now?";
const baseURL = process.env.TOKENROUTER_URL ?? "http://127.0.0.1:8080/v1";
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });

const stream = await client.chat.completions.create({
  model: "pair/entropy",
  messages: [{ role: "user", content: question }],
  temperature: 0,
  stream: true,
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
}
process.stdout.write("\n");

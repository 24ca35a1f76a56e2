// Against the server itself: the playground, keys, metrics, the policies that it serves.

import assert from "node:assert/strict";
import { answer, ready, stream, visit } from "./harness.mjs";

const QUESTION =
  "Tom has 17 coins. He buys 48 more coins. He finds 12 more coins. A magic box makes them 2 times as many. " +
  "How many coins does Tom have now?";

const post = async (url, json) =>
  (
    await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(json),
    })
  ).json();

export async function the_page_loads_with_nothing_from_elsewhere({ browser, url }) {
  const { headers } = await fetch(url);
  assert.match(headers.get("content-security-policy"), /default-src 'none'; script-src 'self'; style-src 'self'/);
  assert.equal(headers.get("cache-control"), "no-cache");
  const { page, close } = await visit(browser, url);
  await ready(page);
  assert.equal(await page.title(), "tokenrouter");
  assert.equal(await page.locator("#model").inputValue(), "pair/entropy");
  await close();
}

export async function an_answer_streams_in_the_colours_of_its_models({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await ready(page);
  await page.getByLabel("Prompt").fill(QUESTION);
  await stream(page);
  const messages = [{ role: "user", content: QUESTION }];
  const whole = await post(url, { model: "pair/entropy", messages, temperature: 0, max_tokens: 256 });
  assert.equal(await answer(page), whole.choices[0].message.content);
  const colours = await page.locator(".token").evaluateAll((all) => all.map((node) => getComputedStyle(node).color));
  assert.equal(new Set(colours).size, 2);
  for (const [model, count] of Object.entries(whole.usage.completion_tokens_by_model)) {
    assert.match(
      await page.locator("#legend li", { hasText: model }).textContent(),
      new RegExp(`${model} ${count} · .* %`),
    );
  }
  assert.match(await page.locator("#facts").textContent(), /first token[\d.]+ ms.*tokens\/s.*weights read per token/);
  assert.equal(await page.locator("#entropy rect").count(), whole.usage.completion_tokens);
  await close();
}

export async function a_token_tells_who_and_why_to_the_pointer_and_to_the_keyboard({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await ready(page);
  await stream(page);
  const tip = page.locator("#tip");
  await page.locator(".token.other").first().hover();
  await tip.waitFor();
  const told = await tip.textContent();
  assert.match(told, /^large/);
  assert.match(told, /whyentropy [\d.]+ of small is above 0\.4/);
  assert.match(told, /replaced"/);
  assert.match(told, /cost[\d.,]+ ?[MG]? weights read, [\d.]+ × small/);
  await page.mouse.move(5, 5);
  await tip.waitFor({ state: "hidden" });
  // One stop of the Tab key: from the list before it, to a token, to what follows.
  await page.locator("#curl").evaluate((node) => node.parentElement.querySelector("summary").focus());
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.ix), "0");
  assert.match(await tip.textContent(), /^large.*replaced/);
  await page.keyboard.press("ArrowRight");
  assert.match(await tip.textContent(), /^small.*whyentropy let it stand/);
  for (const [key, ix] of [
    ["ArrowRight", "2"],
    ["ArrowLeft", "1"],
    ["ArrowDown", "11"],
    ["ArrowLeft", "10"],
    ["Home", "0"],
  ]) {
    await page.keyboard.press(key);
    assert.equal(await page.evaluate(() => document.activeElement.dataset.ix), ix, key);
  }
  await page.keyboard.press("End");
  const last = (await page.locator(".token").count()) - 1;
  assert.equal(await page.locator(":focus").getAttribute("data-ix"), String(last));
  assert.equal(await page.locator(":focus").getAttribute("aria-describedby"), "tip");
  await page.keyboard.press("Escape");
  assert.equal(await tip.isVisible(), false);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.ix), undefined);
  await close();
}

export async function stop_ends_an_answer_that_would_go_on({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await ready(page);
  await page.getByLabel("Model or route").selectOption("large");
  // Hot, so that the end token is seldom drawn.
  for (const [label, value] of [
    ["Temperature", "2"],
    ["Most tokens", "900"],
    ["Seed", "7"],
  ]) {
    await page.getByLabel(label).fill(value);
  }
  // The embedded models are quick: the button is pressed in the moment that the first token is there.
  await page.evaluate(() => {
    const seen = new MutationObserver(() => {
      if (document.querySelector(".token")) document.getElementById("stop").click();
    });
    seen.observe(document.getElementById("tokens"), { childList: true });
  });
  await page.getByLabel("Prompt").press("Control+Enter");
  await page.locator("#said", { hasText: "Stopped after" }).waitFor();
  assert.ok((await page.locator(".token").count()) < 900);
  assert.ok(await page.locator("#stop").isDisabled());
  await close();
}

export async function a_second_question_takes_the_place_of_the_first({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await ready(page);
  await page.getByLabel("Prompt").fill(QUESTION);
  await page.getByLabel("Temperature").fill("2");
  await page.evaluate(() => {
    const seen = new MutationObserver(() => {
      if (!document.querySelector(".token")) return;
      seen.disconnect();
      document.getElementById("temperature").value = 0;
      document.getElementById("ask").requestSubmit();
    });
    seen.observe(document.getElementById("tokens"), { childList: true });
  });
  await stream(page);
  const messages = [{ role: "user", content: QUESTION }];
  const whole = await post(url, { model: "pair/entropy", messages, temperature: 0, max_tokens: 256 });
  assert.equal(await answer(page), whole.choices[0].message.content);
  await close();
}

export async function knobs_go_into_the_request({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await ready(page);
  const sent = async () => {
    const posted = page.waitForRequest((request) => request.method() === "POST");
    const [request] = await Promise.all([posted, stream(page)]);
    return request.postDataJSON();
  };
  assert.equal((await sent()).model, "pair/entropy");
  await page.getByLabel("threshold", { exact: true }).fill("20");
  const { model, ...rest } = await sent();
  assert.equal(model, "pair/entropy@threshold=20");
  assert.deepEqual([rest.temperature, rest.max_tokens, rest.stream, rest.route_trace], [0, 256, true, true]);
  assert.equal(await page.locator(".token.other").count(), 0, "nothing is that unsure");
  const slider = page.getByLabel("threshold, slider");
  await slider.focus();
  await slider.press("Home");
  assert.equal(await page.getByLabel("threshold", { exact: true }).inputValue(), "0");
  assert.equal((await sent()).model, "pair/entropy@threshold=0");
  assert.match(await page.locator("#curl").textContent(), /"model":"pair\/entropy@threshold=0"/);
  await page.getByLabel("threshold", { exact: true }).fill("99");
  assert.equal(await page.locator("#ask").evaluate((form) => form.checkValidity()), false);
  await close();
}

export async function a_refusal_is_shown_in_the_servers_words({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await ready(page);
  await page.getByLabel("Most tokens").fill("1000000");
  await page.getByRole("button", { name: /Stream/ }).click();
  await page.locator("#said.error").waitFor();
  assert.match(await page.locator("#said").textContent(), /context|tokens/);
  await close();
}

export async function a_server_that_checks_keys_is_asked_with_the_key_that_was_typed({ browser, guarded, key }) {
  const { page, close } = await visit(browser, guarded);
  const form = page.locator("#key-form");
  await form.getByText("This server checks API keys.").waitFor();
  await page.getByRole("textbox", { name: "API key" }).fill("tr-nonsense");
  await page.keyboard.press("Enter");
  await form.getByText("does not accept the key").waitFor();
  await page.getByRole("textbox", { name: "API key" }).fill(key);
  await page.keyboard.press("Enter");
  await ready(page);
  assert.equal(await form.isVisible(), false);
  await stream(page);
  assert.ok((await answer(page)).length > 10);
  const kept = await page.evaluate(() => [
    JSON.stringify(sessionStorage),
    JSON.stringify(localStorage),
    document.cookie,
  ]);
  assert.ok(kept[0].includes(key) && !kept[1].includes(key) && !kept[2].includes(key));
  // What is for operators is quietly not there.
  await page.getByRole("tab", { name: "Metrics" }).click();
  await page.getByText("Metrics are for keys with the scope admin.").waitFor();
  await page.getByRole("button", { name: "API key ✓" }).click();
  await page.getByRole("button", { name: "Forget" }).click();
  await form.getByText("This server checks API keys.").waitFor();
  await close();
}

export async function an_answer_that_is_of_no_experiment_cannot_be_judged({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await ready(page);
  await stream(page);
  await page.getByRole("button", { name: "Bad answer" }).click();
  await page.getByText("only answers of a running experiment").waitFor();
  await close();
}

export async function metrics_move({ browser, url }) {
  const { page, close } = await visit(browser, url, { hash: "#metrics" });
  const row = page.locator("tr", { has: page.locator("th", { hasText: "large" }) }).first();
  await row.waitFor();
  assert.deepEqual(
    await page.locator("b.role-0").allTextContents(),
    ["small", "small"],
    "the entry model's colour, as elsewhere",
  );
  const head = await page.locator("thead").first().locator("th").allTextContents();
  assert.ok(
    ["running", "parked", "KV tokens", "tokens/s", "prefix hits/s"].every((name) => head.includes(name)),
    head.join(),
  );
  const cell = row.locator("td").nth(head.indexOf("tokens/s") - 1);
  const until = Date.now() + 12_000;
  while (Number.parseFloat((await cell.textContent()).replace(",", "")) === 0) {
    assert.ok(Date.now() < until, "no tokens were seen");
    await post(url, {
      model: "pair/entropy@threshold=0",
      messages: [{ role: "user", content: QUESTION }],
      temperature: 0,
    });
  }
  assert.ok((await page.locator(".spark polyline").count()) > 10);
  await page.getByRole("region", { name: "Handoffs per second" }).waitFor();
  await close();
}

export async function policies_of_the_server_are_listed({ browser, url }) {
  const { page, close } = await visit(browser, url, { hash: "#policies" });
  const { routes } = await (await fetch(`${url}/admin/policies`)).json();
  const table = page.getByRole("region", { name: "Routes and who decides" });
  await table.waitFor();
  assert.deepEqual(
    await table.locator("tbody th").allTextContents(),
    routes.map(({ route }) => route),
  );
  for (const { policy, revision, health } of routes) {
    const row = table.locator("tr", { hasText: revision }).first();
    assert.match(await row.textContent(), new RegExp(`${policy}.*${health.state}`));
  }
  await close();
}

export async function everything_can_be_done_with_the_keyboard({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await ready(page);
  const focused = () => page.evaluate(() => document.activeElement.id);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "To the content");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "tab-playground");
  for (const [key, name] of [
    ["ArrowRight", "metrics"],
    ["End", "experiments"],
    ["ArrowRight", "playground"],
    ["ArrowLeft", "experiments"],
    ["Home", "playground"],
  ]) {
    await page.keyboard.press(key);
    assert.equal(await focused(), `tab-${name}`);
    await page.locator(`#panel-${name}`).waitFor();
    assert.equal(new URL(page.url()).hash, `#${name}`);
    assert.equal(await page.locator("[role=tab][aria-selected=true]").count(), 1);
  }
  const visited = [];
  while ((await focused()) !== "prompt") {
    assert.ok(visited.push(await focused()) < 20, `Tab never comes to the prompt: ${visited}`);
    await page.keyboard.press("Tab");
  }
  assert.ok(visited.includes("model") && visited.includes("theme"), visited.join());
  await page.keyboard.press("Control+A");
  await page.keyboard.type("How much is 217 + 45?");
  await page.keyboard.press("Control+Enter");
  await page.locator("#said", { hasText: "Done" }).waitFor();
  while ((await focused()) !== "stream") await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator("#said", { hasText: "Done" }).waitFor();
  assert.ok((await answer(page)).length > 0);
  await close();
}

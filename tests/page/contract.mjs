// The page's own logic in states that no running server shows at will, over answers that the test gives in its place: every
// verdict, an alarm, endpoints that a key does not open, and texts that try to be more than text.

import assert from "node:assert/strict";
import { answer, mock, ready, stream, visit } from "./harness.mjs";
import { events, experiment } from "./samples.mjs";

async function answers(page, texts) {
  const body = events(texts);
  await page.route("**/v1/chat/completions", (route) => route.fulfill({ contentType: "text/event-stream", body }));
}

export async function characters_that_tokens_share_are_whole({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await ready(page);
  const texts = ["naïve ", "", "🐚", "", "", "貝", "\n", "x"];
  await answers(page, texts);
  await stream(page);
  assert.equal(await answer(page), texts.join(""));
  assert.equal(await page.locator(".token").count(), texts.length);
  assert.equal(await page.locator(".token.part").count(), 3);
  await page.locator(".token.other").hover();
  assert.match(await page.locator("#tip").textContent(), /no text yet.*asked about every token/);
  assert.match(await page.locator("#facts").textContent(), /experimentthreshold\/bolder/);
  await close();
}

export async function texts_that_look_like_html_stay_texts({ browser, url }) {
  const evil = '<img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>';
  const { page, close } = await visit(browser, url);
  await ready(page);
  await page.getByLabel("Prompt").fill(evil);
  await stream(page);
  assert.ok((await page.locator("#curl").textContent()).includes("<img src=x"));
  await answers(page, [evil, evil]);
  await stream(page);
  assert.equal(await answer(page), evil + evil);
  await page.locator(".token.other").hover();
  assert.ok((await page.locator("#tip").textContent()).includes("<i>x</i>"));
  await mock(page, "/admin/experiments", () => ({
    json: { experiments: [experiment({ name: evil, reason: evil, state: "paused" })] },
  }));
  await page.getByRole("tab", { name: "Experiments" }).click();
  await page.getByRole("heading", { name: "<img src=x" }).waitFor();
  assert.equal(await page.locator("img, main script, #tip i").count(), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await close();
}

export async function an_experiment_shows_its_arms_and_which_differences_are_real({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await mock(page, "/admin/experiments", () => ({ json: { experiments: [experiment()] } }));
  await page.getByRole("tab", { name: "Experiments" }).click();
  const card = page.getByRole("article", { name: "Experiment threshold" });
  assert.match(
    await card.locator("h2").textContent(),
    /threshold running on pair\/entropy · phase 2 · sticky by header x-session · from api/,
  );
  const rows = card.getByRole("region", { name: "Effects" }).locator("tbody tr");
  assert.deepEqual(await rows.locator(".badge").allTextContents(), [
    "better",
    "undecided",
    "worse",
    "no difference shown",
  ]);
  // Where a difference is real, its interval lies on one side of 0, in the picture too.
  const sides = await rows.locator("svg").evaluateAll((all) =>
    all.map((svg) => {
      const at = (of, name) =>
        Number(svg.querySelector(of).getAttribute(name)) - Number(svg.querySelector(".zero").getAttribute("x1"));
      return [Math.sign(at(".range", "x1")), Math.sign(at("circle", "cx")), Math.sign(at(".range", "x2"))];
    }),
  );
  assert.deepEqual(sides, [
    [-1, -1, -1],
    [-1, 1, 1],
    [1, 1, 1],
    [-1, 0, 1],
  ]);
  assert.match(
    await card.getByRole("region", { name: "Arms" }).textContent(),
    /bolder.*1,270.*small 98\.5 %, large 1\.5 %/,
  );
  assert.match(await card.textContent(), /errors, mean: at most 0\.02 worse than the control/);
  assert.equal(await card.getByRole("alert").count(), 0);
  await close();
}

export async function an_alarm_is_told_before_the_numbers({ browser, url }) {
  const { page, close } = await visit(browser, url);
  const sample_ratio = { alarm: true, p_or_e: 1e-9 };
  await mock(page, "/admin/experiments", () => ({
    json: { experiments: [experiment({ sample_ratio, state: "rolled back", reason: "errors of bolder" })] },
  }));
  await page.getByRole("tab", { name: "Experiments" }).click();
  assert.match(await page.getByRole("alert").textContent(), /no comparison can be trusted/);
  assert.match(await page.locator(".badge").first().textContent(), /rolled back/);
  await close();
}

export async function what_a_server_does_not_have_is_said_quietly({ browser, url }) {
  const { page, close } = await visit(browser, url);
  const absent = { error: { message: "there is no such path", code: "unknown_url" } };
  for (const path of ["/v1/policies", "/admin/policies", "/admin/experiments", "/metrics"])
    await mock(page, path, () => ({ status: 404, json: absent }));
  for (const [tab, words] of [
    ["Metrics", "for keys with the scope admin"],
    ["Policies", "takes no uploads"],
    ["Experiments", "shows no experiments"],
  ]) {
    await page.getByRole("tab", { name: tab }).click();
    await page.getByText(words).waitFor();
  }
  assert.equal(await page.locator(".error").count(), 0);
  await close();
}

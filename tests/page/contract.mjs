// The page's own logic in states that no running server shows at will, over answers that the test gives in its place: an
// experiment in every state, uploads, feedback, and texts that try to be more than text.

import assert from "node:assert/strict";
import { answer, mock, ready, stream, visit } from "./harness.mjs";
import { events, experiment, upload } from "./samples.mjs";

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

export async function an_answer_is_judged({ browser, url }) {
  const { page, close } = await visit(browser, url);
  await ready(page);
  let status = 200;
  const asked = await mock(page, "/v1/feedback", () => ({
    status,
    json: status === 200 ? {} : { error: { message: "there is no POST /v1/feedback", code: "unknown_url" } },
  }));
  assert.equal(await page.locator("#feedback").isVisible(), false);
  await stream(page);
  await page.getByRole("button", { name: "Good answer" }).click();
  await page.getByText("Noted.").waitFor();
  status = 404;
  await page.getByRole("button", { name: "Bad answer" }).click();
  await page.getByText("This server takes no feedback.").waitFor();
  const sent = asked.map(({ body }) => JSON.parse(body));
  assert.deepEqual(
    sent.map(({ score }) => score),
    [1, 0],
  );
  assert.match(sent[0].id, /^chatcmpl-[0-9a-f]{16}$/);
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

export async function weights_move_and_the_control_takes_the_rest({ browser, url }) {
  const { page, close } = await visit(browser, url);
  const asked = await mock(page, "/admin/experiments", () => ({ json: { experiments: [experiment()] } }));
  await page.getByRole("tab", { name: "Experiments" }).click();
  const form = page.getByRole("form", { name: "Weights of threshold" });
  const apply = form.getByRole("button", { name: "Apply weights" });
  assert.ok(await apply.isDisabled());
  await form.getByLabel("bolder", { exact: true }).fill("33.25");
  assert.equal(await form.locator("output").textContent(), "66.75 %");
  await form.getByLabel("bolder, slider").press("ArrowRight");
  assert.equal(await form.getByLabel("bolder", { exact: true }).inputValue(), "34");
  await apply.click();
  await page.getByText("a new phase has begun").waitFor();
  const { path, body } = asked.find(({ method }) => method === "POST");
  assert.deepEqual(
    [path, JSON.parse(body)],
    ["/admin/experiments/threshold/weights", { weights_bp: { bolder: 3400 } }],
  );
  assert.equal(await form.getByLabel("bolder, slider").getAttribute("max"), "50", "the arm's ceiling");
  await close();
}

export async function an_experiment_is_paused_promoted_and_rolled_back_for_a_reason({ browser, url }) {
  const { page, close } = await visit(browser, url);
  let state = "running";
  const moves = { pause: "paused", resume: "running", promote: "promoted" };
  const asked = await mock(page, "/admin/experiments", ({ path }) => {
    state = moves[path.split("/")[4]] ?? state;
    return { json: { experiments: [experiment({ state, reason: state === "running" ? null : "Friday" })] } };
  });
  await page.getByRole("tab", { name: "Experiments" }).click();
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Roll back" }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Pause" }).click();
  await dialog.getByRole("button", { name: "Pause" }).click();
  assert.ok(await dialog.isVisible(), "no reason, no change");
  await dialog.getByLabel("Reason").fill("it is Friday");
  await page.keyboard.press("Enter");
  await page.getByText("Reason: Friday").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Promote bolder" }).click();
  await dialog.getByLabel("Reason").fill("cheaper");
  await dialog.getByRole("button", { name: "Promote" }).click();
  await page.locator(".badge", { hasText: "promoted" }).waitFor();
  // What has ended has no levers.
  assert.equal(await page.getByRole("button", { name: /Promote|Roll back|Apply|Pause/ }).count(), 0);
  assert.deepEqual(
    asked.filter(({ method }) => method === "POST").map(({ path, body }) => [path.split("/").pop(), JSON.parse(body)]),
    [
      ["pause", { reason: "it is Friday" }],
      ["resume", {}],
      ["promote", { arm: "bolder", reason: "cheaper" }],
    ],
  );
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

export async function policies_are_uploaded_and_their_revisions_changed({ browser, url }) {
  const { page, close } = await visit(browser, url);
  let active = "bbbbbbbbbbbbbbbb";
  const asked = await mock(page, "/v1/policies", ({ path }) => {
    if (path.endsWith("/activate")) active = "aaaaaaaaaaaaaaaa";
    return { json: path === "/v1/policies" ? { object: "list", data: [upload(active)] } : upload(active) };
  });
  await page.getByRole("tab", { name: "Policies" }).click();
  const form = page.getByRole("form", { name: "Upload a revision" });
  await form.getByLabel("Name").fill("mine");
  await form
    .getByLabel("Component")
    .setInputFiles({ name: "mine.wasm", mimeType: "application/wasm", buffer: Buffer.from("\0asm") });
  await form.getByLabel("Settings").fill("threshold = 0.5");
  await form.getByRole("button", { name: "Upload" }).click();
  await page.getByText("own/mine is at revision bbbbbbbbbbbbbbbb.").waitFor();
  const put = asked.find(({ method }) => method === "PUT");
  assert.equal(put.path, "/v1/policies/mine");
  assert.match(
    put.body,
    /name="component"; filename="mine\.wasm"[\s\S]*name="manifest"[\s\S]*route = "pair\/entropy"\r?\n\[settings\]\r?\nthreshold = 0\.5/,
  );
  await page.getByRole("button", { name: "Activate aaaa" }).click();
  await page.getByText("mine: another revision is active.").waitFor();
  await page.getByRole("button", { name: "Roll back" }).click();
  await page.getByText("mine: rolled back.").waitFor();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("mine: deleted.").waitFor();
  assert.deepEqual(
    asked
      .filter(({ method }) => ["POST", "DELETE"].includes(method))
      .map(({ method, path, body }) => [method, path, body && JSON.parse(body)]),
    [
      ["POST", "/v1/policies/mine/activate", { revision: "aaaaaaaaaaaaaaaa" }],
      ["POST", "/v1/policies/mine/rollback", {}],
      ["DELETE", "/v1/policies/mine", null],
    ],
  );
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

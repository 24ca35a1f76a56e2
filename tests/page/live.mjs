// Against a server that keeps what is changed: uploads and experiments, with real components and real traffic. What the page
// says is held against what the server tells.

import assert from "node:assert/strict";
import { answer, ready, stream, visit } from "./harness.mjs";

/// JSON of the server; what is not there is null.
async function ask(url, path, method = "GET", json = undefined) {
  const body = json && JSON.stringify(json);
  const response = await fetch(`${url}${path}`, { method, headers: { "content-type": "application/json" }, body });
  if (response.status === 404) return null;
  const told = await response.json();
  assert.ok(response.ok, `${method} ${path}: ${JSON.stringify(told)}`);
  return told;
}

const component = (name) => new URL(`../../policies/prebuilt/${name}.wasm`, import.meta.url).pathname;

async function upload(page, name, file, settings) {
  const form = page.getByRole("form", { name: "Upload a revision" });
  await form.getByLabel("Name").fill(name);
  await form.getByLabel("Component").setInputFiles(file);
  await form.getByLabel("Like the route").selectOption("pair/entropy");
  await form.getByLabel("Settings").fill(settings);
  await form.getByRole("button", { name: "Upload" }).click();
}

export async function policies_are_uploaded_and_their_revisions_changed({ browser, live }) {
  const { page, close } = await visit(browser, live, { hash: "#policies" });
  const said = page.locator("#policies-said");
  const mine = () => ask(live, "/v1/policies/mine");
  const card = page.locator("article", { hasText: "own/mine" });
  const isActive = async (revision) => {
    const row = card.locator("tr", { has: page.locator(`code[title="${revision}"]`) });
    await row.locator(".badge", { hasText: "active" }).waitFor();
    assert.equal((await mine()).active, revision);
    return row;
  };
  await upload(page, "mine", component("margin"), "threshold = 0.8");
  await said.getByText("own/mine is at revision").waitFor();
  const first = (await mine()).active;
  const row = await isActive(first);
  assert.match(await row.textContent(), new RegExp(`margin.*${new Date().getFullYear()}.*KiB`));
  assert.deepEqual((await mine()).settings, { threshold: 0.8 });

  // Who is refused reads why, and nothing has changed.
  const noComponent = { name: "no.wasm", mimeType: "application/wasm", buffer: Buffer.from("no component") };
  await upload(page, "mine", noComponent, "");
  await page.locator("#policies-said.error", { hasText: "component" }).waitFor();
  await upload(page, "mine", component("entropy"), "treshold = 0.5");
  await page.locator("#policies-said.error", { hasText: "treshold" }).waitFor();
  await isActive(first);

  await upload(page, "mine", component("entropy"), "threshold = 0.5");
  await said.getByText("own/mine is at revision").waitFor();
  const second = (await mine()).active;
  assert.notEqual(second, first);
  await isActive(second);
  await page.getByRole("button", { name: `Activate ${first} of mine` }).click();
  await said.getByText("mine: another revision is active.").waitFor();
  await isActive(first);
  await card.getByRole("button", { name: "Roll back" }).click();
  await said.getByText("mine: rolled back.").waitFor();
  await isActive(second);

  // It is a model like any other, and both models answer.
  await page.getByRole("tab", { name: "Playground" }).click();
  await page.getByLabel("Model or route").selectOption("own/mine");
  await stream(page);
  assert.ok((await answer(page)).length > 10);
  assert.match(await page.locator("#legend").textContent(), /small.*large/);

  await page.getByRole("tab", { name: "Policies" }).click();
  await card.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await said.getByText("mine: deleted.").waitFor();
  assert.equal(await mine(), null);
  assert.equal(await card.count(), 0);
  await close();
}

const QUESTION = "Mia has 31 shells. She finds 24 more shells. How many shells does Mia have now?";

/// The arms that users have got, by how often. Each asks once.
async function traffic(live, users) {
  const served = {};
  const one = async (user) => {
    const response = await fetch(`${live}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: "pair/entropy",
        user: `user ${user}`,
        messages: [{ role: "user", content: QUESTION }],
        max_tokens: 24,
        temperature: 1,
        seed: user,
      }),
    });
    assert.equal(response.status, 200);
    await response.arrayBuffer();
    const arm = response.headers.get("x-tokenrouter-arm");
    served[arm] = (served[arm] ?? 0) + 1;
  };
  const line = Array.from({ length: users }, (_, user) => user);
  const client = async () => {
    while (line.length) await one(line.pop());
  };
  await Promise.all(Array.from({ length: 8 }, client));
  return served;
}

/// The treatment hands nothing over, so that the difference is real and large.
const EXPERIMENT = {
  route: "pair/entropy",
  seed: "a seed for a browser",
  arms: [
    { name: "control", weight_bp: 8000, settings: { threshold: 0.05 } },
    { name: "cheap", weight_bp: 2000, settings: { threshold: 20 } },
  ],
  evidence: { metrics: ["elsewhere", "errors"], answers_min: 20, horizon: 100 },
};

async function begin(browser, live, sticky) {
  await ask(live, "/admin/experiments/live", "PUT", { ...EXPERIMENT, sticky });
  const { page, close } = await visit(browser, live, { hash: "#experiments" });
  const card = page.getByRole("article", { name: "Experiment live" });
  await card.waitFor();
  const lever = async (name, reason) => {
    await card.getByRole("button", { name }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill(reason);
    await dialog.getByRole("button", { name }).click();
    await card.getByText(`Reason: ${reason}`).waitFor();
  };
  /// Draws the page anew with what the server has now.
  const again = async () => {
    await page.getByRole("tab", { name: "Playground" }).click();
    await page.getByRole("tab", { name: "Experiments" }).click();
    await card.waitFor();
  };
  return { page, card, lever, again, close, told: () => ask(live, "/admin/experiments/live") };
}

/// Answers are counted when they are over, a moment after their last byte.
async function counted({ told, again }, answers) {
  const until = Date.now() + 10_000;
  const sum = async () => (await told()).arms.reduce((all, arm) => all + arm.answers, 0);
  while ((await sum()) < answers) assert.ok(Date.now() < until, `of ${answers} answers ${await sum()} are counted`);
  await again();
}

export async function an_experiment_runs_on_real_traffic_and_its_better_arm_is_promoted({ browser, live }) {
  const seen = await begin(browser, live, "user");
  const { page, card, lever, told, close } = seen;
  const before = await traffic(live, 300);
  assert.deepEqual(Object.keys(before).sort(), ["live/cheap", "live/control"]);
  await counted(seen, 300);
  const { arms, readout } = await told();
  const rows = card.getByRole("region", { name: "Arms" }).locator("tbody tr");
  for (const [ix, arm] of arms.entries()) {
    assert.equal(arm.answers, before[`live/${arm.name}`]);
    const row = await rows.nth(ix).textContent();
    assert.match(row, new RegExp(`^${arm.name}.*threshold ${arm.settings.threshold} .*small `));
  }
  const effects = card.getByRole("region", { name: "Effects" }).locator("tbody tr");
  const verdicts = readout.map(({ verdict }) => verdict);
  assert.deepEqual(await effects.locator(".badge").allTextContents(), verdicts);
  const elsewhere = readout.find(({ metric }) => metric === "elsewhere");
  assert.equal(elsewhere.verdict, "better", "no token of the treatment is from elsewhere");
  assert.ok(elsewhere.low < elsewhere.effect && elsewhere.effect < elsewhere.high && elsewhere.high < 0);
  const drawn = effects.filter({ hasText: "elsewhere" });
  const ends = await drawn.locator("svg").evaluate((svg) => {
    const at = (of, name) => Number(svg.querySelector(of).getAttribute(name));
    return [at(".range", "x1"), at("circle", "cx"), at(".range", "x2"), at(".zero", "x1")];
  });
  assert.deepEqual(
    ends,
    [...ends].sort((a, b) => a - b),
    "low, effect, high and 0 from left to right",
  );

  // A weight moves, and with it only users of the control.
  const form = page.getByRole("form", { name: "Weights of live" });
  await form.getByLabel("cheap", { exact: true }).fill("60");
  assert.equal(await form.locator("output").textContent(), "40 %");
  await form.getByRole("button", { name: "Apply weights" }).click();
  await page.getByText("a new phase has begun").waitFor();
  assert.deepEqual(
    (await told()).arms.map(({ weight_bp }) => weight_bp),
    [4000, 6000],
  );
  assert.match(await card.locator("h2").textContent(), /phase 2/);
  const after = await traffic(live, 300);
  assert.ok(after["live/cheap"] > before["live/cheap"]);

  await lever("Pause", "it is Friday");
  assert.equal((await told()).state, "paused");
  await card.getByRole("button", { name: "Resume" }).click();
  await page.getByText("keys have their arms back").waitFor();
  assert.deepEqual(await traffic(live, 300), after, "everybody has the arm of before");
  await lever("Promote cheap", "as good, and cheaper");
  await card.locator(".badge", { hasText: "promoted" }).waitFor();
  assert.deepEqual([(await told()).state, (await told()).promoted], ["promoted", "cheap"]);
  // What has ended has no levers.
  assert.equal(await card.getByRole("button", { name: /Promote|Roll back|Apply|Pause/ }).count(), 0);
  await page.getByRole("tab", { name: "Playground" }).click();
  await ready(page);
  await page.getByLabel("Model or route").selectOption("pair/entropy");
  await stream(page);
  assert.equal(await page.locator(".token.other").count(), 0, "the promoted arm hands nothing over");
  await close();
}

export async function an_answer_is_judged_and_an_experiment_rolled_back({ browser, live }) {
  // Whatever the case before has left on the route has ended, and this begins anew.
  await ask(live, "/admin/experiments/live", "DELETE");
  // The page names no user, so that each of its answers is on its own.
  const { page, card, lever, again, told, close } = await begin(browser, live, "request");
  await page.getByRole("tab", { name: "Playground" }).click();
  await ready(page);
  await page.getByLabel("Model or route").selectOption("pair/entropy");
  assert.equal(await page.locator("#feedback").isVisible(), false);
  await stream(page);
  await page.getByRole("button", { name: "Good answer" }).click();
  await page.getByText("Noted.").waitFor();
  const scores = (await told()).arms.map(({ score }) => score);
  assert.deepEqual(scores.map(({ count }) => count).sort(), [0, 1]);
  assert.equal(scores.find(({ count }) => count === 1).mean, 1);
  await again();
  await lever("Roll back", "enough seen");
  await card.locator(".badge", { hasText: "rolled back" }).waitFor();
  assert.deepEqual([(await told()).state, (await told()).reason], ["rolled back", "enough seen"]);
  await ask(live, "/admin/experiments/live", "DELETE");
  await close();
}

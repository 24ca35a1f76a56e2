// Experiments: what each arm did, which differences are real, and the levers.
//
// Weights are in basis points. Treatments have sliders and the control takes what they leave, so a sum is never wrong.

import { byId, confirm, el, number, percent, table } from "./dom.js";
import { get, send } from "./api.js";
import { interval, shares } from "./charts.js";
import { colourOf, models } from "./models.js";

const WHOLE = 10_000;
const EVERY_MS = 5000;
const LIVE = ["running", "paused"];

let timer = null;

export function shown(is) {
  clearInterval(timer);
  timer = null;
  if (!is) return;
  refresh();
  timer = setInterval(() => document.hidden || isInUse() || refresh(), EVERY_MS);
}

/// Somebody is about to do something; drawing anew would take it out of their hands.
const isInUse = () =>
  byId("panel-experiments").contains(document.activeElement) ||
  byId("dialog").open ||
  byId("panel-experiments").querySelector("[data-moved]");

async function refresh(said) {
  const root = byId("panel-experiments");
  try {
    await models().catch(() => {});
    const { experiments } = await get("admin/experiments");
    const none =
      experiments.length === 0 &&
      el(
        "p",
        { class: "note" },
        "No experiment yet. One is described in the configuration, or made with ",
        el("code", {}, "PUT /admin/experiments/NAME"),
        ".",
      );
    root.replaceChildren(
      ...[
        none,
        ...experiments.map(experiment),
        el("p", { id: "experiments-said", role: "status", class: "quiet" }, said ?? ""),
      ].filter(Boolean),
    );
  } catch (error) {
    const text = error.status === 404 ? "This server shows no experiments for this key." : error.message;
    root.replaceChildren(el("p", { class: "note", role: "status" }, text));
  }
}

function experiment(data) {
  const kind = { running: "good", promoted: "good", paused: "warn", "rolled back": "bad" }[data.state] ?? "";
  const alarm =
    data.sample_ratio?.alarm &&
    el(
      "p",
      { class: "alarm", role: "alert" },
      "Sample ratio alarm: the arms do not get the requests that their weights say, so no comparison can be trusted.",
    );
  return el(
    "article",
    { class: "card", "aria-label": `Experiment ${data.name}` },
    el(
      "h2",
      {},
      data.name,
      " ",
      el("span", { class: `badge ${kind}` }, data.state),
      el(
        "span",
        { class: "quiet" },
        ` on ${data.route} · phase ${data.phase} · sticky by ${plain(data.sticky)} · from ${data.source}`,
      ),
    ),
    data.reason && el("p", { class: "reason" }, `Reason: ${data.reason}`),
    alarm,
    weights(data),
    arms(data),
    effects(data),
    shadows(data),
    guardrails(data),
    levers(data),
  );
}

/// A value that is a word, or an object with one key.
const plain = (value) =>
  value && typeof value === "object" ? Object.entries(value).flat().map(plain).join(" ") : String(value);

function weights(data) {
  const [control, ...treatments] = data.arms;
  const sum = el("output", {}, "");
  const apply = el("button", { class: "primary", disabled: true }, "Apply weights");
  const node = el("form", { class: "weights", "aria-label": `Weights of ${data.name}` });
  const rows = treatments.map((arm) => weight(data, arm, changed));
  const values = () => rows.map(({ input }) => Math.round(Number(input.value) * 100));
  function changed() {
    const rest = WHOLE - values().reduce((all, bp) => all + bp, 0);
    sum.textContent = `${rest / 100} %`;
    sum.classList.toggle("error", rest < 0);
    const moved = treatments.some((arm, ix) => arm.weight_bp !== values()[ix]);
    node.toggleAttribute("data-moved", moved);
    apply.disabled = !moved || rest < 0;
  }
  node.append(
    el("div", { class: "weight" }, el("b", {}, control.name), el("span", { class: "quiet" }, "takes the rest"), sum),
    ...rows.map(({ node }) => node),
  );
  if (LIVE.includes(data.state)) node.append(apply);
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    const weights_bp = Object.fromEntries(treatments.map((arm, ix) => [arm.name, values()[ix]]));
    node.removeAttribute("data-moved");
    act(data, "weights", { weights_bp }, "a new phase has begun");
  });
  changed();
  return node;
}

function weight(data, arm, changed) {
  const most = (arm.ceiling_bp ?? WHOLE) / 100;
  const id = `weight-${data.name}-${arm.name}`;
  const shared = { min: 0, max: most, value: arm.weight_bp / 100, disabled: !LIVE.includes(data.state) };
  const input = el("input", { id, type: "number", step: 0.01, required: true, ...shared });
  const slider = el("input", { type: "range", step: 0.5, "aria-label": `${arm.name}, slider`, ...shared });
  input.addEventListener("input", () => {
    slider.value = input.value;
    changed();
  });
  slider.addEventListener("input", () => {
    input.value = slider.value;
    changed();
  });
  const node = el(
    "div",
    { class: "weight" },
    el("label", { for: id }, el("b", {}, arm.name)),
    slider,
    el("span", {}, input, " %"),
  );
  return { node, input };
}

/// The share of each of an arm's models, in the order of their roles.
function parts({ share = {}, models }) {
  const order = models ?? Object.keys(share);
  return order
    .filter((model) => share[model] != null)
    .map((model) => ({ model, colour: colourOf(model), part: share[model] }));
}

function inWords(arm) {
  return (
    parts(arm)
      .map(({ model, part }) => `${model} ${percent(part)}`)
      .join(", ") || "–"
  );
}

function arms(data) {
  const ms = (times, key) => (times?.[key] == null ? "–" : `${number(1000 * times[key])} ms`);
  const settings = ({ settings }) =>
    Object.entries(settings ?? {})
      .map(([key, value]) => `${key} ${number(value)}`)
      .join(", ");
  const row = (arm) => [
    el("b", {}, arm.name),
    el(
      "span",
      {},
      arm.policy ?? "–",
      el("p", { class: "quiet" }, settings(arm), " ", el("code", {}, (arm.revision ?? "").slice(0, 12))),
    ),
    number(arm.answers),
    number(arm.errors),
    number(arm.fallbacks),
    el(
      "span",
      {},
      shares(parts(arm)),
      el("p", { class: "quiet" }, inWords(arm)),
    ),
    number(arm.tokens_per_s),
    `${ms(arm.ttft_s, "p50")} / ${ms(arm.ttft_s, "p99")}`,
    `${ms(arm.gap_s, "p50")} / ${ms(arm.gap_s, "p99")}`,
    number(arm.cost),
    arm.score?.count ? `${number(arm.score.mean)} (${number(arm.score.count)})` : "–",
  ];
  const head = [
    "arm",
    "policy",
    "answers",
    "errors",
    "fallbacks",
    "share of tokens",
    "tokens/s",
    "first token p50 / p99",
    "gap p50 / p99",
    "cost",
    "score",
  ];
  return table(`Arms of ${data.name}`, head, data.arms.map(row));
}

function effects(data) {
  const all = data.readout ?? [];
  if (!all.length) return el("p", { class: "quiet" }, "No comparison yet.");
  const scale = (one) => 1.15 * Math.max(...[one.low, one.high, one.effect].map((value) => Math.abs(value ?? 0)), 1e-9);
  const kind = (verdict) => ({ better: "good", worse: "bad" })[verdict] ?? "";
  const rows = all.map((one) => [
    el("span", {}, el("b", {}, one.metric), el("p", { class: "quiet" }, one.unit ?? "")),
    one.arm,
    el("span", { class: `badge ${kind(one.verdict)}` }, one.verdict),
    interval(one, scale(one)),
    (one.effect > 0 ? "+" : "") + number(one.effect),
    one.low == null && one.high == null ? "anywhere yet" : `${number(one.low)} to ${number(one.high)}`,
    number(one.control),
    number(one.treatment),
  ]);
  const head = ["metric", "arm", "verdict", "interval around 0", "effect", "in numbers", "control", "treatment"];
  return table("Effects against the control; intervals hold however often one looks", head, rows);
}

function shadows(data) {
  if (!data.shadows?.length) return null;
  const rows = data.shadows.map((arm) => [
    arm.name,
    number(arm.answers),
    percent(arm.agreement),
    inWords(arm),
  ]);
  return table(
    "Shadows: they see copies of requests and never answer",
    ["shadow", "answers", "agreement", "share"],
    rows,
  );
}

function guardrails(data) {
  if (!data.guardrails?.length) return null;
  const words = {
    above: (value) => `at most ${number(value)}`,
    below: (value) => `at least ${number(value)}`,
    worse_by: (value) => `at most ${number(value)} worse than the control`,
  };
  const limit = ([kind, value]) => (words[kind] ?? ((value) => `${kind} ${plain(value)}`))(value);
  const item = ({ metric, of, limit: limits }) =>
    el("li", {}, `${metric}, ${of}: `, Object.entries(limits ?? {}).map(limit).join(", "));
  return el("div", {}, el("h3", {}, "Guardrails"), el("ul", {}, data.guardrails.map(item)));
}

function levers(data) {
  if (!LIVE.includes(data.state)) return null;
  const lever = (label, action, text, more = {}) =>
    el(
      "button",
      {
        type: "button",
        onclick: async () => {
          const reason = await confirm({
            title: `${data.name}: ${label.toLowerCase()}?`,
            text,
            yes: label,
            reason: true,
          });
          if (reason !== null) act(data, action, { ...more, reason }, text);
        },
      },
      `${label} …`,
    );
  const resume = el(
    "button",
    { type: "button", onclick: () => act(data, "resume", {}, "keys have their arms back") },
    "Resume",
  );
  const promote = data.arms
    .slice(1)
    .map((arm) =>
      lever(`Promote ${arm.name}`, "promote", `${arm.name} serves everybody, for good.`, { arm: arm.name }),
    );
  return el(
    "div",
    { class: "actions" },
    data.state === "paused" ? resume : lever("Pause", "pause", "The control serves everybody for a while."),
    promote,
    lever("Roll back", "rollback", "The control serves everybody, for good."),
  );
}

async function act(data, action, json, words) {
  try {
    await send("POST", `admin/experiments/${encodeURIComponent(data.name)}/${action}`, json);
    await refresh(`${data.name}: ${words}`);
  } catch (error) {
    byId("experiments-said").textContent = error.message;
    byId("experiments-said").classList.add("error");
  }
}

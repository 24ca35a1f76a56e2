// The live metrics: Prometheus' text, read every two seconds while somebody looks.

import { byId, el, number, table } from "./dom.js";
import { ask } from "./api.js";
import { sparkline } from "./charts.js";
import { colourOf, models } from "./models.js";

const EVERY_MS = 2000;
const KEPT = 30;

/// By model: what is shown, and how it follows from this scrape and the one before.
const COLUMNS = [
  ["running", (now) => now("num_requests_running")],
  ["parked", (now) => now("num_requests_parked")],
  ["KV tokens", (now) => now("kv_cache_tokens")],
  ["steps/s", (_, rate) => rate("steps_total")],
  ["journeys/step", (_, rate) => rate("step_rows_total") / rate("steps_total") || 0],
  ["tokens/s", (_, rate) => rate("generation_tokens_total")],
  ["fed/s", (_, rate) => rate("fed_tokens_total")],
  ["prefix hits/s", (_, rate) => rate("prefix_cache_hits_total")],
];
const TOTALS = [
  ["waiting", (now) => now("num_requests_waiting")],
  ["answers", (now) => now("request_success_total")],
  ["answers/s", (_, rate) => rate("request_success_total")],
  ["failed", (now) => now("request_failure_total")],
  ["clients that left", (now) => now("request_cancelled_total")],
  ["policy failures", (now) => now("policy_failures_total")],
];

let timer = null;
let before = null;
const history = new Map();

export function shown(is) {
  clearInterval(timer);
  timer = null;
  if (!is) return;
  // Whatever comes of that: without it, models have colours too.
  models()
    .catch(() => {})
    .finally(tick);
  timer = setInterval(() => document.hidden || tick(), EVERY_MS);
}

/// The samples of a page of metrics: name, labels, value.
export function parse(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const found = /^tokenrouter_(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = [...(found[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
    const plain = (value) => value.replace(/\\(.)/g, (_, escaped) => (escaped === "n" ? "\n" : escaped));
    samples.push({
      name: found[1],
      labels: Object.fromEntries(labels.map(([, key, value]) => [key, plain(value)])),
      value: Number(found[3]),
    });
  }
  return samples;
}

async function tick() {
  try {
    const samples = parse(await (await ask("metrics")).text());
    const scrape = { at: performance.now(), samples };
    draw(scrape, before ?? scrape);
    before = scrape;
  } catch (error) {
    const isHidden = error.status === 404;
    const text = isHidden ? "Metrics are for keys with the scope admin." : error.message;
    byId("panel-metrics").replaceChildren(el("p", { class: "note", role: "status" }, text));
  }
}

/// Two looking glasses on a pair of scrapes, at the samples with these labels.
function glasses(scrape, last, labels) {
  const isMeant = (sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value);
  const meant = (samples, name) => samples.filter((sample) => sample.name === name && isMeant(sample));
  const find = (samples, name) => meant(samples, name).reduce((sum, { value }) => sum + value, 0);
  const seconds = (scrape.at - last.at) / 1000;
  const now = (name) => find(scrape.samples, name);
  // A counter that fell is one of a server that began anew.
  const rate = (name) => (seconds > 0 ? Math.max(0, now(name) - find(last.samples, name)) / seconds : 0);
  return [now, rate];
}

function draw(scrape, last) {
  const names = scrape.samples.filter(({ name }) => name === "num_requests_running").map(({ labels }) => labels.model);
  const row = (model) => [
    el("b", { class: colourOf(model) }, model),
    ...COLUMNS.map(([name, of]) => cell(`${model} ${name}`, of(...glasses(scrape, last, { model })), colourOf(model))),
  ];
  const totals = TOTALS.map(([name, of]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, cell(name, of(...glasses(scrape, last, {})), "plain"))),
  );
  byId("panel-metrics").replaceChildren(
    el("dl", { class: "facts cards" }, totals),
    table("Models", ["model", ...COLUMNS.map(([name]) => name)], names.map(row)),
    handoffs(scrape, last, names),
    el(
      "p",
      { class: "quiet" },
      "Every two seconds, the last minute; the same numbers as ",
      el("code", {}, "GET /metrics"),
      ".",
    ),
  );
}

function cell(key, value, colour) {
  const values = [...(history.get(key) ?? []), value].slice(-KEPT);
  history.set(key, values);
  return el("span", { class: "measured" }, el("span", {}, number(value)), sparkline(values, colour));
}

function handoffs(scrape, last, names) {
  const rate = (source, target) => glasses(scrape, last, { source, target })[1]("handoffs_total");
  const of = (source, target) =>
    source === target ? "·" : cell(`${source}>${target}`, rate(source, target), colourOf(source));
  const rows = names.map((source) => [
    el("b", { class: colourOf(source) }, source),
    ...names.map((target) => of(source, target)),
  ]);
  return names.length > 1 && table("Handoffs per second, from each model to each", ["from \\ to", ...names], rows);
}

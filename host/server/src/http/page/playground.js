// The playground: a request, its answer as it comes, and what it took.

import { byId, el, number, percent } from "./dom.js";
import { ask, events, key, send } from "./api.js";
import { entropies } from "./charts.js";
import { colourOf, models } from "./models.js";
import { Knobs } from "./knobs.js";
import { Tokens } from "./tokens.js";

const EXAMPLE =
  "Mia has 31 shells. She finds 24 more shells. A magic box makes them 3 times as many. " +
  "How many shells does Mia have now?";

let listed = [];
let running = null;
let answerId = null;
let tokens, knobs;

export function start() {
  tokens = new Tokens(byId("tokens"), colourOf);
  knobs = new Knobs(byId("knobs"), showCurl);
  byId("prompt").value = EXAMPLE;
  byId("model").addEventListener("change", chosen);
  byId("ask").addEventListener("input", showCurl);
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    stream();
  });
  byId("ask").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
  });
  byId("stop").addEventListener("click", () => running?.abort());
  for (const button of byId("feedback").querySelectorAll("button")) {
    button.addEventListener("click", () => judge(Number(button.dataset.score)));
  }
}

export async function shown(is) {
  if (!is) return;
  try {
    const now = await models();
    if (listed === now) return;
    listed = now;
  } catch (error) {
    say(error.message, true);
    return;
  }
  const option = ({ id }) => el("option", { value: id }, id);
  const group = (label, list) => el("optgroup", { label }, list.map(option));
  const isRoute = (model) => model.route.policy !== null;
  const routes = listed.filter(isRoute);
  const before = byId("model").value;
  byId("model").replaceChildren(
    ...[
      routes.length && group("Routes", routes),
      group(
        "Models alone",
        listed.filter((model) => !isRoute(model)),
      ),
    ].filter(Boolean),
  );
  if (listed.some(({ id }) => id === before)) byId("model").value = before;
  say("");
  chosen();
}

const current = () => listed.find(({ id }) => id === byId("model").value);

function chosen() {
  const model = current();
  if (!model) return;
  const { policy, models: names } = model.route;
  byId("model-about").textContent = policy
    ? `${policy.doc} ${names.join(" → ")}, revision ${policy.revision}`
    : `One model makes the whole answer; ${number(model.route.weights[0])} weights.`;
  knobs.show(policy?.parameters ?? []);
  showCurl();
}

/// The request, as text: a seed has 64 bits, more than a number holds here.
function body() {
  const system = byId("system").value;
  const [temperature, most, seed] = ["temperature", "max-tokens", "seed"].map((id) => byId(id).value);
  const request = {
    model: knobs.model(byId("model").value),
    messages: [
      ...(system ? [{ role: "system", content: system }] : []),
      { role: "user", content: byId("prompt").value },
    ],
    ...(temperature !== "" && { temperature: Number(temperature) }),
    ...(most !== "" && { max_tokens: Number(most) }),
    ...(seed !== "" && { seed }),
    stream: true,
    route_trace: true,
  };
  // Within a prompt the quotes would be escaped, so this is the field.
  return JSON.stringify(request).replace(/"seed":"(-?\d+)"/, '"seed":$1');
}

/// For a shell: within single quotes only they themselves mean something.
function showCurl() {
  const quoted = body().replaceAll("'", "'\\''");
  const url = new URL("v1/chat/completions", document.baseURI);
  const bearer = key() ? `  -H "authorization: Bearer $KEY" \\\n` : "";
  byId("curl").textContent = `curl ${url} \\\n${bearer}  -H 'content-type: application/json' \\\n  -d '${quoted}'`;
}

async function stream() {
  running?.abort();
  const mine = (running = new AbortController());
  const run = begin();
  try {
    const response = await ask("v1/chat/completions", { method: "POST", json: body(), signal: mine.signal });
    for await (const chunk of events(response)) {
      // What had come before the stop is left where it is.
      if (mine.signal.aborted) break;
      take(run, chunk);
    }
  } catch (error) {
    if (error.name !== "AbortError") run.error = error.message;
  }
  // Another answer may have begun since.
  if (running !== mine) return;
  running = null;
  finish(run, mine.signal.aborted);
}

function begin() {
  const { route } = current() ?? { route: { models: [], weights: [], policy: null } };
  const weights = Object.fromEntries(route.models.map((name, ix) => [name, route.weights[ix]]));
  tokens.clear({ weights, entry: route.models[0], policy: route.policy?.name ?? null });
  answerId = null;
  byId("stop").disabled = false;
  byId("tokens").setAttribute("aria-busy", "true");
  for (const id of ["feedback", "entropy"]) byId(id).hidden = true;
  byId("facts").replaceChildren();
  byId("legend").replaceChildren();
  say("Waiting for the first token …");
  return { sent: performance.now(), first: null, last: null, names: route.models, arm: null, settings: {}, drawn: 0 };
}

function take(run, chunk) {
  const now = performance.now();
  answerId ??= chunk.id;
  run.reason = chunk.choices[0]?.finish_reason ?? run.reason;
  const trace = chunk.route_trace;
  if (!trace) return;
  Object.assign(run, { settings: trace.settings ?? {}, seed: trace.seed, fell: trace.fell_back });
  if (trace.arm) run.arm = `${trace.experiment}/${trace.arm}`;
  if (trace.tokens.length === 0) return;
  if (run.first === null) say("Streaming …");
  run.first ??= now;
  run.last = now;
  for (const token of trace.tokens) tokens.add(token, now - run.sent);
  // Drawing the sums at every token would take longer than the tokens do.
  if (now - run.drawn < 100) return;
  run.drawn = now;
  sum(run);
}

function finish(run, wasStopped) {
  const count = `${tokens.told.length} tokens`;
  const end = run.reason === "length" ? "cut at the most tokens" : "the answer ended";
  say(run.error ?? (wasStopped ? `Stopped after ${count}.` : `Done: ${count}, ${end}.`), run.error !== undefined);
  byId("stop").disabled = true;
  byId("tokens").removeAttribute("aria-busy");
  sum(run);
  const isAnswer = tokens.told.length > 0;
  byId("feedback").hidden = !isAnswer;
  byId("thanks").textContent = "";
  byId("entropy").hidden = !isAnswer;
  if (!isAnswer) return;
  const guard = tokens.told.find((token) => token.proposal?.why?.signal === "entropy")?.proposal.why;
  byId("entropy").replaceChildren(
    byId("entropy").firstElementChild,
    el("div", { class: "scroll", tabindex: "0" }, entropies(tokens.told, colourOf, guard?.above)),
  );
}

/// The legend and the numbers of an answer.
function sum(run) {
  const all = tokens.told;
  const count = (name) => all.filter(({ model }) => model === name).length;
  byId("legend").replaceChildren(
    ...run.names.map((name) =>
      el(
        "li",
        { class: colourOf(name) },
        el("b", {}, name),
        ` ${count(name)} · ${percent(all.length ? count(name) / all.length : 0)}`,
      ),
    ),
  );
  if (!all.length) return;
  const seconds = (run.last - run.first) / 1000;
  const read = all.reduce((sum, token) => sum + tokens.cost(token), 0) / all.length;
  const largest = Math.max(...Object.values(tokens.route.weights));
  const facts = [
    ["first token", `${number(run.first - run.sent)} ms`],
    ["speed", seconds > 0 ? `${number((all.length - 1) / seconds)} tokens/s` : "–"],
    ["weights read per token", `${number(read)}, ${percent(read / largest)} of the largest model`],
    ["seed", String(run.seed ?? "–")],
    run.arm && ["experiment", run.arm],
    run.fell && ["fell back", run.fell],
  ];
  byId("facts").replaceChildren(
    ...facts.filter(Boolean).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

async function judge(score) {
  try {
    await send("POST", "v1/feedback", { id: answerId, score });
    byId("thanks").textContent = "Noted.";
  } catch (error) {
    byId("thanks").textContent = error.message;
  }
}

function say(text, isError = false) {
  byId("said").textContent = text;
  byId("said").classList.toggle("error", isError);
}

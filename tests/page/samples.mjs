// What the server tells of experiments, uploaded policies and answers, in states that a test cannot bring about quickly: an
// experiment that is promoted, an alarm, a character that two tokens share.

const arm = (name, weight_bp, more = {}) => ({
  name,
  weight_bp,
  ceiling_bp: name === "control" ? null : 5000,
  models: ["small", "large"],
  policy: "entropy",
  revision: "4dd0ce1a7a60",
  settings: { threshold: name === "control" ? 0.4 : 0.8 },
  answers: 5120,
  errors: 3,
  fallbacks: 0,
  share: { small: 0.95, large: 0.05 },
  tokens_per_s: 812.4,
  ttft_s: { p50: 0.0081, p99: 0.031 },
  gap_s: { p50: 0.0012, p99: 0.0049 },
  cost: 0.00042,
  finish: { stop: 5100, length: 17 },
  score: { mean: 0.91, count: 740 },
  ...more,
});

const effect = (metric, verdict, effect, low, high, unit = "") => ({
  metric,
  arm: "bolder",
  control: 0.0412,
  treatment: 0.0412 + effect,
  effect,
  low,
  high,
  verdict,
  unit,
});

export const experiment = (more = {}) => ({
  name: "threshold",
  route: "pair/entropy",
  state: "running",
  reason: null,
  phase: 2,
  sticky: { header: "x-session" },
  source: "api",
  arms: [arm("control", 8000), arm("bolder", 2000, { share: { small: 0.985, large: 0.015 }, answers: 1270 })],
  shadows: [{ name: "margin", answers: 310, agreement: 0.982, share: { small: 0.96, large: 0.04 } }],
  readout: [
    effect("cost", "better", -0.00011, -0.00016, -0.00006),
    effect("errors", "undecided", 0.001, -0.004, 0.006),
    effect("ttft_s", "worse", 0.002, 0.0011, 0.0029, "s"),
    effect("quality", "no difference shown", 0.0, null, null),
  ],
  sample_ratio: { alarm: false, p_or_e: 0.71 },
  guardrails: [{ metric: "errors", of: "mean", limit: { worse_by: 0.02 } }],
  ...more,
});

export const upload = (active) => ({
  name: "mine",
  model: "own/mine",
  owner: "acme",
  route: "pair/entropy",
  settings: {},
  active,
  revisions: ["bbbbbbbbbbbbbbbb", "aaaaaaaaaaaaaaaa"].map((revision, ix) => ({
    revision,
    uploaded_at: 1790000000000 - ix,
    uploaded_by: "1d30f00281dc6ac1",
    bytes: 48_000,
    policy: "mine",
    doc: "Hands off at <b>bold</b> moments.",
    active: revision === active,
  })),
});

/// A stream of an answer whose tokens have these texts, the second from the large model.
export function events(texts) {
  const chunk = (text, ix) => ({
    id: "chatcmpl-0000000000000001",
    choices: [{ index: 0, delta: { content: text }, finish_reason: null }],
    route_trace: {
      route: "pair/entropy",
      policy: "entropy",
      revision: "4dd0ce1a7a60",
      settings: { threshold: 0.4 },
      seed: 5,
      fell_back: null,
      experiment: "threshold",
      arm: "bolder",
      tokens: [
        {
          token: ix,
          text,
          model: ix === 1 ? "large" : "small",
          entropy: 0.1,
          top1: 0.9,
          margin: 0.8,
          logprob: -0.1,
          proposal:
            ix === 1
              ? { model: "small", token: 9, text: "<i>x</i>", entropy: 1.2, top1: 0.4, margin: 0.1, why: null }
              : null,
        },
      ],
    },
  });
  return [...texts.map(chunk).map(JSON.stringify), "[DONE]"].map((data) => `data: ${data}\n\n`).join("");
}

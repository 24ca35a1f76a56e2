// Small drawings: sparklines, entropies, intervals. Colours are classes, so that they follow light and dark.

import { el, number, svg } from "./dom.js";

/// The last values of one number, the newest at the right. Its scale begins at 0.
export function sparkline(values, colour) {
  const [width, height, slots] = [80, 18, 30];
  const most = Math.max(...values, 1e-9);
  const x = (ix) => width - ((values.length - 1 - ix) * width) / (slots - 1);
  const y = (value) => height - 1 - (value / most) * (height - 3);
  const points = values.map((value, ix) => `${x(ix).toFixed(1)},${y(value).toFixed(1)}`);
  return svg(
    "svg",
    { class: `spark ${colour}`, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    svg("line", { class: "floor", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
    svg("polyline", { points: points.join(" ") }),
  );
}

/// One bar per token, as high as the entropy at its position; where a token was dropped, the dropped one's, hollow. A line
/// is drawn at `limit`, the entropy from which on the policy is asked.
export function entropies(tokens, colours, limit) {
  const [bar, gap, height] = [5, 1, 44];
  const at = (token) => token.proposal?.entropy ?? token.entropy;
  const most = Math.max(...tokens.map(at), limit ?? 0, 0.5);
  const width = Math.max(tokens.length * (bar + gap), 120);
  const y = (value) => height - (Math.max(value, 0) / most) * (height - 4);
  const bars = tokens.map((token, ix) =>
    svg("rect", {
      class: `${colours(token.model)}${token.proposal ? " hollow" : ""}`,
      x: ix * (bar + gap) + 0.5,
      width: bar - 1,
      y: y(at(token)),
      height: Math.max(height - y(at(token)), 0.8),
    }),
  );
  const line = limit != null && svg("line", { class: "limit", x1: 0, x2: width, y1: y(limit), y2: y(limit) });
  const label = `Entropies of ${tokens.length} tokens, at most ${number(most)}`;
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, bars, line);
}

/// Where a difference lies: a line from `low` to `high`, a point at the estimate, 0 in the middle. An end that is not known
/// runs out of the picture.
export function interval({ low, high, effect, verdict }, scale) {
  const [width, height] = [220, 18];
  const x = (value) => width / 2 + (Math.max(-1, Math.min(1, value / scale)) * (width - 8)) / 2;
  const ends = { x1: low == null ? 0 : x(low), x2: high == null ? width : x(high), y1: height / 2, y2: height / 2 };
  const kind = { better: "good", worse: "bad" }[verdict] ?? "open";
  return svg(
    "svg",
    { class: `interval ${kind}`, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    svg("line", { class: "zero", x1: width / 2, x2: width / 2, y1: 0, y2: height }),
    svg("line", { class: "range", ...ends }),
    effect != null && svg("circle", { cx: x(effect), cy: height / 2, r: 4 }),
  );
}

/// Which part of an answer each model made.
export function shares(parts) {
  const bar = el("span", { class: "shares", "aria-hidden": "true" });
  for (const { colour, part } of parts) {
    const piece = el("i", { class: colour });
    piece.style.width = `${100 * part}%`;
    bar.append(piece);
  }
  return bar;
}

// An answer as tokens: each in the colour of the model that made it, with what is known of it beside the pointer or the
// focus.
//
// The list is one stop of the Tab key; arrow keys move within. The texts, joined, are the answer: a token that only begins a
// character has none, and the one that completes it has it whole.

import { byId, el, number } from "./dom.js";

export class Tokens {
  /// `colours` gives the class of a model's colour.
  constructor(root, colours) {
    this.root = root;
    this.colours = colours;
    this.clear({ weights: {}, entry: null, policy: null });
    root.addEventListener("pointerover", (event) => this.tell(event.target));
    root.addEventListener("pointerleave", () => this.hush());
    root.addEventListener("focusin", (event) => this.tell(event.target));
    root.addEventListener("focusout", () => this.hush());
    root.addEventListener("keydown", (event) => this.move(event));
    addEventListener("scroll", () => this.hush(), { passive: true });
  }

  /// Begins an answer: weights by model, the entry model, and the policy's name if there is one.
  clear(route) {
    this.route = route;
    this.told = [];
    this.root.replaceChildren();
    this.hush();
  }

  /// A token of the trace, that came so many milliseconds after the request was sent.
  add(token, ms) {
    const ix = this.told.push({ ...token, ms }) - 1;
    const part = token.text === "" ? " part" : "";
    const other = token.model === this.route.entry ? "" : " other";
    const node = el(
      "span",
      {
        role: "option",
        class: `token ${this.colours(token.model)}${other}${part}`,
        tabindex: ix === 0 ? 0 : -1,
        "aria-selected": ix === 0,
        "data-ix": ix,
      },
      token.text,
    );
    this.root.append(node);
  }

  move(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, Home: -Infinity, End: Infinity };
    if (event.key === "Escape") this.hush();
    if (!(event.key in steps) || !event.target.dataset.ix) return;
    event.preventDefault();
    const from = Number(event.target.dataset.ix);
    const to = Math.max(0, Math.min(this.told.length - 1, from + steps[event.key]));
    this.select(event.target, false);
    const next = this.root.children[to];
    this.select(next, true);
    next.focus();
  }

  select(node, is) {
    node.tabIndex = is ? 0 : -1;
    node.setAttribute("aria-selected", is);
  }

  hush() {
    byId("tip").hidden = true;
    this.root.querySelector("[aria-describedby]")?.removeAttribute("aria-describedby");
  }

  tell(node) {
    this.hush();
    const token = this.told[node.dataset?.ix];
    if (!token) return;
    const tip = byId("tip");
    const row = ([name, value]) => [el("dt", {}, name), el("dd", {}, value)];
    tip.replaceChildren(
      el("strong", { class: this.colours(token.model) }, token.model),
      el("code", {}, token.text === "" ? "(no text yet)" : JSON.stringify(token.text)),
      el("dl", {}, this.facts(token).flatMap(row)),
    );
    node.setAttribute("aria-describedby", "tip");
    tip.hidden = false;
    // Of a token that is broken over two lines, the first part.
    const box = node.getClientRects()[0] ?? node.getBoundingClientRect();
    const below = box.bottom + 8 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${below ? box.bottom + 8 : Math.max(8, box.top - 8 - tip.offsetHeight)}px`;
  }

  facts(token) {
    const { proposal } = token;
    const dropped =
      proposal &&
      `${JSON.stringify(proposal.text)} of ${proposal.model}, ` +
        `entropy ${number(proposal.entropy)}, margin ${number(proposal.margin)}`;
    const facts = [
      ["why", this.why(token)],
      proposal && ["replaced", dropped],
      ["entropy", `${number(token.entropy)} nats`],
      ["margin", number(token.margin)],
      ["probability", number(Math.exp(token.logprob))],
      ["cost", this.price(token)],
      ["came", `after ${number(token.ms)} ms`],
    ];
    return facts.filter(Boolean);
  }

  why({ model, proposal }) {
    const { entry, policy } = this.route;
    if (proposal) return guard(proposal) ?? `${policy} handed it over; it is asked about every token`;
    if (policy === null) return "one model makes every token";
    return model === entry ? `${policy} let it stand` : `the answer was at ${model}`;
  }

  /// Weights that were read for a token: its model's, and those of the model whose token it replaced.
  cost({ model, proposal }) {
    const { weights } = this.route;
    return (weights[model] ?? 0) + (proposal ? (weights[proposal.model] ?? 0) : 0);
  }

  price(token) {
    const entry = this.route.weights[this.route.entry];
    const times = entry && this.cost(token) / entry;
    return `${number(this.cost(token))} weights read${times > 1 ? `, ${number(times)} × ${this.route.entry}` : ""}`;
  }
}

/// The guard that fired at a token that was dropped, in words.
function guard({ model, why }) {
  if (!why) return null;
  if (why.signal) {
    const limit = why.above ?? why.below;
    return `${why.signal} ${number(why.value)} of ${model} is ${why.above == null ? "below" : "above"} ${number(limit)}`;
  }
  if (why.at) return `${model}'s token is at the ${why.at} of the answer`;
  return `${model}'s token ${why.text == null ? "follows" : "completes"} ${JSON.stringify(why.text ?? why.after_text)}`;
}

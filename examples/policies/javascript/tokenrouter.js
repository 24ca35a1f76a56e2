// What a policy in JavaScript needs, without the boilerplate of a component.
//
// A policy is a subclass of `Policy`: its static `manifest` says what it is and needs, an object of it is one journey.
// The module ends with `export const policy = component(TheClass);`. The values that come and go are those of
// `wit/types.wit` in camel case: records are objects, variants are `{ tag, val }`. The short ways here cover what most
// policies say. What a call is about beyond its numbers (candidates, the end of the answer, answers to questions, offered
// tokens) is there for the asking: `view.candidates()`.
//
// Top-level code runs when the component is built, not when it is loaded. There is no clock, no file and no network;
// random numbers come from `uniform`.
import { log, uniform } from "tokenrouter:policy/host@0.1.0";
import * as view from "tokenrouter:policy/view@0.1.0";

export { log, uniform, view };

export const STAY = { tag: "stay" };
export const FINISH = { tag: "finish" };

/** To the model `to`: for that many tokens and then back, or with 0 to stay there. */
export function handOff(to, tokens = 0, until = []) {
  return { tag: "hand-off", val: { to, tokens, until } };
}

/** A parameter: any number from `least` to `most`. */
export function number(key, initial, least, most, doc) {
  return { key, default: initial, least, most, whole: false, doc };
}

/** A parameter: a whole number from `least` to `most`. */
export function count(key, initial, least, most, doc) {
  return { key, default: initial, least, most, whole: true, doc };
}

/** A guard: `route` is asked about the role's tokens whose signal is above a parameter. */
export function above(role, signal, parameter) {
  return { role, fires: { tag: "above", val: { signal, parameter } } };
}

/** A guard: `route` is asked about the role's tokens whose signal is below a parameter. */
export function below(role, signal, parameter) {
  return { role, fires: { tag: "below", val: { signal, parameter } } };
}

/** A guard: `route` is asked about the role's tokens that complete a text. */
export function text(role, words) {
  return { role, fires: { tag: "text", val: words } };
}

/** A guard: `route` is asked about the role's first token after a text, and the first of the answer. */
export function afterText(role, words) {
  return { role, fires: { tag: "after-text", val: words } };
}

/** A guard: `route` is asked about the first token of the answer, if the role makes it. */
export function atStart(role) {
  return { role, fires: { tag: "start" } };
}

/** A guard: `route` is asked about the role's token that ends the answer. */
export function atEnd(role) {
  return { role, fires: { tag: "end" } };
}

/** One journey. */
export class Policy {
  /** What the policy is and needs: see `wit/manifest.wit`. What is left out has the values of `DEFAULTS`. */
  static manifest = {};

  /** A journey begins; `settings` has a number for each parameter. */
  start(start, settings) {}

  /** The role at which it begins; asked only if the policy `enters`. */
  enter() {
    return 0;
  }

  /** Where the journey goes after this step; its token is held, not yet part of the answer. */
  route(step) {
    return STAY;
  }

  /** Whether the held token is committed before leaving; asked only if the policy `sends`. */
  send(handoff) {
    return false;
  }

  /** How many of the offer's tokens are kept, or an `accept`; asked only if the policy `receives`. */
  receive(offer) {
    return offer.length;
  }
}

/** Makes the component's exports of a subclass of `Policy`. */
export function component(TheClass) {
  const keys = (TheClass.manifest.parameters ?? []).map(({ key }) => key);
  class Session {
    constructor(start) {
      this.journey = new TheClass();
      const settings = Object.fromEntries(keys.map((key, index) => [key, start.settings[index]]));
      logged(() => this.journey.start(start, settings));
    }

    enter() {
      return logged(() => this.journey.enter());
    }

    route(step) {
      return logged(() => this.journey.route(step));
    }

    send(handoff) {
      return { keepHeld: logged(() => this.journey.send(handoff)) };
    }

    receive(offer) {
      const kept = logged(() => this.journey.receive(offer));
      return typeof kept === "number" ? { tag: "take", val: kept } : kept;
    }
  }
  return { describe: () => ({ ...DEFAULTS, ...TheClass.manifest }), Session };
}

/** An exception is a trap: it ends this journey's session, and the log says where it came from. */
function logged(call) {
  try {
    return call();
  } catch (error) {
    log(`${error}\n${error?.stack ?? ""}`);
    throw error;
  }
}

const DEFAULTS = {
  name: "",
  doc: "",
  parameters: [],
  modelsLeast: 2,
  modelsMost: 2,
  needs: [],
  guards: [],
  candidates: 0,
  tail: 0,
  prompt: 0,
  enters: false,
  sends: false,
  receives: false,
  distributions: false,
  holdback: 0,
  fallback: undefined,
};

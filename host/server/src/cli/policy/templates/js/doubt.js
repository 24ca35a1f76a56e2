// Hands off where the model doubts its token.
//
// Algorithm: when the probability of the small model's most probable token is below `least`, its token is dropped and
// the large model decides `tokens` positions; then the journey comes back.
import { Policy, STAY, below, component, count, handOff, number } from "./tokenrouter.js";

const SMALL = 0;
const LARGE = 1;

class Doubt extends Policy {
  static manifest = {
    name: "doubt",
    doc: "Hands off tokens of low probability.",
    parameters: [
      number("least", 0.5, 0, 1, "Least probability at which the small model keeps its token."),
      count("tokens", 1, 1, 4096, "Length of a visit, in tokens."),
    ],
    guards: [below(SMALL, "top1", "least")],
  };

  start(start, { tokens }) {
    this.tokens = tokens;
  }

  route({ role }) {
    // The host asks about the small model's tokens where the guard fires, and nowhere else.
    return role === SMALL ? handOff(LARGE, this.tokens) : STAY;
  }
}

export const policy = component(Doubt);

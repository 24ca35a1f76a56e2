// Hands off where the model is unsure: the rule of policies/entropy, in JavaScript, decision for decision.
import { Policy, STAY, above, component, count, handOff, number } from "./tokenrouter.js";

const SMALL = 0;
const LARGE = 1;

class Entropy extends Policy {
  static manifest = {
    name: "entropy",
    doc: "Hands off tokens whose distribution has more entropy than a threshold.",
    parameters: [
      number("threshold", 0.4, 0, 20, "Most entropy, in nats, at which a model keeps the journey."),
      count("tokens", 1, 0, 4096, "Length of a visit to the large model, in tokens; 0 = until it is sure itself."),
    ],
    guards: [above(SMALL, "entropy", "threshold")],
    sends: true,
  };

  start(start, { threshold, tokens }) {
    this.threshold = threshold;
    this.tokens = tokens;
  }

  route({ role, entropy }) {
    // The host asks about the small model's tokens where the guard fires, and nowhere else.
    if (role === SMALL) return handOff(LARGE, this.tokens);
    if (role === LARGE && entropy <= this.threshold) return handOff(SMALL);
    return STAY;
  }

  send({ to }) {
    // The way home keeps the sure token; were it dropped, the journey could go to and fro for ever.
    return to === SMALL;
  }
}

export const policy = component(Entropy);

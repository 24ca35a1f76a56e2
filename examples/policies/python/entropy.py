"""Hands off where the model is unsure: the rule of policies/entropy, in Python, decision for decision."""

import tokenrouter
from tokenrouter import STAY, Signal, above, count, hand_off, number

SMALL, LARGE = 0, 1


class Entropy(tokenrouter.Policy):
    name = "entropy"
    doc = "Hands off tokens whose distribution has more entropy than a threshold."
    parameters = (
        number("threshold", 0.4, 0, 20, "Most entropy, in nats, at which a model keeps the journey."),
        count(
            "tokens", 1, 0, 4096, "Length of a visit to the large model, in tokens; 0 = until it is sure itself."
        ),
    )
    guards = (above(SMALL, Signal.ENTROPY, "threshold"),)
    sends = True

    def start(self, start, settings):
        self.threshold = settings["threshold"]
        self.tokens = int(settings["tokens"])

    def route(self, step):
        # The host asks about the small model's tokens where the guard fires, and nowhere else.
        if step.role == SMALL:
            return hand_off(LARGE, self.tokens)
        if step.role == LARGE and step.entropy <= self.threshold:
            return hand_off(SMALL)
        return STAY

    def send(self, handoff):
        # The way home keeps the sure token; were it dropped, the journey could go to and fro for ever.
        return handoff.to == SMALL


Policy = tokenrouter.export(Entropy)

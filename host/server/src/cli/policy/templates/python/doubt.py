"""Hands off where the model doubts its token.

Algorithm: when the probability of the small model's most probable token is below `least`, its token is dropped and the
large model decides `tokens` positions; then the journey comes back.
"""

import tokenrouter
from tokenrouter import STAY, Signal, below, count, hand_off, number

SMALL, LARGE = 0, 1


class Doubt(tokenrouter.Policy):
    name = "doubt"
    doc = "Hands off tokens of low probability."
    parameters = (
        number("least", 0.5, 0, 1, "Least probability at which the small model keeps its token."),
        count("tokens", 1, 1, 4096, "Length of a visit, in tokens."),
    )
    guards = (below(SMALL, Signal.TOP1, "least"),)

    def start(self, start, settings):
        self.tokens = int(settings["tokens"])

    def route(self, step):
        # The host asks about the small model's tokens where the guard fires, and nowhere else.
        return hand_off(LARGE, self.tokens) if step.role == SMALL else STAY


Policy = tokenrouter.export(Doubt)

"""What a policy in Python needs, without the boilerplate of a component.

A policy is a subclass of `Policy`: class attributes say what it is and needs, an object of it is one journey. The module
ends with `Policy = export(TheClass)`. The values that come and go are those of `wit/types.wit`, as dataclasses of
`wit_world.imports.types`; the short ways here cover what most policies say. What a call is about beyond its numbers
(candidates, the end of the answer, answers to questions, offered tokens) is there for the asking: `view.candidates()`.

Two things differ from ordinary Python. Top-level code runs when the component is built, not when it is loaded, so
random seeds and clocks would be frozen into it; random numbers come from `uniform`. And there is no file, no network and
no clock: the component imports nothing but `host` and `view` of `tokenrouter:policy`.
"""

import gc
import sys
import traceback
from types import ModuleType

from wit_world.imports import host, manifest, types, view
from wit_world.imports.manifest import (
    Guard,
    Limit,
    Need,
    Parameter,
    Trigger_Above,
    Trigger_AfterText,
    Trigger_Below,
    Trigger_End,
    Trigger_Start,
    Trigger_Text,
)
from wit_world.imports.types import Signal

# Python's collector would look through the whole runtime in the middle of some call, which then runs out of fuel. Without
# it memory is freed as references go; only cycles stay, until the host replaces the instance after 10,000 journeys.
gc.disable()

uniform = host.uniform
log = host.log

STAY = types.Decision_Stay()
FINISH = types.Decision_Finish()


def hand_off(to, tokens=0, until=()):
    """To the model `to`: for that many tokens and then back, or with 0 to stay there."""
    return types.Decision_HandOff(types.Handoff(to, tokens, list(until)))


def number(key, default, least, most, doc):
    """A parameter: any number from `least` to `most`."""
    return Parameter(key, float(default), float(least), float(most), False, doc)


def count(key, default, least, most, doc):
    """A parameter: a whole number from `least` to `most`."""
    return Parameter(key, float(default), float(least), float(most), True, doc)


def above(role, signal, parameter):
    """A guard: `route` is asked about the role's tokens whose signal is above a parameter."""
    return Guard(role, Trigger_Above(Limit(signal, parameter)))


def below(role, signal, parameter):
    """A guard: `route` is asked about the role's tokens whose signal is below a parameter."""
    return Guard(role, Trigger_Below(Limit(signal, parameter)))


def text(role, words):
    """A guard: `route` is asked about the role's tokens that complete a text."""
    return Guard(role, Trigger_Text(words))


def after_text(role, words):
    """A guard: `route` is asked about the role's first token after a text, and the first of the answer."""
    return Guard(role, Trigger_AfterText(words))


def at_start(role):
    """A guard: `route` is asked about the first token of the answer, if the role makes it."""
    return Guard(role, Trigger_Start())


def at_end(role):
    """A guard: `route` is asked about the role's token that ends the answer."""
    return Guard(role, Trigger_End())


class Policy:
    """One journey. Its class says what the policy is; see `wit/manifest.wit` for each of these."""

    name = ""
    doc = ""
    parameters = ()
    models = (2, 2)
    needs = ()
    guards = ()
    candidates = 0
    tail = 0
    prompt = 0
    enters = False
    sends = False
    receives = False
    distributions = False
    holdback = 0
    fallback = None

    def start(self, start, settings):
        """A journey begins; `settings` has a number for each parameter."""

    def enter(self):
        """The role at which it begins; asked only if `enters`."""
        return 0

    def route(self, step):
        """Where the journey goes after this step; its token is held, not yet part of the answer."""
        return STAY

    def send(self, handoff):
        """Whether the held token is committed before leaving; asked only if `sends`."""
        return False

    def receive(self, offer):
        """How many of the offer's tokens are kept, or an `Accept`; asked only if `receives`."""
        return offer.length


def export(policy):
    """Makes the component's exports of a subclass of `Policy`; assign it to the name `Policy` of the module."""

    class Session:
        """A journey behind the border."""

        def __init__(self, start):
            self.journey = policy()
            settings = {parameter.key: value for parameter, value in zip(policy.parameters, start.settings)}
            logged(self.journey.start, start, settings)

        def enter(self):
            return logged(self.journey.enter)

        def route(self, step):
            return logged(self.journey.route, step)

        def send(self, handoff):
            return types.Parcel(bool(logged(self.journey.send, handoff)))

        def receive(self, offer):
            kept = logged(self.journey.receive, offer)
            return types.Accept_Take(kept) if isinstance(kept, int) else kept

    class Exported:
        """The functions of the interface."""

        def describe(self):
            return descriptor(policy)

    # The builder looks for a resource's class in a module with the name of the interface.
    module = ModuleType("policy")
    module.Session = Session
    sys.modules["policy"] = module
    return Exported


def descriptor(policy):
    """The manifest of a policy's class."""
    least, most = policy.models
    return manifest.Descriptor(
        policy.name,
        policy.doc,
        list(policy.parameters),
        least,
        most,
        list(policy.needs),
        list(policy.guards),
        policy.candidates,
        policy.tail,
        policy.prompt,
        policy.enters,
        policy.sends,
        policy.receives,
        policy.distributions,
        policy.holdback,
        policy.fallback,
    )


def logged(call, *arguments):
    """An exception is a trap: it ends this journey's session, and the log says where it came from."""
    try:
        return call(*arguments)
    except Exception:
        host.log(traceback.format_exc(limit=-3))
        raise

// Controls for the settings of a route's policy. What differs from the route's own goes into the model's name, after `@`.

import { el } from "./dom.js";

/// A slider has so many places.
const PLACES = 1000;

/// One group of controls, made from what `/v1/models` tells of a policy's parameters.
export class Knobs {
  constructor(root, changed) {
    this.root = root;
    this.changed = changed;
    this.knobs = [];
  }

  show(parameters) {
    this.knobs = parameters.map((parameter) => new Knob(parameter, this.changed));
    this.root.replaceChildren(this.root.firstElementChild, ...this.knobs.map((knob) => knob.node));
    this.root.hidden = this.knobs.length === 0;
  }

  /// `name`, with what was changed after it.
  model(name) {
    const set = this.knobs.filter((knob) => knob.value() !== knob.own);
    const settings = set.map((knob) => `${knob.key}=${knob.value()}`);
    return settings.length ? `${name}@${settings.join(",")}` : name;
  }
}

class Knob {
  constructor({ key, value, least, most, whole, doc }, changed) {
    Object.assign(this, { key, own: value, least, most, whole });
    // Where the usual values lie at the low end of a wide range, the slider gives them more room.
    const isLow = least != null && most != null && value - least < (most - least) / 5;
    this.power = isLow ? 3 : 1;
    const id = `knob-${key}`;
    this.input = el("input", { id, type: "number", min: least, max: most, step: whole ? 1 : "any", value });
    this.slider =
      this.hasSlider() &&
      el("input", {
        type: "range",
        min: 0,
        max: PLACES,
        step: 1,
        "aria-label": `${key}, slider`,
        "aria-describedby": `${id}-doc`,
      });
    this.node = el(
      "div",
      { class: "knob" },
      el("label", { for: id }, key),
      this.slider,
      this.input,
      el("p", { id: `${id}-doc`, class: "quiet" }, doc),
    );
    this.input.addEventListener("input", () => {
      this.place();
      changed();
    });
    if (this.slider) {
      this.slider.addEventListener("input", () => {
        this.input.value = this.at(this.slider.value / PLACES);
        this.slider.setAttribute("aria-valuetext", this.input.value);
        changed();
      });
      this.place();
    }
  }

  /// An input that holds no number counts as untouched.
  value() {
    return this.input.value === "" ? this.own : Number(this.input.value);
  }

  /// An open range has no places.
  hasSlider() {
    return this.least != null && this.most != null && this.most - this.least < 1e9;
  }

  at(part) {
    const value = this.least + (this.most - this.least) * part ** this.power;
    return this.whole ? Math.round(value) : Number(value.toPrecision(3));
  }

  place() {
    if (!this.slider) return;
    const part = (this.value() - this.least) / (this.most - this.least);
    this.slider.value = PLACES * Math.max(0, part) ** (1 / this.power);
    this.slider.setAttribute("aria-valuetext", this.input.value);
  }
}

// Which models and routes there are, and which colour a model has: the same in every section.
//
// As in the terminal, the entry model of a route has the first colour and the next the second. A name keeps the colour that
// it got first, so whoever draws models waits for `models` before.

import { get } from "./api.js";

const COLOURS = 6;
const known = new Map();
let asked = null;

/// What `/v1/models` lists, asked once for a key; an error is not kept.
export function models() {
  asked ??= get("v1/models").then(({ data }) => learn(data));
  asked.catch(() => (asked = null));
  return asked;
}

export function colourOf(name) {
  if (!known.has(name)) known.set(name, known.size % COLOURS);
  return `role-${known.get(name)}`;
}

/// Looks at the routes before the models alone, which are listed by name.
function learn(models) {
  const routes = models.filter(({ route }) => route.policy !== null);
  for (const { route } of [...routes, ...models]) route.models.forEach(colourOf);
  return models;
}

/// What is listed has changed.
export function forget() {
  asked = null;
}

document.addEventListener("new-key", forget);

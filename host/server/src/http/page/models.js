// Which colour a model has: the same in every section.
//
// As in the terminal, the entry model of a route has the first colour and the next the second. A name keeps the colour that
// it got first.

const COLOURS = 6;
const known = new Map();

export function colourOf(name) {
  if (!known.has(name)) known.set(name, known.size % COLOURS);
  return `role-${known.get(name)}`;
}

/// Looks at the routes before the models alone, which are listed by name.
export function learn(models) {
  const routes = models.filter(({ route }) => route.policy !== null);
  for (const { route } of [...routes, ...models]) route.models.forEach(colourOf);
}

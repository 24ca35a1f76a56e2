// Builds elements, and asks questions in a dialog.
//
// Text always goes in as text: nothing that a server, a model or a user wrote is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/// An element with attributes (`onclick` and the like are listeners; false and null are left out) and children.
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/// The same for drawings.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}

/// A table in a box that scrolls by itself, so that the page never has to.
export function table(caption, head, rows) {
  const cell = (content, ix) => (ix === 0 ? el("th", { scope: "row" }, content) : el("td", {}, content));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", {}, caption),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          head.map((name) => el("th", { scope: "col" }, name)),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el(
            "tr",
            {},
            row.map((content, ix) => cell(content ?? "–", ix)),
          ),
        ),
      ),
    ),
  );
}

/// A number with three digits that matter, short enough for a table: 0.0123, 4.56, 1,234, 5.7 M.
export function number(value) {
  if (value == null || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toPrecision(3)} G`;
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size === 0 || Number.isInteger(value)) return String(value);
  return size < 1e-6 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

export const percent = (part) => (part == null ? "–" : `${number(100 * part)} %`);

/// Asks before something that cannot be taken back. Gives the reason (empty where none is asked), or null.
export function confirm({ title, text, yes, reason = false }) {
  const dialog = byId("dialog");
  byId("dialog-title").textContent = title;
  byId("dialog-text").textContent = text;
  byId("dialog-yes").textContent = yes;
  byId("dialog-reason").hidden = !reason;
  const input = byId("reason");
  input.required = reason;
  input.value = "";
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" ? input.value : null), { once: true });
  });
}

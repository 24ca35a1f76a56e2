// Puts the page together: its tabs, its colours, the key.

import { byId } from "./dom.js";
import { key, setKey } from "./api.js";
import * as playground from "./playground.js";
import * as metrics from "./metrics.js";
import * as policies from "./policies.js";
import * as experiments from "./experiments.js";

const SECTIONS = { playground, metrics, policies, experiments };
const THEMES = ["auto", "light", "dark"];
const tabs = [...document.querySelectorAll("[role=tab]")];

/// The section of a tab. No element has this name as its id: the browser would move the focus there.
const nameOf = (tab) => tab.id.replace("tab-", "");

/// Shows the section that the address names, and tells the others to rest.
function show() {
  const wanted = location.hash.slice(1);
  const name = wanted in SECTIONS ? wanted : "playground";
  for (const tab of tabs) {
    const chosen = nameOf(tab) === name;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    byId(`panel-${nameOf(tab)}`).hidden = !chosen;
  }
  document.title = name === "playground" ? "tokenrouter" : `${name} · tokenrouter`;
  for (const [other, section] of Object.entries(SECTIONS)) section.shown(other === name);
}

function choose(tab) {
  tab.focus();
  location.hash = nameOf(tab);
}

function wireTabs() {
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  tabs.forEach((tab, ix) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const ends = { Home: 0, End: tabs.length - 1 };
      const next = event.key in ends ? ends[event.key] : ix + steps[event.key];
      if (Number.isNaN(next)) return;
      event.preventDefault();
      choose(tabs[(next + tabs.length) % tabs.length]);
    });
  });
  addEventListener("hashchange", show);
  // The address stays that of the section.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
}

/// "auto" follows the system; style.css knows both by `color-scheme` alone.
function wireTheme() {
  const button = byId("theme");
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = { auto: "◐", light: "☀", dark: "☾" }[theme];
    button.setAttribute("aria-label", `Colours: ${theme}`);
    button.title = `Colours: ${theme}`;
  };
  const stored = localStorage.getItem("theme");
  apply(THEMES.includes(stored) ? stored : "auto");
  button.addEventListener("click", () => {
    const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    localStorage.setItem("theme", theme);
    apply(theme);
  });
}

function wireKey() {
  const [form, button, input, why] = ["key-form", "key-button", "key", "key-why"].map(byId);
  const open = (is) => {
    form.hidden = !is;
    button.setAttribute("aria-expanded", is);
    button.textContent = key() ? "API key ✓" : "API key";
  };
  const use = (value) => {
    setKey(value.trim());
    open(false);
    why.textContent = "Kept for this tab only, until it is closed.";
    document.dispatchEvent(new CustomEvent("new-key"));
    show();
  };
  open(false);
  button.addEventListener("click", () => {
    open(form.hidden);
    if (!form.hidden) input.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    use(input.value);
    input.value = "";
  });
  byId("key-forget").addEventListener("click", () => use(""));
  document.addEventListener("need-key", () => {
    why.textContent = key()
      ? "This server does not accept the key. Type another one."
      : "This server checks API keys. Type yours to go on.";
    if (form.hidden) open(true);
  });
}

wireTheme();
wireKey();
wireTabs();
playground.start();
show();

// What all cases share: a browser, pages that are watched, and words for what must hold.

import assert from "node:assert/strict";
import process from "node:process";
import { chromium } from "playwright-core";

export const EXECUTABLE = process.env.CHROMIUM ?? "/usr/bin/chromium";
/// Everything here answers within milliseconds; a case that waits this long has failed.
const PATIENCE_MS = 15_000;

export async function launch() {
  // The sandbox of the browser cannot be set up by root.
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: EXECUTABLE, args });
}

/// A fresh page of a server, watched: it may load nothing from elsewhere, and must not complain.
export async function visit(browser, url, { hash = "", ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(`an error: ${error.message}`));
  page.on("console", (message) => {
    // That a status is not 200 is what some cases are about; the page itself says it in words.
    const isStatus = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isStatus) problems.push(`the console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (protocol !== "data:" && origin !== new URL(url).origin) problems.push(`a request to ${request.url()}`);
  });
  await page.goto(url + hash);
  return {
    page,
    /// Ends the visit; the page must have been quiet.
    async close() {
      await context.close();
      assert.deepEqual(problems, []);
    },
  };
}

/// Asks with the form as it stands and waits for the end of the answer.
export async function stream(page) {
  await page.getByRole("button", { name: /Stream/ }).click();
  await page.locator("#said", { hasText: /^(Done|Stopped)/ }).waitFor();
}

/// Waits until the options of the first list are there.
export async function ready(page) {
  await page.locator("#model option").first().waitFor({ state: "attached" });
}

/// The text of all tokens, joined, as the document has it.
export const answer = (page) => page.locator("#tokens").evaluate((node) => node.textContent);

/// Answers a path with JSON, and keeps what was sent to it.
export async function mock(page, path, answers) {
  const asked = [];
  await page.route(
    (url) => url.pathname === path || url.pathname.startsWith(`${path}/`),
    async (route) => {
      const request = route.request();
      const { pathname } = new URL(request.url());
      asked.push({ method: request.method(), path: pathname, body: request.postData() });
      const { status = 200, json } = answers({ method: request.method(), path: pathname });
      await route.fulfill({ status, json });
    },
  );
  return asked;
}

/// Every text that can be seen, with its contrast to what lies behind it, where that is less than WCAG AA wants.
export const faint = (page) =>
  page.evaluate(() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    // A canvas knows every way to write a colour.
    const rgba = (colour) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], below) => [r, g, b].map((value, ix) => value * a + below[ix] * (1 - a));
    const ground = (node) => {
      if (!node) return [255, 255, 255];
      const own = rgba(getComputedStyle(node).backgroundColor);
      return own[3] === 1 ? own.slice(0, 3) : over(own, ground(node.parentElement));
    };
    const light = (rgb) => {
      const [r, g, b] = rgb
        .map((value) => value / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const found = [];
    for (const node of document.querySelectorAll("body *")) {
      const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
      const isControl = node.matches("input, textarea, select");
      if (!(hasText || isControl) || node.disabled || !node.checkVisibility() || node.matches("option, script, style"))
        continue;
      const below = ground(node);
      const lights = [light(over(rgba(getComputedStyle(node).color), below)), light(below)].sort((a, b) => b - a);
      const ratio = (lights[0] + 0.05) / (lights[1] + 0.05);
      if (ratio < 4.5)
        found.push(
          `${node.tagName} ${node.className?.baseVal ?? node.className} "${node.textContent.slice(0, 20)}" ${ratio.toFixed(2)}`,
        );
    }
    return found;
  });

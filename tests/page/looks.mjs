// How it looks: contrast in light and dark, small screens, the colours that a user chose.

import assert from "node:assert/strict";
import process from "node:process";
import { faint, mock, ready, stream, visit } from "./harness.mjs";
import { experiment, upload } from "./samples.mjs";

const SECTIONS = ["playground", "metrics", "policies", "experiments"];

/// Every section with something in it, in turn.
async function tour(page, look) {
  await ready(page);
  const alarm = { state: "paused", reason: "a Friday", name: "alarmed", sample_ratio: { alarm: true } };
  await mock(page, "/admin/experiments", () => ({ json: { experiments: [experiment(), experiment(alarm)] } }));
  await mock(page, "/v1/policies", () => ({ json: { object: "list", data: [upload("bbbbbbbbbbbbbbbb")] } }));
  for (const section of SECTIONS) {
    await page.evaluate((hash) => (location.hash = hash), section);
    const panel = page.locator(`#panel-${section}`);
    if (section === "playground") {
      await stream(page);
      await page.locator(".token.other").first().hover();
    } else await panel.locator("table").first().waitFor();
    await look(section);
  }
}

async function shot(page, name) {
  const folder = process.env.PAGE_SHOTS;
  if (folder) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
}

async function every_text_can_be_read(browser, url, colorScheme) {
  const { page, close } = await visit(browser, url, { colorScheme });
  await tour(page, async (section) => {
    await shot(page, `${section}-${colorScheme}`);
    assert.deepEqual(await faint(page), [], `${section}, ${colorScheme}`);
  });
  await close();
}

export const every_text_can_be_read_on_light_paper = ({ browser, url }) =>
  every_text_can_be_read(browser, url, "light");
export const every_text_can_be_read_on_dark_paper = ({ browser, url }) => every_text_can_be_read(browser, url, "dark");

export async function a_phone_never_scrolls_sideways({ browser, url }) {
  const { page, close } = await visit(browser, url, { viewport: { width: 360, height: 740 } });
  await tour(page, async (section) => {
    await shot(page, `${section}-phone`);
    assert.equal(await page.evaluate(() => document.scrollingElement.scrollWidth), 360, section);
  });
  await close();
}

export async function colours_follow_the_button_and_stay({ browser, url }) {
  const { page, close } = await visit(browser, url, { colorScheme: "dark" });
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await paper();
  await page.getByRole("button", { name: "Colours: auto" }).click();
  assert.notEqual(await paper(), dark);
  await page.reload();
  assert.notEqual(await paper(), dark, "it stays");
  await page.getByRole("button", { name: "Colours: light" }).click();
  assert.equal(await paper(), dark);
  await page.getByRole("button", { name: "Colours: dark" }).click();
  await page.emulateMedia({ colorScheme: "light" });
  assert.notEqual(await paper(), dark);
  await close();
}

export async function nothing_moves_for_those_who_do_not_want_it({ browser, url }) {
  const { page, close } = await visit(browser, url, { reducedMotion: "reduce" });
  await ready(page);
  await page.locator("#tokens").evaluate((node) => node.setAttribute("aria-busy", "true"));
  assert.deepEqual(await page.evaluate(() => document.getAnimations().length), 0);
  await page.emulateMedia({ reducedMotion: "no-preference" });
  assert.deepEqual(await page.evaluate(() => document.getAnimations().length), 1);
  await close();
}

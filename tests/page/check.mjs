// Drives the page of a running server in a real browser and says what does not hold.
//
// node check.mjs URL GUARDED_URL LIVE_URL KEY: the second server checks keys, and KEY, of a tenant, is one that it knows; the
// third keeps what is changed.
// Pictures of every section go to the folder that PAGE_SHOTS names, if it names one.

import process from "node:process";
import { launch } from "./harness.mjs";
import * as served from "./served.mjs";
import * as live from "./live.mjs";
import * as contract from "./contract.mjs";
import * as looks from "./looks.mjs";

const [url, guarded, kept, key] = process.argv.slice(2);
if (!key) throw new Error("usage: node check.mjs URL GUARDED_URL LIVE_URL KEY");
const only = process.env.PAGE_ONLY ?? "";

const browser = await launch();
const wrong = [];
let passed = 0;
for (const [name, holds] of [served, live, contract, looks].flatMap((group) => Object.entries(group))) {
  const words = name.replaceAll("_", " ");
  if (!words.includes(only)) continue;
  try {
    await holds({ browser, url, guarded, live: kept, key });
    passed += 1;
    console.log(`ok      ${words}`);
  } catch (error) {
    wrong.push(words);
    console.log(`FAILED  ${words}\n${error.stack}\n`);
  }
}
await browser.close();
console.log(`page: ${passed} passed, ${wrong.length} failed`);
process.exitCode = wrong.length ? 1 : 0;

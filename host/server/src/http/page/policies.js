// Which policies decide, and the policies that tenants upload.

import { byId, confirm, el, number, table } from "./dom.js";
import { ask, get, send } from "./api.js";
import { forget, models } from "./models.js";

export function shown(is) {
  if (is) refresh();
}

async function refresh(said) {
  // An upload is a model that can be named.
  if (said) forget();
  const listed = await models().catch(() => []);
  const routes = listed
    .filter(({ route }) => route.policy !== null)
    .map(({ id }) => id)
    .filter((id) => !id.startsWith("own/"));
  const [serving, uploads] = await Promise.all([
    get("admin/policies").then(drawServing, (error) =>
      absent("Policies of this server", error, "They are shown for keys with the scope admin."),
    ),
    get("v1/policies").then(
      ({ data }) => drawUploads(data, routes),
      (error) => absent("Uploaded policies", error, "This server takes no uploads."),
    ),
  ]);
  byId("panel-policies").replaceChildren(
    ...serving,
    ...uploads,
    el("p", { id: "policies-said", role: "status", class: "quiet" }, said ?? ""),
  );
}

/// A section whose endpoint is not there says so, and no more; one that fails shows how.
function absent(title, error, text) {
  return [el("h2", {}, title), el("p", { class: "note" }, error.status === 404 ? text : error.message)];
}

const time = (seconds) => (seconds == null ? "–" : new Date(seconds * 1000).toLocaleString());
const short = (revision) => el("code", { title: revision }, (revision ?? "–").slice(0, 12));

function state(health) {
  const kind = { serving: "good", open: "bad", probing: "warn" }[health.state] ?? "";
  const retry = health.retry_in_s == null ? "" : `, again in ${number(health.retry_in_s)} s`;
  return el("span", { class: `badge ${kind}`, title: `since ${time(health.since)}` }, health.state + retry);
}

function drawServing({ routes }) {
  const causes = (health) =>
    Object.entries(health.failures_by_cause ?? {})
      .filter(([, count]) => count)
      .map(([cause, count]) => `${cause} ${count}`)
      .join(", ");
  const failures = ({ health }) => [
    `${number(health.failures)}${causes(health) ? ` (${causes(health)})` : ""}`,
    health.last_error && el("p", { class: "error" }, health.last_error),
  ];
  const file = ({ file }) =>
    file && [
      el("code", {}, file.path),
      ` loaded ${file.loads} ×`,
      file.failed && el("p", { class: "error" }, file.failed.error),
    ];
  const settings = ({ parameters }) => parameters.map(({ key, value }) => `${key} ${number(value)}`).join(", ");
  const rows = routes.map((route) => [
    el("b", {}, route.route),
    el("span", {}, route.models.join(" → "), el("p", { class: "quiet" }, `falls back to ${route.fallback}`)),
    el("span", {}, route.policy, el("p", { class: "quiet" }, settings(route))),
    short(route.revision),
    state(route.health),
    number(route.health.calls),
    el("span", {}, failures(route)),
    number(route.health.fallbacks),
    el("span", { title: route.health.lane.why ?? "" }, route.health.lane.lane),
    route.file ? el("span", {}, file(route)) : "built in",
  ]);
  const head = ["route", "models", "policy", "revision", "health", "calls", "failures", "fallbacks", "lane", "file"];
  return [el("h2", {}, "Policies of this server"), table("Routes and who decides", head, rows)];
}

function drawUploads(data, routes) {
  const none = data.length === 0 && el("p", { class: "note" }, "Nothing is uploaded yet.");
  return [el("h2", {}, "Uploaded policies"), none, ...data.map(upload), form(routes)].filter(Boolean);
}

function upload(policy) {
  const path = `v1/policies/${encodeURIComponent(policy.name)}`;
  const act = (words, method, rest, json) => async () => {
    try {
      await send(method, path + rest, json);
      await refresh(`${policy.name}: ${words}.`);
    } catch (error) {
      fail(error);
    }
  };
  const remove = async () => {
    const sure = await confirm({
      title: `Delete ${policy.name}?`,
      text: `Requests for ${policy.model} will then fail.`,
      yes: "Delete",
    });
    if (sure !== null) await act("deleted", "DELETE", "")();
  };
  const rows = policy.revisions.map((one) => [
    short(one.revision),
    one.policy,
    time(one.uploaded_at / 1000),
    one.uploaded_by,
    `${number(one.bytes / 1024)} KiB`,
    one.active
      ? el("span", { class: "badge good" }, "active")
      : el(
          "button",
          {
            type: "button",
            "aria-label": `Activate ${one.revision} of ${policy.name}`,
            onclick: act("another revision is active", "POST", "/activate", { revision: one.revision }),
          },
          "Activate",
        ),
  ]);
  return el(
    "article",
    { class: "card" },
    el("h3", {}, policy.model, el("span", { class: "quiet" }, ` of ${policy.owner}, like ${policy.route}`)),
    policy.broken && el("p", { class: "error" }, policy.broken),
    table(`Revisions of ${policy.name}`, ["revision", "policy", "uploaded", "by", "size", ""], rows),
    el(
      "div",
      { class: "actions" },
      el(
        "button",
        { type: "button", disabled: policy.revisions.length < 2, onclick: act("rolled back", "POST", "/rollback", {}) },
        "Roll back",
      ),
      el("button", { type: "button", onclick: remove }, "Delete …"),
    ),
  );
}

function form(routes) {
  const node = el(
    "form",
    { class: "card upload", id: "upload", "aria-labelledby": "upload-title" },
    el("h3", { id: "upload-title" }, "Upload a revision"),
    el(
      "label",
      {},
      "Name ",
      el("input", {
        id: "upload-name",
        required: true,
        pattern: "[a-z0-9][a-z0-9._\\-]{0,63}",
        title: "a-z 0-9 - _ .",
      }),
    ),
    el("label", {}, "Component ", el("input", { id: "upload-file", type: "file", required: true, accept: ".wasm" })),
    el(
      "label",
      {},
      "Like the route ",
      el(
        "select",
        { id: "upload-route", required: true },
        routes.map((id) => el("option", {}, id)),
      ),
    ),
    el(
      "label",
      {},
      "Settings, one per line ",
      el("textarea", { id: "upload-settings", rows: 1, placeholder: "threshold = 0.5" }),
    ),
    el("button", { class: "primary" }, "Upload"),
  );
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = new FormData();
    body.append("component", byId("upload-file").files[0]);
    // JSON's strings are strings of TOML too.
    body.append(
      "manifest",
      `route = ${JSON.stringify(byId("upload-route").value)}\n[settings]\n${byId("upload-settings").value}\n`,
    );
    try {
      const name = byId("upload-name").value;
      const said = await (await ask(`v1/policies/${encodeURIComponent(name)}`, { method: "PUT", body })).json();
      await refresh(`${said.model} is at revision ${said.active}.`);
    } catch (error) {
      fail(error);
    }
  });
  return node;
}

function fail(error) {
  byId("policies-said").textContent = error.message;
  byId("policies-said").classList.add("error");
}

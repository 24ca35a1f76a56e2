// Talks to the server that the page came from, with the key that its user typed.
//
// The key is in the session storage of this tab and nowhere else: it goes with the tab, and no other tab has it.

const KEY = "tokenrouter-key";

export const key = () => sessionStorage.getItem(KEY) ?? "";

export function setKey(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

/// What the server, or the network, said in the place of an answer.
export class ApiError extends Error {
  constructor(status, { message, code }) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/// A response that is a success. `json` is text; any other body is given as `body`.
export async function ask(path, { method = "GET", json, body, signal } = {}) {
  const headers = key() ? { authorization: `Bearer ${key()}` } : {};
  if (json !== undefined) headers["content-type"] = "application/json";
  // Relative to the page, which may lie behind a proxy's prefix.
  const url = new URL(path, document.baseURI);
  const response = await fetch(url, { method, headers, body: json ?? body, signal }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { message: "the server does not answer" });
  });
  if (response.ok) return response;
  const error = await response.json().then(
    (said) => said.error,
    () => null,
  );
  if (response.status === 401) document.dispatchEvent(new CustomEvent("need-key"));
  throw new ApiError(response.status, error ?? { message: `the server answered ${response.status}` });
}

export const get = async (path) => (await ask(path)).json();
export const send = async (method, path, json) => (await ask(path, { method, json: JSON.stringify(json) })).json();

/// Seeds have 64 bits, more than a number holds here: they stay as they were written, where the browser can tell.
const exact = (key, value, context) => (key === "seed" ? (context?.source ?? value) : value);

/// The objects of an event stream, as they come, up to `[DONE]`. An error within the stream is thrown.
export async function* events(response) {
  // A reader, not `for await`: not every browser can iterate over a body.
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const data of parts.filter((part) => part.startsWith("data: ")).map((part) => part.slice(6))) {
      if (data === "[DONE]") return;
      const object = JSON.parse(data, exact);
      if (object.error) throw new ApiError(200, object.error);
      yield object;
    }
  }
}

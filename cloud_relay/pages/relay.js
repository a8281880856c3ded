// Calls of the relay's API. The access token lives here, in memory, and goes with the page.
const DEADLINE_MS = 20_000;
let token = null;

/** What went wrong: the relay's problem document (docs/problems.md), or `offline`, `unreachable`, `unreadable`. */
export class Problem extends Error {
  constructor(document) {
    super(document.code);
    Object.assign(this, document);
  }
}

/** The token for all following calls; null forgets it. */
export function hold(given) {
  token = given;
}

export const isSignedIn = () => token !== null;

/** The decoded answer of a call below /api/v1 (null for an empty one). Throws a Problem, and nothing else. */
export async function call(method, path, body) {
  let response, text;
  try {
    response = await fetch(`/api/v1${path}`, request(method, body));
    text = await response.text();
  } catch {
    throw new Problem({ code: navigator.onLine ? "unreachable" : "offline" });
  }
  let document = null;
  try {
    document = text === "" ? null : JSON.parse(text);
  } catch {
    throw new Problem({ code: "unreadable" });
  }
  if (response.ok) return document;
  throw new Problem(document?.code ? document : { code: "unreadable" });
}

function request(method, body) {
  const headers = {};
  if (token !== null) headers["Authorization"] = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const signal = AbortSignal.timeout(DEADLINE_MS);
  return { method, headers, body: JSON.stringify(body), signal, cache: "no-store", credentials: "omit" };
}

/** Ends the session on the relay and forgets the token, also while the page is closing. */
export function signOut() {
  if (token === null) return;
  const headers = { Authorization: `Bearer ${token}` };
  token = null;
  // Nobody waits for the answer: when it gets lost, the token ends within minutes by itself.
  fetch("/api/v1/identity/session", { method: "DELETE", headers, keepalive: true, credentials: "omit" }).catch(() => {});
}

// Calls of this server's /v1, and what can go wrong with them.
// @ts-check

const ROOT = meta("root-path");
const TIMEOUT_MS = 20_000;
/** Whom the page was made for. */
const PERSON = meta("person");
/** Of the session; another one after signing in again. */
let token = meta("csrf-token");
/** @type {(state: SignIn) => void} */
let tell = () => {};

/**
 * @typedef {{ status: number, data: any, etag: string | null, headers: Headers }} Reply
 * @typedef {"offline" | "timeout" | "signed-out" | "refused" | "unavailable" | "failed"} Trouble
 * @typedef {"in" | "out" | "other"} SignIn of the person of this page: signed in, no more, or somebody else is
 * @typedef {{ json?: unknown, headers?: Record<string, string>, timeoutMs?: number, as?: "json" | "blob" }} Options
 */

/** A call that did not succeed. `trouble` says what kind of thing to do about it; `message` is for people. */
export class CallFailed extends Error {
  /**
   * @param {Trouble} trouble
   * @param {string} message
   * @param {{ status?: number, type?: string, body?: any }} [more]
   */
  constructor(trouble, message, more = {}) {
    super(message);
    this.name = "CallFailed";
    this.trouble = trouble;
    this.status = more.status ?? 0;
    this.type = more.type ?? "";
    /** The problem that the server told. */
    this.body = more.body ?? {};
  }

  /** Whether it is not known what became of a write: it may have been done. */
  get unsure() {
    return this.trouble === "offline" || this.trouble === "timeout" || this.trouble === "unavailable";
  }
}

/**
 * @param {string} method
 * @param {string} path below the server's root, for instance `/v1/profile`
 * @param {Options} [options]
 * @returns {Promise<Reply>}
 */
export async function call(method, path, options = {}) {
  try {
    const reply = await once(method, path, options);
    tell("in");
    return reply;
  } catch (error) {
    if (!(error instanceof CallFailed)) throw error;
    if (error.status === 401) tell("out");
    // The page's token is that of an earlier session: nothing was done yet.
    if (error.status !== 403 || !(await renewed())) throw error;
    return once(method, path, options);
  }
}

/** @param {(state: SignIn) => void} listener is told after every call */
export function onSignIn(listener) {
  tell = listener;
}

/**
 * Take the token of the session that holds now. Raises CallFailed where it is somebody else's: their memory is not for this page.
 * @returns {Promise<boolean>} whether there is another token
 */
async function renewed() {
  const response = await fetch(location.pathname, { credentials: "same-origin", cache: "no-store", redirect: "manual" }).catch(() => null);
  if (response === null || response.type === "opaqueredirect") return false;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (meta("person", page) !== PERSON) {
    tell("other");
    throw new CallFailed("signed-out", "Somebody else is signed in in this browser by now. Reload the page to go on as them.");
  }
  const found = meta("csrf-token", page);
  if (!found || found === token) return false;
  token = found;
  for (const field of document.querySelectorAll("input[name='csrf']")) /** @type {HTMLInputElement} */ (field).value = found;
  tell("in");
  return true;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Options} options
 * @returns {Promise<Reply>}
 */
async function once(method, path, options) {
  const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), timeoutMs);
  try {
    const response = await fetch(ROOT + path, {
      method,
      headers: headersOf(method, options),
      body: "json" in options ? JSON.stringify(options.json) : undefined,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      signal: stop.signal,
    });
    return await read(response, options.as ?? "json");
  } catch (error) {
    if (error instanceof CallFailed) throw error;
    if (stop.signal.aborted) throw new CallFailed("timeout", `The server did not answer within ${Math.round(timeoutMs / 1000)} seconds.`);
    throw new CallFailed("offline", "The server cannot be reached. Check the connection.");
  } finally {
    clearTimeout(timer);
  }
}

/** An id that no other call has; a repeated call names it again and so counts once. */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What stands before every path of this server. */
export const root = ROOT;

/**
 * @param {string} method
 * @param {Options} options
 */
function headersOf(method, options) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json, application/problem+json", ...options.headers };
  if ("json" in options) headers["Content-Type"] = "application/json";
  // With reading too: a page must not show what belongs to somebody who signed in later.
  headers["X-CSRF-Token"] = token;
  return headers;
}

/**
 * @param {Response} response
 * @param {"json" | "blob"} as
 * @returns {Promise<Reply>}
 */
async function read(response, as) {
  if (!response.ok) throw await failure(response);
  const etag = response.headers.get("etag");
  const data = response.status === 204 ? null : await (as === "blob" ? response.blob() : response.json());
  return { status: response.status, data, etag, headers: response.headers };
}

/** @param {Response} response */
async function failure(response) {
  const told = await response.json().catch(() => ({}));
  const more = { status: response.status, type: String(told.type ?? "").replace("/problems/", ""), body: told };
  const detail = sentence(typeof told.detail === "string" ? told.detail : `The server answered ${response.status}`);
  if (response.status === 401) {
    return new CallFailed("signed-out", "Your sign-in has ended. Sign in again in another tab, then try again here.", more);
  }
  if (response.status === 429 || response.status === 502 || response.status === 503 || response.status === 504) {
    return new CallFailed("unavailable", detail, more);
  }
  return new CallFailed(response.status >= 500 ? "failed" : "refused", detail, more);
}

/** @param {string} text */
function sentence(text) {
  const trimmed = text.trim();
  const closed = /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`;
  return closed.charAt(0).toUpperCase() + closed.slice(1);
}

/**
 * @param {string} name
 * @param {Document} [page]
 */
function meta(name, page = document) {
  return page.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}

// Calls of this server's /v1, and what can go wrong with them.
// @ts-check

const ROOT = meta("root-path");
const TIMEOUT_MS = 20_000;

/**
 * @typedef {{ status: number, data: any, etag: string | null, headers: Headers }} Reply
 * @typedef {"offline" | "timeout" | "signed-out" | "refused" | "unavailable" | "failed"} Trouble
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
  if (method !== "GET") headers["X-CSRF-Token"] = meta("csrf-token");
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

/** @param {string} name */
function meta(name) {
  return document.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}

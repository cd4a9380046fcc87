// The profile over HTTP.
// @ts-check

import { call } from "../api.js";

/**
 * @typedef {{ body: string, exists: boolean, version: number, etag: string | null, last_updated: string | null, tokens: number,
 *   max_tokens: number, cause: string | null }} Profile
 * @typedef {{ sections: { title: string, html: string, lines: number }[], complete: boolean, tokens: number, max_tokens: number,
 *   over_budget: boolean, size: number, removed: Record<string, number> }} Preview
 */

export const MAX_BYTES = 1024 * 1024;
const SAVE_MS = 60_000;

/** @returns {Promise<Profile>} */
export const readProfile = async () => (await call("GET", "/v1/profile")).data;

/**
 * Save over the version with this etag; null: there was none. The same key with the same text is the same save.
 * @param {string} document
 * @param {string | null} etag
 * @param {string} key
 * @returns {Promise<{ version: number, etag: string | null }>}
 */
export async function saveProfile(document, etag, key) {
  // Half of a character, as a cut in the middle of an emoji leaves it, is no text.
  document = wellFormed(document);
  const headers = { "Idempotency-Key": key, ...precondition(etag) };
  return (await call("PUT", "/v1/profile", { json: { document }, headers, timeoutMs: SAVE_MS })).data;
}

/**
 * @param {number} version
 * @param {string | null} etag
 * @param {string} key
 */
export async function goBack(version, etag, key) {
  const headers = { "Idempotency-Key": key, ...precondition(etag) };
  return (await call("POST", "/v1/profile/rollback", { json: { to_version: version }, headers, timeoutMs: SAVE_MS })).data;
}

/** @param {string} document @returns {Promise<Preview>} */
export const previewOf = async (document) => (await call("POST", "/v1/memory/preview", { json: { document: wellFormed(document) } })).data;

/** Stored text to this text. @param {string} document */
export const compareWithStored = async (document) => (await call("POST", "/v1/profile/differences", { json: { document: wellFormed(document) } })).data;

/** A version to the newest. @param {number} version */
export const compareVersion = async (version) => (await call("GET", `/v1/profile/differences?from=${version}`)).data;

/** @param {string | null} cursor */
export async function readVersions(cursor) {
  const from = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
  return (await call("GET", `/v1/profile/versions?limit=20${from}`)).data;
}

/** @param {string} text @returns {string} */
const wellFormed = (text) => /** @type {any} */ (text).toWellFormed?.() ?? text;

/** @param {string} text */
export const bytesOf = (text) => new TextEncoder().encode(text).length;

/** @param {string | null} etag @returns {Record<string, string>} */
const precondition = (etag) => (etag === null ? { "If-None-Match": "*" } : { "If-Match": `"${etag}"` });

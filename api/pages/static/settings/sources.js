// Who said what a thing rests on.
// @ts-check

import { call } from "../api.js";

/**
 * @typedef {import("./items.js").Source} Source
 */

/**
 * The sources with the names of those who said it. Without the messages (they expire) the quote still stands.
 * @param {(Source & { seq?: number | null })[]} sources
 * @returns {Promise<Source[]>}
 */
export async function withSpeakers(sources) {
  const numbers = [...new Set(sources.map((source) => source.seq).filter((seq) => typeof seq === "number"))].slice(0, 100);
  if (!numbers.length) return sources;
  try {
    const events = (await call("GET", `/v1/events?${numbers.map((seq) => `seq=${seq}`).join("&")}`)).data.items;
    const senders = new Map(events.map((/** @type {any} */ event) => [event.seq, speaker(event.sender_id)]));
    return sources.map((source) => ({ ...source, said_by: senders.get(source.seq) ?? null }));
  } catch {
    return sources;
  }
}

/** @param {string | null} sender */
export function speaker(sender) {
  if (sender === "user") return "You";
  return sender === "assistant" ? "The assistant" : sender;
}

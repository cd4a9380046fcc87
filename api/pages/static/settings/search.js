// Search over everything that is remembered.
// @ts-check

import { call } from "../api.js";
import { announce, busy, byId, el, errorNotice } from "../dom.js";
import { counted, timeElement } from "../format.js";
import { speaker } from "./sources.js";
import { say } from "./strings.js";

/** Kinds of what is found, in the order in which they are shown. @type {Record<string, string>} */
const KINDS = {
  profile: "In your memory",
  fact: "Facts",
  contact: "Contacts",
  task: "Tasks",
  message: "What was said",
  guidance: "How-tos",
  function: "Functions",
};

export function startSearch() {
  const form = byId("search-form");
  /** @type {HTMLInputElement} */
  const field = byId("search-words");
  const place = byId("search-found");
  const button = form.querySelector("button");

  async function search() {
    const query = field.value.trim();
    if (!query) {
      place.replaceChildren();
      return field.focus();
    }
    try {
      const found = (await call("POST", "/v1/search", { json: { query } })).data;
      show(query, found.items, found.unavailable ?? {});
    } catch (error) {
      const retry = el("button", { type: "button", class: "button", onclick: () => form.requestSubmit() }, say.retry);
      place.replaceChildren(errorNotice("The search failed.", /** @type {Error} */ (error).message, retry));
    }
    return undefined;
  }

  /**
   * @param {string} query
   * @param {any[]} items
   * @param {Record<string, string>} unavailable kinds that could not be searched, and why
   */
  function show(query, items, unavailable) {
    const kinds = Object.keys(KINDS).filter((kind) => items.some((item) => item.kind === kind));
    const groups = kinds.map((kind) => group(kind, items.filter((item) => item.kind === kind)));
    const summary = items.length ? `${counted(items.length, "thing")} found for “${query}”` : `Nothing is remembered that fits “${query}”.`;
    const missing = Object.keys(unavailable).map((kind) => KINDS[kind]?.toLowerCase() ?? kind);
    place.replaceChildren(
      el("p", { class: items.length ? "hint" : "nothing-here" }, summary),
      missing.length ? el("p", { class: "notice warning" }, `Not searched at the moment: ${missing.join(", ")}.`) : "",
      ...groups,
    );
    announce(summary);
  }

  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    busy(button, search);
  });
}

/**
 * @param {string} kind
 * @param {any[]} items
 */
function group(kind, items) {
  return el("section", {}, el("h3", {}, KINDS[kind]), el("ul", { class: "items" }, items.map(entry)));
}

/** @param {any} item */
function entry(item) {
  const about = [item.title ?? "", speaker(item.sender_id ?? null) ?? ""].filter(Boolean).join(", ");
  return el(
    "li",
    { class: "item" },
    el("p", { class: "item-title" }, item.text),
    el("p", { class: "item-facts" }, item.by_words === false ? el("span", { class: "tag" }, "near by meaning") : null, about ? el("span", {}, about) : null, item.at ? timeElement(item.at) : null),
  );
}

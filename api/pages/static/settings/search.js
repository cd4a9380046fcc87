// Search over everything that is remembered.
// @ts-check

import { call } from "../api.js";
import { announce, busy, byId, el, errorNotice, focusOn, toast } from "../dom.js";
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

/** @param {Record<string, (key: string) => Promise<HTMLElement>>} open by kind, the card of one item, to correct or forget it */
export function startSearch(open) {
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
    const groups = kinds.map((kind) => group(kind, items.filter((item) => item.kind === kind), open[kind]));
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
 * @param {((key: string) => Promise<HTMLElement>) | undefined} open
 */
function group(kind, items, open) {
  return el("section", {}, el("h3", {}, KINDS[kind]), el("ul", { class: "items" }, items.map((item) => entry(item, open))));
}

/**
 * @param {any} item
 * @param {((key: string) => Promise<HTMLElement>) | undefined} open
 */
function entry(item, open) {
  const about = [item.title ?? "", speaker(item.sender_id ?? null) ?? ""].filter(Boolean).join(", ");
  const made = el("li", { class: "item" });
  const button = open && el("button", { type: "button", class: "button quiet small", "aria-label": `Open: ${item.text.slice(0, 100)}` }, "Open");
  button?.addEventListener("click", () => busy(button, () => opened(made, () => open(item.item_id))));
  const text = el(
    "div",
    { class: "item-text" },
    el("p", {}, item.text),
    el("p", { class: "item-facts" }, item.by_words === false ? el("span", { class: "tag" }, "near by meaning") : null, about ? el("span", {}, about) : null, item.at ? timeElement(item.at) : null),
  );
  made.append(el("div", { class: "item-main" }, text, button ? el("div", { class: "item-actions" }, button) : null));
  return made;
}

/**
 * @param {HTMLElement} made what was found, which the card takes the place of
 * @param {() => Promise<HTMLElement>} open
 */
async function opened(made, open) {
  try {
    const card = await open();
    made.replaceWith(card);
    focusOn(/** @type {HTMLElement} */ (card.querySelector(".item-title")));
  } catch (error) {
    const problem = /** @type {import("../api.js").CallFailed} */ (error);
    toast(problem.status === 404 ? "It is not there any more." : problem.message);
  }
}

// A list of remembered things: paging, where each comes from, correcting and forgetting one, where the focus goes then.
// @ts-check

import { call } from "../api.js";
import { confirmed } from "../dialog.js";
import { announce, busy, el, errorNotice, focusOn, skeleton, toast } from "../dom.js";
import { counted, timeElement } from "../format.js";
import { say } from "./strings.js";

const PAGE = 10;

/**
 * @typedef {{ quote: string, said_at: string | null, origin: string, said_by?: string | null, event_id: string | null }} Source
 * @typedef {{
 *   group: HTMLElement,
 *   path: string,
 *   read: (key: string) => Promise<any>,
 *   one: string,
 *   empty: string,
 *   key: (item: any) => string | number,
 *   name: (item: any) => string,
 *   body: (item: any) => (Node | null)[],
 *   sources: (item: any) => Promise<Source[]>,
 *   keeps?: (item: any) => boolean,
 *   hasSources?: (item: any) => boolean,
 *   forgetPath: (item: any) => string,
 *   forgetText: string,
 *   correct: (item: any, done: (changed: any) => void) => Promise<boolean>,
 *   mayWrite: boolean,
 * }} Kind
 */

/** @param {Kind} kind */
export function startItems(kind) {
  const title = /** @type {HTMLElement} */ (kind.group.querySelector("h3"));
  const place = /** @type {HTMLElement} */ (kind.group.querySelector(".group-body"));
  const list = el("ul", { class: "items" });
  const more = el("button", { type: "button", class: "button", hidden: true }, `Show more ${title.textContent?.toLowerCase() ?? ""}`);
  /** @type {string | null} */
  let next = null;

  async function load() {
    place.replaceChildren(...skeleton(3));
    try {
      const page = await read(null);
      list.replaceChildren(...page.items.map((/** @type {any} */ item) => shown(item)));
      place.replaceChildren(list, more);
      onward(page.next);
    } catch (error) {
      const retry = el("button", { type: "button", class: "button" }, say.retry);
      retry.addEventListener("click", () => busy(retry, load));
      place.replaceChildren(errorNotice(`The ${title.textContent?.toLowerCase()} could not be loaded.`, /** @type {Error} */ (error).message, retry));
    }
  }

  /** @param {string | null} cursor */
  async function read(cursor) {
    const from = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const separator = kind.path.includes("?") ? "&" : "?";
    return (await call("GET", `${kind.path}${separator}limit=${PAGE}${from}`)).data;
  }

  /** @param {string | null} cursor */
  function onward(cursor) {
    next = cursor;
    more.hidden = next === null;
    if (!list.children.length) place.replaceChildren(el("p", { class: "nothing-here" }, kind.empty));
  }

  async function loadMore() {
    try {
      const page = await read(next);
      const added = page.items.map((/** @type {any} */ item) => shown(item));
      list.append(...added);
      onward(page.next);
      if (added[0]) focusOn(/** @type {HTMLElement} */ (added[0].querySelector(".item-title")));
      announce(`${counted(added.length, "more")} shown`);
    } catch (error) {
      toast(/** @type {Error} */ (error).message);
    }
  }

  /**
   * @param {any} item
   * @param {() => void} [apart] for a card outside of the list: it was changed or forgotten
   * @returns {HTMLElement}
   */
  function shown(item, apart) {
    const name = kind.name(item);
    const made = el("li", { class: "item", "data-key": kind.key(item) });
    const correct = el("button", { type: "button", class: "button quiet small", "aria-label": `Correct: ${name}` }, "Correct");
    const forget = el("button", { type: "button", class: "button quiet small danger", "aria-label": `Forget: ${name}` }, "Forget");
    correct.addEventListener("click", () => change(item, made, apart));
    forget.addEventListener("click", () => remove(item, made, forget, apart));
    const kept = kind.keeps?.(item) ?? false;
    made.append(
      el(
        "div",
        { class: "item-main" },
        el("div", { class: "item-text" }, kind.body(item)),
        kind.mayWrite ? el("div", { class: "item-actions" }, correct, kept ? null : forget) : null,
      ),
      (kind.hasSources?.(item) ?? true) ? origin(item) : "",
    );
    return made;
  }

  /** Where it comes from, read when it is asked for. @param {any} item */
  function origin(item) {
    const inside = el("div", {});
    const details = el("details", {}, el("summary", {}, "Where this comes from"), inside);
    details.addEventListener("toggle", async () => {
      if (!details.open || inside.hasChildNodes()) return;
      inside.replaceChildren(...skeleton(1));
      try {
        const sources = await kind.sources(item);
        inside.replaceChildren(...(sources.length ? sources.map(quote) : [el("p", { class: "muted" }, "There is no quote of it.")]));
      } catch (error) {
        inside.replaceChildren(el("p", { class: "field-error" }, /** @type {Error} */ (error).message));
        details.addEventListener("toggle", () => inside.replaceChildren(), { once: true });
      }
    });
    return details;
  }

  /**
   * @param {any} item
   * @param {HTMLElement} made
   * @param {() => void} [apart]
   */
  async function change(item, made, apart) {
    /** @type {HTMLElement | null} */
    let after = null;
    const saved = await kind.correct(item, (changed) => {
      after = shown(changed, apart);
      made.replaceWith(after);
    });
    if (!saved || after === null) return;
    toast(`Corrected: ${kind.one}.`);
    apart?.();
    focusOn(/** @type {HTMLElement} */ (/** @type {HTMLElement} */ (after).querySelector(".item-title")));
  }

  /**
   * @param {any} item
   * @param {HTMLElement} made
   * @param {HTMLElement} button
   * @param {() => void} [apart]
   */
  async function remove(item, made, button, apart) {
    if (!(await confirmed(`Forget this ${kind.one}?`, [kind.name(item), kind.forgetText], "Forget", { danger: true }))) return;
    await busy(button, async () => {
      try {
        await call("DELETE", kind.forgetPath(item));
      } catch (error) {
        return toast(`Not forgotten. ${/** @type {Error} */ (error).message}`);
      }
      const near = /** @type {HTMLElement | null} */ (made.nextElementSibling ?? made.previousElementSibling);
      made.remove();
      if (apart) {
        apart();
        focusOn(/** @type {HTMLElement} */ (near?.querySelector(".item-title") ?? document.getElementById("search-words")));
        return toast(`Forgotten: one ${kind.one}.`);
      }
      if (!list.children.length && next !== null) await load();
      else onward(next);
      focusOn(/** @type {HTMLElement} */ (near?.querySelector(".item-title") ?? title));
      return toast(`Forgotten: one ${kind.one}.`);
    });
  }

  /**
   * The card of one item outside of the list; what is done there is done in the list too.
   * @param {string} key
   */
  const open = async (key) => shown(await kind.read(key), load);

  more.addEventListener("click", () => busy(more, loadMore));
  return { load, open };
}

/** @param {Source} source */
function quote(source) {
  const manual = source.origin === "manual";
  const by = source.said_by ? `${source.said_by}` : manual ? "Written by hand" : "Said in a conversation";
  return el(
    "blockquote",
    {},
    el("p", {}, source.quote || "(no words kept)"),
    el("footer", {}, by, source.said_at ? [", ", timeElement(source.said_at)] : null),
  );
}

// The versions of the memory: what differs, and going back.
// @ts-check

import { newId } from "../api.js";
import { confirmed } from "../dialog.js";
import { busy, byId, el, errorNotice, focusOn, skeleton, toast } from "../dom.js";
import { number, size, timeElement } from "../format.js";
import { comparison } from "./comparison.js";
import { compareVersion, goBack, readVersions } from "./profile.js";
import { causeText, say } from "./strings.js";

/**
 * @typedef {{ version: number, etag: string, written_at: string, cause: string | null, size: number, is_latest: boolean }} Version
 */

/**
 * @param {{ mayWrite: boolean, isDirty: () => boolean, onWentBack: () => Promise<void> }} given
 */
export function startHistory({ mayWrite, isDirty, onWentBack }) {
  const place = byId("versions");
  const list = el("ol", { class: "items", reversed: true });
  const more = el("button", { type: "button", class: "button", hidden: true }, "Show older versions");
  /** @type {string | null} */
  let next = null;
  /** The newest version, which a roll-back expects. @type {string | null} */
  let newest = null;

  async function load() {
    if (!place.hasChildNodes()) place.replaceChildren(...skeleton(3));
    try {
      const page = await readVersions(null);
      newest = page.items[0]?.etag ?? null;
      list.replaceChildren(...page.items.map(item));
      place.replaceChildren(page.items.length ? list : el("p", { class: "nothing-here" }, "There is no version yet."), more);
      onward(page.next);
    } catch (error) {
      failed(/** @type {Error} */ (error));
    }
  }

  /** @param {Error} error */
  function failed(error) {
    const retry = el("button", { type: "button", class: "button" }, say.retry);
    retry.addEventListener("click", () => busy(retry, load));
    place.replaceChildren(errorNotice("The history could not be loaded.", error.message, retry));
  }

  /** @param {string | null} cursor */
  function onward(cursor) {
    next = cursor;
    more.hidden = next === null;
  }

  async function loadMore() {
    try {
      const page = await readVersions(next);
      const added = page.items.map(item);
      list.append(...added);
      onward(page.next);
      if (added[0]) focusOn(added[0].querySelector("h3") ?? added[0]);
    } catch (error) {
      toast(/** @type {Error} */ (error).message);
    }
  }

  /** @param {Version} version */
  function item(version) {
    const name = `version ${number(version.version)}`;
    const shown = el("div", { class: "item-comparison", id: `version-${version.version}`, hidden: true });
    const compare = el(
      "button",
      { type: "button", class: "button quiet small", "aria-expanded": "false", "aria-controls": shown.id, "aria-label": `Show differences between ${name} and now` },
      "Show differences",
    );
    compare.addEventListener("click", () => busy(compare, () => toggle(version, compare, shown)));
    const back = el("button", { type: "button", class: "button quiet small", "aria-label": `Go back to ${name}` }, "Go back to this");
    back.addEventListener("click", () => undo(version, back));
    return el(
      "li",
      { class: "item", "data-version": version.version },
      el(
        "div",
        { class: "item-main" },
        el(
          "div",
          { class: "item-text" },
          el("h3", { class: "item-title" }, `Version ${number(version.version)} `, version.is_latest ? el("span", { class: "tag accent" }, "Now") : null),
          el("p", { class: "item-facts" }, el("span", {}, causeText(version.cause)), timeElement(version.written_at), el("span", {}, size(version.size))),
        ),
        el("div", { class: "item-actions" }, version.is_latest ? null : [compare, mayWrite ? back : null]),
      ),
      shown,
    );
  }

  /**
   * @param {Version} version
   * @param {HTMLElement} button
   * @param {HTMLElement} shown
   */
  async function toggle(version, button, shown) {
    const open = button.getAttribute("aria-expanded") === "true";
    if (!open) {
      try {
        shown.replaceChildren(comparison(await compareVersion(version.version), `Version ${number(version.version)}`, "Now"));
      } catch (error) {
        shown.replaceChildren(errorNotice("The versions could not be compared.", /** @type {Error} */ (error).message));
      }
    }
    shown.hidden = open;
    button.setAttribute("aria-expanded", String(!open));
    const words = button.lastChild;
    if (words !== null) words.textContent = open ? "Show differences" : "Hide differences";
  }

  /**
   * @param {Version} version
   * @param {HTMLElement} button
   */
  async function undo(version, button) {
    const text = [`Your memory becomes again what it was in version ${number(version.version)}. The versions since then stay in the history, so this can be undone too.`];
    if (isDirty()) text.push("You have unsaved changes in the editor. They stay there, and you will see both versions when you save them.");
    if (await confirmed(`Go back to version ${number(version.version)}?`, text, "Go back")) await busy(button, () => goBackTo(version));
  }

  /** @param {Version} version */
  async function goBackTo(version) {
    try {
      const done = await goBack(version.version, newest, newId());
      await onWentBack();
      await load();
      toast(`Your memory is that of version ${number(version.version)} again. It is now version ${number(done.version)}.`);
      focusOn(byId("history-title"));
    } catch (error) {
      const problem = /** @type {import("../api.js").CallFailed} */ (error);
      if (problem.type === "profile-conflict") await load();
      toast(problem.type === "profile-conflict" ? "Your memory was changed meanwhile. Look at the newest version and try again." : problem.message);
    }
  }

  more.addEventListener("click", () => busy(more, loadMore));
  return { load };
}

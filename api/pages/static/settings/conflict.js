// Somebody else saved first: both versions side by side, and a third text that is put together by hand.
// @ts-check

import { byId, el, focusOn, busy, skeleton } from "../dom.js";
import { number, when } from "../format.js";
import { comparison } from "./comparison.js";
import { compareWithStored } from "./profile.js";
import { causeText, say } from "./strings.js";

/**
 * @param {{
 *   mine: string,
 *   stored: import("./profile.js").Profile,
 *   save: (text: string) => Promise<void>,
 *   drop: () => void,
 *   changed: (text: string) => void,
 * }} given `save` saves against the stored version, `drop` keeps that one, `changed` is told of every change of the merged text
 */
export function showConflict({ mine, stored, save, drop, changed }) {
  const place = byId("conflict");
  const title = el("h3", { id: "conflict-title" }, say.conflictTitle);
  const compared = el("div", { id: "conflict-compared" }, skeleton(3));
  const problem = el("div", { id: "conflict-problem" });
  const merged = el("textarea", { id: "merged", class: "mono", rows: 16, "aria-describedby": "merge-hint merged-problem", value: mine });
  const theirs = el("textarea", { id: "stored-text", class: "mono", rows: 8, readonly: true, value: stored.body });
  const submit = el("button", { type: "submit", class: "button primary", id: "save-merged" }, say.saveMerged);
  const form = el(
    "form",
    { id: "merge", novalidate: true },
    el("label", { for: "merged" }, say.mergeLabel),
    el("p", { class: "hint", id: "merge-hint" }, say.mergeHint),
    merged,
    el("p", { class: "field-error", id: "merged-problem" }),
    problem,
    el(
      "div",
      { class: "row" },
      submit,
      el("button", { type: "button", class: "button", onclick: () => fill(stored.body) }, say.takeTheirs),
      el("button", { type: "button", class: "button", onclick: () => fill(mine) }, say.takeMine),
      el("button", { type: "button", class: "button quiet danger", id: "drop-mine", onclick: drop }, say.dropMine),
    ),
  );

  /** @param {string} text */
  function fill(text) {
    merged.value = text;
    changed(text);
    merged.focus();
  }

  merged.addEventListener("input", () => changed(merged.value));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    problem.replaceChildren();
    busy(submit, () => save(merged.value));
  });

  const by = [`version ${number(stored.version)}`, lower(causeText(stored.cause)), when(stored.last_updated)].filter(Boolean).join(", ");
  place.replaceChildren(
    el("div", { class: "notice warning", role: "alert" }, title, el("p", {}, say.conflictText(by))),
    compared,
    el("details", {}, el("summary", {}, "Show the whole stored text"), el("label", { for: "stored-text", class: "visually-hidden" }, "Stored text"), theirs),
    form,
  );
  place.hidden = false;
  focusOn(title);
  compare(mine, compared);
}

/**
 * @param {string} mine
 * @param {HTMLElement} place
 */
async function compare(mine, place) {
  try {
    place.replaceChildren(comparison(await compareWithStored(mine), "Stored now", "Yours"));
  } catch {
    place.replaceChildren(el("p", { class: "hint" }, say.notCompared));
  }
}

/** @param {string} text */
const lower = (text) => text.charAt(0).toLowerCase() + text.slice(1);

export function hideConflict() {
  const place = byId("conflict");
  place.hidden = true;
  place.replaceChildren();
}

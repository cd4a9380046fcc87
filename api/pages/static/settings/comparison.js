// Two versions side by side, with what differs marked: by colour, by signs and in words.
// @ts-check

import { el } from "../dom.js";
import { counted } from "../format.js";

/**
 * @typedef {{ text: string, marked: boolean }} Piece
 * @typedef {{ kind: "same" | "removed" | "added" | "changed" | "gap", before: Piece[] | null, after: Piece[] | null, lines: number }} Row
 * @typedef {{ rows: Row[], removed: number, added: number, coarse: boolean, complete: boolean }} Differences
 */

/**
 * @param {Differences} found
 * @param {string} before name of the first version
 * @param {string} after name of the second version
 */
export function comparison(found, before, after) {
  if (!found.removed && !found.added) return el("p", { class: "muted" }, "There is no difference.");
  const caption = `${counted(found.removed, "line")} only in “${before}”, ${counted(found.added, "line")} only in “${after}”. A changed line counts in both.`;
  return el(
    "div",
    {},
    found.coarse ? el("p", { class: "hint" }, "The two are too long to be compared line by line.") : null,
    el(
      "div",
      { class: "comparison-frame", role: "region", "aria-label": `${before} beside ${after}`, tabindex: "0" },
      el(
        "table",
        { class: "comparison" },
        el("caption", { class: "visually-hidden" }, caption),
        el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "sign" }, hidden("Mark")), el("th", { scope: "col" }, before), el("th", { scope: "col", class: "sign" }, hidden("Mark")), el("th", { scope: "col" }, after))),
        el("tbody", {}, found.rows.map(line)),
      ),
    ),
    found.complete ? null : el("p", { class: "hint" }, "Only the first lines are shown."),
    el("p", { class: "hint" }, caption),
  );
}

/** @param {Row} row */
function line(row) {
  if (row.kind === "gap") return el("tr", { class: "gap" }, el("td", { colspan: "4" }, `${counted(row.lines, "equal line")} not shown`));
  const different = row.kind !== "same";
  return el(
    "tr",
    { class: row.kind },
    side(row.before, different, "removed-side", "−", "Only in the first: ", "del"),
    side(row.after, different, "added-side", "+", "Only in the second: ", "ins"),
  );
}

/**
 * @param {Piece[] | null} pieces
 * @param {boolean} different
 * @param {string} colour
 * @param {string} sign
 * @param {string} words
 * @param {"del" | "ins"} tag
 */
function side(pieces, different, colour, sign, words, tag) {
  const where = tag === "ins" ? "after-cell" : "before-cell";
  if (pieces === null) return [el("td", { class: `sign none ${where}` }), el("td", { class: `none ${where}` })];
  const cell = different ? `${colour} ${where}` : where;
  return [
    el("td", { class: `sign ${cell}` }, different ? el("span", { "aria-hidden": "true" }, sign) : null),
    el("td", { class: cell }, different ? hidden(words) : null, pieces.map((piece) => (piece.marked ? el(tag, {}, piece.text) : piece.text))),
  ];
}

/** @param {string} text */
function hidden(text) {
  return el("span", { class: "visually-hidden" }, text);
}

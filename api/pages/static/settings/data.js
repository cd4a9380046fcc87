// Taking everything along, and deleting everything.
// @ts-check

import { call } from "../api.js";
import { ask } from "../dialog.js";
import { announce, busy, byId, el, errorNotice, focusOn } from "../dom.js";
import { number, size, when } from "../format.js";

const TYPED = "delete everything";
const EXPORT_MS = 300_000;
const POLL_MS = 1_000;
const MAX_POLLS = 600;
const MAX_MISSED = 5;

/** @param {{ dropDraft: () => void, onForgotten: () => void }} editor */
export function startData(editor) {
  const exportButton = byId("export");
  const forgetButton = byId("forget");
  exportButton.addEventListener("click", () => busy(exportButton, download));
  forgetButton.addEventListener("click", () => forget(forgetButton, editor));
  showEarlier();
}

// ----------------------------------------------------------------------------------------------------------------- export

async function download() {
  const place = byId("export-state");
  place.replaceChildren(progress("Collecting everything…"));
  announce("Collecting everything…");
  try {
    const reply = await call("GET", "/v1/export", { as: "blob", timeoutMs: EXPORT_MS });
    const link = el("a", { href: URL.createObjectURL(reply.data), download: fileName(reply.headers) });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    const text = `Downloaded: ${fileName(reply.headers)}, ${size(reply.data.size)}.`;
    place.replaceChildren(el("p", { class: "hint" }, text));
    announce(text);
  } catch (error) {
    place.replaceChildren(errorNotice("The download failed.", `${/** @type {Error} */ (error).message} Press the button to try again.`));
  }
}

/** @param {Headers} headers */
function fileName(headers) {
  const named = /filename="([^"\\/]{1,120})"/.exec(headers.get("content-disposition") ?? "");
  return named?.[1] ?? "context-memory.zip";
}

// ----------------------------------------------------------------------------------------------------------------- forget

/**
 * @param {HTMLElement} button
 * @param {{ dropDraft: () => void, onForgotten: () => void }} editor
 */
async function forget(button, editor) {
  const text = [
    "Your memory with all its versions, all facts, contacts, tasks, recorded messages and tables, usage details and your choice under “On or off” are deleted for good. What belongs to a team stays with the team.",
    "You may want to download everything first.",
  ];
  const choices = [
    { label: "Cancel", value: "no" },
    { label: "Delete everything", value: "yes", kind: "danger primary" },
  ];
  const answer = await ask({ title: "Delete everything?", text, choices, typed: TYPED, typedLabel: `To go on, type: ${TYPED}` });
  if (answer === "yes") await busy(button, () => erase(editor));
}

/** @param {{ dropDraft: () => void, onForgotten: () => void }} editor */
async function erase(editor) {
  const place = byId("forget-state");
  place.replaceChildren(progress("Deleting…"));
  announce("Deleting everything…");
  try {
    const erasure = await start();
    editor.dropDraft();
    await follow(erasure, place);
    editor.onForgotten();
  } catch (error) {
    place.replaceChildren(errorNotice("Not finished.", `${/** @type {Error} */ (error).message} Press the button to try again: what was deleted already stays deleted.`));
  }
}

const start = async () => (await call("POST", "/v1/forget", { json: { confirm: TYPED }, timeoutMs: 60_000 })).data;

/**
 * Until it is done. A lost connection does not end it: it goes on in the server.
 * @param {any} erasure
 * @param {HTMLElement} place
 */
async function follow(erasure, place) {
  let missed = 0;
  for (let poll = 0; poll < MAX_POLLS && erasure.state === "running"; poll += 1) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    try {
      erasure = (await call("GET", `/v1/forget/${encodeURIComponent(erasure.erasure_id)}`)).data;
      missed = 0;
    } catch (error) {
      if ((missed += 1) > MAX_MISSED) throw error;
    }
  }
  if (erasure.state === "running") {
    place.replaceChildren(el("p", { class: "notice" }, "It takes longer than usual and goes on in the background. Look here again later."));
    return;
  }
  const receipt = el("h4", { id: "receipt-title" }, "Receipt");
  place.replaceChildren(summary(erasure), receipt, table(erasure), problems(erasure.problems));
  announce("Everything is deleted.");
  focusOn(receipt);
}

/** What was deleted before, or is being deleted: a reload does not lose sight of it. */
async function showEarlier() {
  const place = byId("forget-state");
  const newest = await call("GET", "/v1/forget").then((reply) => reply.data.items[0], () => null);
  if (!newest || place.hasChildNodes()) return;
  if (newest.state === "running") {
    place.replaceChildren(progress("Deleting…"));
    await follow(newest, place).catch((error) => place.replaceChildren(errorNotice("Not finished.", error.message)));
  } else {
    const about = `Receipt of the last deletion, ${when(newest.started_at)}`;
    place.replaceChildren(el("details", {}, el("summary", {}, about), table(newest), problems(newest.problems)));
  }
}

/** @param {any} erasure */
function summary(erasure) {
  const waits = erasure.state === "erased";
  return el(
    "div",
    { class: "notice good" },
    el("p", {}, el("strong", {}, "Everything is deleted."), ` ${when(erasure.erased_at ?? erasure.finished_at ?? erasure.started_at)}`),
    waits ? el("p", {}, "What was still on its way at that time is waited for and deleted too. Until then nothing new is remembered.") : null,
  );
}

/** @param {any} erasure */
function table(erasure) {
  const rows = Object.entries(erasure.counts).filter(([, count]) => Number(count) > 0);
  return el(
    "div",
    { class: "table-scroll" },
    el(
      "table",
      { class: "receipt" },
      el("caption", {}, `Number ${erasure.erasure_id}, asked for ${when(erasure.started_at)}. It says how much was deleted, and nothing of what it was.`),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Deleted from"), el("th", { scope: "col", class: "number" }, "How many"))),
      el("tbody", {}, rows.length ? rows.map(([name, count]) => el("tr", {}, el("td", {}, place(name)), el("td", { class: "number" }, number(Number(count))))) : el("tr", {}, el("td", { colspan: "2" }, "There was nothing to delete."))),
    ),
  );
}

/** What the stores hold under names of their own. @type {Record<string, string>} */
const PLACES = {
  "objects.profile_versions": "Versions of your memory",
  "rows.turns": "Questions and answers",
  "rows.events": "Recorded messages",
  "rows.windows": "Notes on what was learned from messages",
  "rows.provenance": "Quotes and where they come from",
  "rows.contact_aliases": "Names and addresses of contacts",
  "rows.term_frequencies": "Search index: words",
  "rows.term_totals": "Search index: counts of words",
  "rows.effects": "Notes on what was applied",
  "rows.model_usage": "Usage details",
  "rows.record_owners": "Notes on whose records these are",
  "rows.user_counters": "Counters",
  "rows.user_preferences": "Your choice under “On or off”",
};

/** `rows.contact_changes` to "Contact changes", `vectors.facts` to "Search index by meaning: facts". @param {string} name */
function place(name) {
  const [store, what = store] = name.split(".");
  const words = what.replaceAll("_", " ");
  if (store === "vectors") return `Search index by meaning: ${words}`;
  return PLACES[name] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

/** @param {string[]} found */
function problems(found) {
  return found.length ? errorNotice("Some of it could not be deleted and is tried again.", found.join("; ")) : el("span", {});
}

/** @param {string} text */
function progress(text) {
  return el("p", { class: "progress" }, el("span", { class: "spinner", "aria-hidden": "true" }), text);
}

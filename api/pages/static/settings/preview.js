// The preview and the gauge, made by the server from what is typed, a moment after it was typed.
// @ts-check

import { byId, el, setRendered } from "../dom.js";
import { MAX_BYTES, bytesOf, previewOf } from "./profile.js";
import { say } from "./strings.js";

const QUIET_MS = 400;
const QUIET_LONG_MS = 1500;
const LONG_CHARS = 100_000;

/** @param {HTMLTextAreaElement} field whose text is shown */
export function startPreview(field) {
  const body = byId("preview");
  const note = byId("preview-note");
  let timer = 0;
  let asked = 0;

  function soon() {
    body.classList.add("stale");
    clearTimeout(timer);
    timer = setTimeout(now, field.value.length > LONG_CHARS ? QUIET_LONG_MS : QUIET_MS);
  }

  async function now() {
    clearTimeout(timer);
    const mine = (asked += 1);
    if (bytesOf(field.value) > MAX_BYTES) return showNote(null);
    try {
      const preview = await previewOf(field.value);
      // A later text may have been answered first.
      if (mine === asked) show(preview);
    } catch {
      if (mine === asked) showNote(say.previewWaits);
    }
  }

  /** @param {import("./profile.js").Preview} preview */
  function show(preview) {
    for (const section of preview.sections) {
      const place = body.querySelector(`[data-section="${CSS.escape(section.title)}"] .preview-body`);
      if (place === null) continue;
      if (section.html) setRendered(place, section.html);
      else place.replaceChildren(el("p", { class: "nothing" }, say.nothingInSection));
    }
    body.classList.remove("stale");
    showBudget(preview.tokens, preview.max_tokens);
    const secrets = Object.values(preview.removed).reduce((sum, count) => sum + count, 0);
    const notes = [secrets ? say.removed(secrets) : "", preview.complete ? "" : say.previewCut];
    showNote(notes.filter(Boolean).join(" ") || null);
  }

  /** @param {string | null} text */
  function showNote(text) {
    note.hidden = text === null;
    note.textContent = text;
  }

  field.addEventListener("input", soon);
  return { now };
}

/**
 * @param {number} tokens
 * @param {number} most
 */
export function showBudget(tokens, most) {
  const share = most > 0 ? tokens / most : 0;
  const meter = byId("budget");
  const over = byId("budget-over");
  meter.dataset.level = share > 1 ? "over" : share > 0.9 ? "near" : "fine";
  meter.setAttribute("aria-valuemax", String(most));
  meter.setAttribute("aria-valuenow", String(Math.min(tokens, most)));
  meter.setAttribute("aria-valuetext", say.budget(tokens, most));
  byId("budget-bar").style.width = `${Math.min(100, share * 100)}%`;
  byId("budget-text").textContent = say.budget(tokens, most);
  over.hidden = share <= 1;
  over.textContent = share > 1 ? say.overBudget : "";
}

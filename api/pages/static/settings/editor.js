// The editor of the memory and its states: loading, empty, ready, unsaved, saving, saved, save-error, conflict, unavailable, error.
// @ts-check

import { CallFailed, newId } from "../api.js";
import { confirmed } from "../dialog.js";
import { announce, busy, byId, el, errorNotice, focusOn } from "../dom.js";
import { number, timeOfDay, when } from "../format.js";
import { hideConflict, showConflict } from "./conflict.js";
import { draftOf } from "./draft.js";
import { showBudget, startPreview } from "./preview.js";
import { MAX_BYTES, bytesOf, readProfile, saveProfile } from "./profile.js";
import { TEMPLATE, causeText, say } from "./strings.js";

/**
 * @typedef {import("./profile.js").Profile} Profile
 * @typedef {"loading" | "empty" | "ready" | "unsaved" | "saving" | "saved" | "save-error" | "conflict" | "unavailable" | "error"} State
 */

/** @param {{ user: string, onStored: () => void }} given `onStored`: there is another newest version */
export function startEditor({ user, onStored }) {
  const card = byId("memory");
  const form = byId("editor");
  /** @type {HTMLTextAreaElement} */
  const field = byId("document");
  const notice = byId("memory-notice");
  const problem = byId("save-problem");
  const draft = draftOf(user);
  const preview = startPreview(field);

  /** What is stored, as far as this page knows. @type {Profile | null} */
  let stored = null;
  /** The text that counts as unchanged. */
  let base = "";
  /** The version that the text is an edit of. @type {string | null} */
  let baseEtag = null;
  /** A save that may be tried again: the same text over the same version is the same save. */
  let attempt = /** @type {{ text: string, etag: string | null, key: string } | null} */ (null);
  let merging = false;

  // ------------------------------------------------------------------------------------------------------------ states

  /** @param {State} state */
  function enter(state) {
    card.dataset.state = state;
    card.setAttribute("aria-busy", String(state === "loading"));
    byId("memory-loading").hidden = state !== "loading";
    byId("memory-empty").hidden = state !== "empty";
    form.hidden = ["loading", "empty", "unavailable", "error", "conflict"].includes(state);
    byId("discard").hidden = !isDirty();
    if (state !== "conflict") hideConflict();
    const texts = { unsaved: say.unsaved, saving: say.saving, "save-error": say.saveFailed, ready: say.clean };
    if (state in texts) saveState(state, /** @type {any} */ (texts)[state]);
  }

  /**
   * @param {string} state
   * @param {string} text
   */
  function saveState(state, text) {
    const place = byId("save-state");
    place.dataset.state = state === "save-error" ? "error" : state;
    place.replaceChildren(state === "saving" ? el("span", { class: "spinner", "aria-hidden": "true" }) : "", text);
  }

  const isDirty = () => merging || field.value !== base;

  // ----------------------------------------------------------------------------------------------------------- loading

  async function load() {
    enter("loading");
    notice.replaceChildren();
    announce(say.loading);
    try {
      show(await readProfile());
      announce(say.loaded);
    } catch (error) {
      showLoadProblem(/** @type {CallFailed} */ (error));
    }
  }

  /** @param {Profile} profile */
  function show(profile) {
    stored = profile;
    const kept = draft.read();
    adopt(profile);
    if (kept !== null && kept.text !== profile.body) {
      baseEtag = kept.etag;
      field.value = kept.text;
      showKeptDraft(kept.etag !== profile.etag);
      return edited();
    }
    showBudget(profile.tokens, profile.max_tokens);
    if (!profile.exists) return showEmpty();
    enter("ready");
    return void preview.now();
  }

  /** The stored version becomes what is edited. @param {Profile} profile */
  function adopt(profile) {
    stored = profile;
    base = profile.exists ? profile.body : "";
    baseEtag = profile.etag;
    field.value = base;
    merging = false;
    const about = profile.exists ? [`Version ${number(profile.version)}`, when(profile.last_updated), causeText(profile.cause)] : [];
    byId("memory-version").textContent = about.filter(Boolean).join(" · ");
  }

  /** @param {boolean} changed */
  function showKeptDraft(changed) {
    const drop = el("button", { type: "button", class: "button small", onclick: discard }, say.draftDrop);
    const text = changed ? `${say.draftKept} ${say.changedMeanwhile}` : say.draftKept;
    notice.replaceChildren(el("div", { class: "notice", role: "status" }, el("p", {}, text), drop));
  }

  function showEmpty() {
    const write = el("button", { type: "button", class: "button", id: "write" }, say.write);
    write.addEventListener("click", () => {
      base = TEMPLATE;
      field.value = TEMPLATE;
      enter("ready");
      preview.now();
      field.focus();
    });
    byId("memory-empty").replaceChildren(
      el("div", { class: "notice" }, el("h3", {}, say.emptyTitle), say.emptyText.map((text) => el("p", {}, text)), field.readOnly ? null : write),
    );
    enter("empty");
  }

  /** @param {CallFailed} error */
  function showLoadProblem(error) {
    const retry = el("button", { type: "button", class: "button", id: "retry" }, say.retry);
    retry.addEventListener("click", () => busy(retry, load));
    if (error.type === "unreadable-profile") return showUnreadable(error);
    const away = error.trouble === "unavailable" || error.type === "root-clash";
    const title = away ? say.unavailable : say.notLoaded;
    notice.replaceChildren(errorNotice(title, away ? `${error.message} ${say.unavailableHint}` : error.message, retry));
    return enter(away ? "unavailable" : "error");
  }

  /** Another program put something there that is no profile; it can be saved over. @param {CallFailed} error */
  function showUnreadable(error) {
    notice.replaceChildren(errorNotice(say.unreadable, `${error.message} ${say.unreadableHint}`));
    base = field.value = TEMPLATE;
    baseEtag = error.body.etag ?? null;
    enter("ready");
    preview.now();
  }

  /** Look whether another version is stored by now. Never takes away what is typed. */
  async function refresh() {
    if (["loading", "saving", "conflict"].includes(card.dataset.state ?? "")) return;
    const found = await readProfile().catch(() => null);
    if (found === null || found.etag === stored?.etag) return;
    if (isDirty()) {
      stored = found;
      notice.replaceChildren(el("div", { class: "notice", role: "status" }, el("p", {}, say.changedMeanwhile)));
    } else {
      notice.replaceChildren();
      show(found);
      onStored();
    }
  }

  // ----------------------------------------------------------------------------------------------------------- editing

  function edited() {
    const dirty = isDirty();
    if (dirty) draft.keep(field.value, baseEtag);
    else draft.drop();
    checkSize();
    if (card.dataset.state !== "saving") enter(dirty ? "unsaved" : "ready");
  }

  /** Says so where a text is too long to be saved. */
  function checkSize(text = field.value) {
    const bytes = bytesOf(text);
    // What is stored may be longer than what was sent: headings were put in. That is no fault of the person.
    const told = bytes > MAX_BYTES && isDirty() ? say.tooLong(bytes) : "";
    const [place, input] = merging ? [byId("merged-problem"), byId("merged")] : [byId("document-problem"), field];
    place.textContent = told;
    if (told) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    return told === "";
  }

  async function discard() {
    if (!(await confirmed(say.discardTitle, [say.discardText], say.discard, { danger: true }))) return;
    draft.drop();
    notice.replaceChildren();
    problem.replaceChildren();
    if (stored !== null) show(stored);
    checkSize();
    focusOn(byId("memory-title"));
  }

  // ------------------------------------------------------------------------------------------------------------ saving

  /** @param {string} text */
  async function save(text) {
    problem.replaceChildren();
    if (!checkSize(text)) return merging ? byId("merged").focus() : field.focus();
    if (!isDirty()) return announce(say.nothingToSave);
    if (attempt?.text !== text || attempt.etag !== baseEtag) attempt = { text, etag: baseEtag, key: newId() };
    if (!merging) enter("saving");
    announce(say.saving);
    try {
      await showSaved(await saveProfile(text, baseEtag, attempt.key), text);
    } catch (error) {
      if (error instanceof CallFailed && error.type === "profile-conflict") await meetConflict(text);
      else showSaveProblem(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /**
   * @param {{ version: number, etag: string | null }} saved
   * @param {string} text that was sent; what is stored is tidier
   */
  async function showSaved(saved, text) {
    const wasMerging = merging;
    const typedMeanwhile = !wasMerging && field.value !== text ? field.value : null;
    draft.drop();
    notice.replaceChildren();
    attempt = null;
    const found = await readProfile().catch(() => null);
    adopt(found ?? { ...(stored ?? emptyProfile()), ...saved, body: text, exists: true });
    if (typedMeanwhile !== null) field.value = typedMeanwhile;
    enter("ready");
    edited();
    if (typedMeanwhile === null) {
      enter("saved");
      saveState("saved", say.saved(saved.version, timeOfDay(new Date())));
    }
    announce(say.saved(saved.version, timeOfDay(new Date())));
    if (wasMerging) field.focus();
    preview.now();
    onStored();
  }

  /** @param {Error} error */
  function showSaveProblem(error) {
    const unsure = error instanceof CallFailed && error.unsure;
    const text = [error.message, say.kept, unsure ? say.unsure : ""].filter(Boolean).join(" ");
    const retry = el("button", { type: "button", class: "button", id: "save-again" }, say.retry);
    if (merging) {
      retry.addEventListener("click", () => byId("save-merged").click());
      return byId("conflict-problem").replaceChildren(errorNotice(say.saveFailed, text, retry));
    }
    retry.addEventListener("click", () => save(field.value));
    problem.replaceChildren(errorNotice(say.saveFailed, text, retry));
    enter("save-error");
    byId("discard").hidden = false;
    problem.scrollIntoView({ block: "nearest" });
    return undefined;
  }

  /** @param {string} mine */
  async function meetConflict(mine) {
    /** @type {Profile} */
    let theirs;
    try {
      theirs = await readProfile();
    } catch (error) {
      return showSaveProblem(/** @type {Error} */ (error));
    }
    stored = theirs;
    // A reload in the middle of merging leads back here: the draft stays an edit of the version that it began with.
    const began = draft.read()?.etag ?? baseEtag;
    baseEtag = theirs.etag;
    merging = true;
    draft.keep(mine, began);
    enter("conflict");
    announce(say.conflictTitle);
    return showConflict({
      mine,
      stored: theirs,
      save,
      drop: keepTheirs,
      changed: (text) => draft.keep(text, began),
    });
  }

  function keepTheirs() {
    draft.drop();
    merging = false;
    notice.replaceChildren();
    if (stored !== null) show(stored);
    focusOn(byId("memory-title"));
  }

  field.addEventListener("input", edited);
  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    if (card.dataset.state !== "saving") save(field.value);
  });
  form.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  byId("discard").addEventListener("click", discard);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") refresh();
  });
  load();
  return { load, refresh, isDirty, dropDraft: draft.drop, etag: () => stored?.etag ?? null };
}

/** @returns {Profile} */
function emptyProfile() {
  return { body: "", exists: false, version: 0, etag: null, last_updated: null, tokens: 0, max_tokens: 0, cause: null };
}

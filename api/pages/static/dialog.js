// Questions that have to be answered before something is done. The focus returns to where it was.
// @ts-check

import { el } from "./dom.js";

let count = 0;

/**
 * @typedef {{ label: string, value: string, kind?: string }} Choice
 */

/**
 * Ask. Escape and the first choice mean "do nothing"; it has the focus at first, so that Enter alone harms nobody.
 * @param {{ title: string, text: (string | Node)[], choices: Choice[], typed?: string, typedLabel?: string }} question
 *   `typed`: words that have to be typed before the last choice can be taken
 * @returns {Promise<string>} value of the choice
 */
export function ask({ title, text, choices, typed, typedLabel }) {
  const id = `dialog-${(count += 1)}`;
  const field = typed === undefined ? null : el("input", { type: "text", id: `${id}-typed`, autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
  const buttons = choices.map((choice) => el("button", { type: "submit", value: choice.value, class: `button ${choice.kind ?? ""}` }, choice.label));
  const dialog = el(
    "dialog",
    { "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-text` },
    el(
      "form",
      { method: "dialog" },
      el("h2", { id: `${id}-title` }, title),
      el("div", { id: `${id}-text` }, text.map((part) => (typeof part === "string" ? el("p", {}, part) : part))),
      field && el("div", { class: "field" }, el("label", { for: `${id}-typed` }, typedLabel ?? ""), field),
      el("div", { class: "row end" }, buttons),
    ),
  );
  if (field !== null) guard(field, buttons[buttons.length - 1], typed ?? "");
  return shown(dialog, field ?? buttons[0], choices[0].value);
}

/**
 * Yes or no.
 * @param {string} title
 * @param {(string | Node)[]} text
 * @param {string} label of the button that does it
 * @param {{ danger?: boolean }} [options]
 */
export async function confirmed(title, text, label, options = {}) {
  const choices = [
    { label: "Cancel", value: "no" },
    { label, value: "yes", kind: options.danger ? "danger primary" : "primary" },
  ];
  return (await ask({ title, text, choices })) === "yes";
}

/**
 * A form in a dialog. `save` gets the form; what it throws is shown in the dialog, which stays open with what was typed.
 * @param {{ title: string, fields: Node[], label: string, save: (form: HTMLFormElement) => Promise<void> }} given
 * @returns {Promise<boolean>} whether it was saved
 */
export function editInDialog({ title, fields, label, save }) {
  const id = `dialog-${(count += 1)}`;
  const error = el("p", { class: "field-error", id: `${id}-error`, role: "alert" });
  const cancel = el("button", { type: "button", class: "button" }, "Cancel");
  const submit = el("button", { type: "submit", class: "button primary" }, label);
  const form = el("form", { novalidate: true }, el("h2", { id: `${id}-title` }, title), fields, error, el("div", { class: "row end" }, cancel, submit));
  const dialog = el("dialog", { "aria-labelledby": `${id}-title` }, form);
  cancel.addEventListener("click", () => dialog.close("no"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.getAttribute("aria-disabled") === "true") return;
    submit.setAttribute("aria-disabled", "true");
    error.textContent = "";
    try {
      await save(form);
      dialog.close("yes");
    } catch (problem) {
      error.textContent = problem instanceof Error ? problem.message : String(problem);
      /** @type {HTMLElement | null} */ (form.querySelector("[aria-invalid='true'], textarea, input"))?.focus();
    } finally {
      submit.removeAttribute("aria-disabled");
    }
  });
  const first = /** @type {HTMLElement} */ (form.querySelector("textarea, input, select") ?? cancel);
  return shown(dialog, first, "no").then((value) => value === "yes");
}

/**
 * @param {HTMLInputElement} field
 * @param {HTMLButtonElement} button
 * @param {string} typed
 */
function guard(field, button, typed) {
  const check = () => {
    button.disabled = field.value.trim().toLowerCase() !== typed.toLowerCase();
  };
  field.addEventListener("input", check);
  // Enter would press the first button: whoever typed the words means the last one, and whoever did not is still typing.
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (!button.disabled) button.click();
  });
  check();
}

/**
 * @param {HTMLDialogElement} dialog
 * @param {HTMLElement} first
 * @param {string} otherwise
 * @returns {Promise<string>}
 */
function shown(dialog, first, otherwise) {
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  document.body.append(dialog);
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before?.isConnected) before.focus();
      resolve(dialog.returnValue || otherwise);
    });
    dialog.showModal();
    first.focus();
  });
}

// Labelled fields of the forms in dialogs, and what is in them.
// @ts-check

import { el } from "../dom.js";

/**
 * @param {string} name
 * @param {string} label
 * @param {string} value
 * @param {Record<string, any>} attributes
 */
export function input(name, label, value, attributes) {
  return field(name, label, el("input", { id: `field-${name}`, name, value, autocomplete: "off", "aria-describedby": `field-${name}-error`, ...attributes }));
}

/**
 * @param {string} name
 * @param {string} label
 * @param {string} value
 * @param {Record<string, any>} attributes
 */
export function area(name, label, value, attributes) {
  return field(name, label, el("textarea", { id: `field-${name}`, name, value, "aria-describedby": `field-${name}-error`, ...attributes }));
}

/**
 * @param {string} name
 * @param {string} label
 * @param {string} value
 * @param {Record<string, string>} choices
 */
export function select(name, label, value, choices) {
  const options = Object.entries(choices).map(([key, text]) => el("option", { value: key }, text));
  const made = el("select", { id: `field-${name}`, name }, options);
  made.value = value;
  return field(name, label, made);
}

/**
 * What is in a field. With `missing`, an empty one is marked, and that is thrown.
 * @param {HTMLFormElement} form
 * @param {string} name
 * @param {string} [missing]
 */
export function valueOf(form, name, missing) {
  const element = /** @type {HTMLInputElement} */ (form.elements.namedItem(name));
  const value = element.value.trim();
  element.removeAttribute("aria-invalid");
  const told = form.querySelector(`#field-${name}-error`);
  if (told !== null) told.textContent = "";
  if (missing !== undefined && value === "") {
    element.setAttribute("aria-invalid", "true");
    if (told !== null) told.textContent = missing;
    throw new Error("Something is missing: see the marked field.");
  }
  return value;
}

/**
 * @param {string} name
 * @param {string} label
 * @param {HTMLElement} control
 */
function field(name, label, control) {
  return el("div", { class: "field" }, el("label", { for: `field-${name}` }, label), control, el("p", { class: "field-error", id: `field-${name}-error` }));
}

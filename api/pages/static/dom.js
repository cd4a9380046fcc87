// Small helpers for making and finding elements. Text is always set as text.
// @ts-check

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 */

/**
 * Make an element. `class`, `text`, `data-…`, `aria-…` and other attributes; `on…` are listeners; null and false are left out.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value") /** @type {any} */ (made).value = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) made.append(child instanceof Node ? child : String(child));
  }
  return made;
}

/**
 * The element with this id, which the template has.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element #${id}`);
  return found;
}

/**
 * A name from the world of programs. A long one breaks between its words, where it has to.
 * @param {string} text
 */
export function code(text) {
  return el("code", {}, text.split(/(?<=[_@:/.-])(?=[^_@:/.-])/).flatMap((part, place) => (place > 0 ? [el("wbr"), part] : [part])));
}

/**
 * HTML that this server rendered and sanitized; nothing else may come here.
 * @param {Element} into
 * @param {string} html
 */
export function setRendered(into, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  into.replaceChildren(template.content);
}

/**
 * Say something to those who listen to the page, without moving them.
 * @param {string} text
 */
export function announce(text) {
  const status = byId("status");
  // The same words twice are said twice.
  status.textContent = status.textContent === text ? `${text}\u00a0` : text;
}

/**
 * Show a short message for a while, and say it.
 * @param {string} text
 */
export function toast(text) {
  announce(text);
  const shown = el("p", { class: "toast", "aria-hidden": "true" }, text);
  byId("toasts").replaceChildren(shown);
  setTimeout(() => shown.remove(), 6000);
}

/**
 * Put the focus on something that is no control, for instance a heading.
 * @param {HTMLElement} element
 */
export function focusOn(element) {
  if (!element.matches("a, button, input, select, textarea, summary, [tabindex]")) element.tabIndex = -1;
  element.focus();
}

/**
 * While `work` runs the button is busy and cannot start it twice.
 * @template T
 * @param {HTMLElement} button
 * @param {() => Promise<T>} work
 * @returns {Promise<T | undefined>}
 */
export async function busy(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return undefined;
  button.setAttribute("aria-disabled", "true");
  const spinner = el("span", { class: "spinner", "aria-hidden": "true" });
  button.prepend(spinner);
  try {
    return await work();
  } finally {
    spinner.remove();
    button.removeAttribute("aria-disabled");
  }
}

/**
 * A notice that something could not be done.
 * @param {string} title
 * @param {string} text
 * @param {...HTMLElement} actions
 */
export function errorNotice(title, text, ...actions) {
  return el(
    "div",
    { class: "notice error", role: "alert" },
    el("p", {}, el("strong", {}, title), " ", text),
    actions.length ? el("div", { class: "row" }, actions) : null,
  );
}

/** Placeholder lines while something is loaded. */
export function skeleton(lines = 4) {
  return Array.from({ length: lines }, () => el("div", { class: "skeleton", "aria-hidden": "true" }));
}

// Parts of a page that are loaded on their own: loading, error with retry, what there is. Tables and lists that go on.
// @ts-check

import { CallFailed } from "../api.js";
import { announce, busy, el, errorNotice, focusOn, skeleton } from "../dom.js";

/** @typedef {import("../dom.js").Child} Child */

/**
 * A part of the page with states of its own.
 * @template Data
 * @param {HTMLElement} section with a heading, and a `[data-body]` that is filled
 * @param {() => Promise<Data>} fetch
 * @param {(data: Data) => Child | Child[]} show
 * @returns {(options?: { quiet?: boolean }) => Promise<void>} load it, or load it again; `quiet`: what is shown stays until then
 */
export function loaded(section, fetch, show) {
  const body = /** @type {HTMLElement} */ (section.querySelector("[data-body]"));
  const heading = /** @type {HTMLElement} */ (section.querySelector("h2, h3"));
  let newest = 0;

  /** @param {{ quiet?: boolean }} [options] */
  async function load({ quiet = false } = {}) {
    const mine = (newest += 1);
    body.setAttribute("aria-busy", "true");
    if (!quiet) body.replaceChildren(el("p", { class: "visually-hidden" }, "Loading…"), ...skeleton(3));
    let children;
    try {
      children = [show(await fetch())].flat();
    } catch (problem) {
      if (!(problem instanceof CallFailed)) throw problem;
      children = [errorNotice(`${heading.textContent?.trim()} could not be loaded.`, problem.message, retry(load, heading))];
    } finally {
      if (mine === newest) body.removeAttribute("aria-busy");
    }
    if (mine === newest) fill(body, children);
  }
  return load;
}

/**
 * @param {() => Promise<void>} load
 * @param {HTMLElement} heading
 */
function retry(load, heading) {
  const again = () => {
    focusOn(heading);
    load();
  };
  return el("button", { type: "button", class: "button", onclick: again }, "Try again");
}

/**
 * @param {Element} into
 * @param {Child[]} children
 */
export function fill(into, children) {
  into.replaceChildren(...children.filter((child) => child !== null && child !== undefined && child !== false).map((child) => (child instanceof Node ? child : String(child))));
}

/** @param {string} text */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** @param {string} text */
export const empty = (text) => el("p", { class: "muted" }, text);

/**
 * @typedef {{ label: string, number?: boolean, hidden?: boolean }} Column `hidden`: the heading is only said
 */

/**
 * A table that becomes a list of cards on a phone. The roles stay, whatever the style makes of it.
 * @param {string} caption
 * @param {Column[]} columns the first one names its row
 * @param {(Child | Child[])[][]} rows
 * @returns {{ element: HTMLElement, add: (rows: (Child | Child[])[][]) => void }}
 */
export function table(caption, columns, rows) {
  const head = columns.map((column) =>
    el("th", { scope: "col", role: "columnheader", class: column.number ? "number" : null }, column.hidden ? el("span", { class: "visually-hidden" }, column.label) : column.label),
  );
  const body = el("tbody", { role: "rowgroup" });
  const element = el(
    "table",
    { class: "stacks", role: "table" },
    el("caption", {}, caption),
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)),
    body,
  );
  /** @param {(Child | Child[])[][]} more */
  const add = (more) => {
    for (const cells of more) {
      body.append(
        el(
          "tr",
          { role: "row" },
          cells.map((cell, place) => {
            const { label, number, hidden } = columns[place];
            const attributes = { class: number ? "number" : null, "data-label": hidden ? null : label };
            const children = Array.isArray(cell) ? cell : [cell];
            return place === 0
              ? el("th", { scope: "row", role: "rowheader", ...attributes }, ...children)
              : el("td", { role: "cell", ...attributes }, ...children);
          }),
        ),
      );
    }
  };
  add(rows);
  return { element, add };
}

/**
 * A table of a list that comes in pages.
 * @template Item
 * @param {string} caption
 * @param {Column[]} columns
 * @param {{ items: Item[], next: string | null }} first
 * @param {(cursor: string) => Promise<{ items: Item[], next: string | null }>} more
 * @param {(item: Item) => (Child | Child[])[]} row
 */
export function pagedTable(caption, columns, first, more, row) {
  const { element, add } = table(caption, columns, first.items.map(row));
  const problem = el("div", {});
  const foot = el("div", { class: "row more" });
  /** @param {string | null} next */
  const offer = (next) => {
    if (next === null) {
      foot.replaceChildren();
      return;
    }
    const button = el("button", { type: "button", class: "button small" }, "Show more");
    button.addEventListener("click", () =>
      busy(button, async () => {
        try {
          const page = await more(next);
          problem.replaceChildren();
          add(page.items.map(row));
          announce(`${page.items.length} more`);
          offer(page.next);
          /** @type {HTMLElement | null} */ (foot.querySelector("button"))?.focus();
          if (page.next === null) focusOn(element);
        } catch (error) {
          if (!(error instanceof CallFailed)) throw error;
          problem.replaceChildren(errorNotice("More could not be loaded.", error.message));
        }
      }),
    );
    foot.replaceChildren(button);
  };
  offer(first.next);
  return el("div", {}, element, problem, foot);
}

let tips = 0;

/**
 * A button that explains: on hover, focus, click and touch; Escape closes it. Its text is its description, so it is read at once.
 * @param {string} label
 * @param {string} text
 */
export function tip(label, text) {
  const id = `tip-${(tips += 1)}`;
  const bubble = el("span", { id, role: "tooltip", class: "tip-text", hidden: true }, text);
  const button = el("button", { type: "button", class: "tip", "aria-label": label, "aria-describedby": id, "aria-expanded": "false" }, "?");
  const wrap = el("span", { class: "tip-wrap" }, button, bubble);
  /** @param {boolean} open */
  const set = (open) => {
    bubble.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (!open) return;
    // Within the window, on a phone too.
    bubble.style.setProperty("--shift", "0px");
    const { left, right } = bubble.getBoundingClientRect();
    const room = document.documentElement.clientWidth;
    const shift = left < 8 ? 8 - left : right > room - 8 ? room - 8 - right : 0;
    bubble.style.setProperty("--shift", `${shift}px`);
  };
  let pinned = false;
  button.addEventListener("click", () => set((pinned = bubble.hidden || !pinned)));
  button.addEventListener("focus", () => button.matches(":focus-visible") && set(true));
  button.addEventListener("blur", () => set((pinned = false)));
  wrap.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && set(true));
  wrap.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && !pinned && document.activeElement !== button && set(false));
  // By touch: anywhere else, or on the text itself.
  const outside = (/** @type {Event} */ event) => {
    if (!wrap.isConnected) document.removeEventListener("pointerdown", outside);
    else if (!wrap.contains(/** @type {Node} */ (event.target))) set((pinned = false));
  };
  document.addEventListener("pointerdown", outside);
  bubble.addEventListener("click", () => set((pinned = false)));
  wrap.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !bubble.hidden) {
      event.stopPropagation();
      set((pinned = false));
    }
  });
  return wrap;
}

/**
 * Do something that a button asks for; what goes wrong is told beside it.
 * @param {HTMLElement} button
 * @param {HTMLElement} place where the problem is shown
 * @param {string} title of the problem
 * @param {() => Promise<void>} work
 */
export function act(button, place, title, work) {
  return busy(button, async () => {
    place.replaceChildren();
    try {
      await work();
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      place.replaceChildren(errorNotice(title, error.message));
    }
  });
}

// The person's own choice whether memory is used at all.
// @ts-check

import { call } from "../api.js";
import { busy, byId, el, errorNotice, skeleton, toast } from "../dom.js";
import { say } from "./strings.js";

const PATH = "/v1/preference";

/** @param {{ mayWrite: boolean, onChanged: () => void }} given */
export function startPreference({ mayWrite, onChanged }) {
  const place = byId("preference");

  async function load() {
    if (!place.hasChildNodes()) place.replaceChildren(...skeleton(2));
    try {
      show((await call("GET", PATH)).data.allow_user_memory);
    } catch (error) {
      const retry = el("button", { type: "button", class: "button" }, say.retry);
      retry.addEventListener("click", () => busy(retry, load));
      place.replaceChildren(errorNotice("Your choice could not be read.", /** @type {Error} */ (error).message, retry));
    }
  }

  /** @param {boolean} allowed */
  function show(allowed) {
    const toggle = el(
      "button",
      { type: "button", class: "switch", role: "switch", id: "allow", "aria-checked": String(allowed), "aria-describedby": "allow-hint", disabled: !mayWrite },
      "Use my context memory",
    );
    toggle.addEventListener("click", () => busy(toggle, () => change(toggle)));
    place.replaceChildren(
      toggle,
      el(
        "p",
        { class: "hint", id: "allow-hint" },
        "Counts everywhere: when it is off, nothing is read for answers and nothing new is learned, in any space. Switching it off does not delete anything: what was remembered is kept, and is used again when you switch it on. To delete, use ",
        el("a", { href: "#data" }, "Delete everything"),
        ".",
      ),
      el("div", { id: "preference-problem" }),
    );
  }

  /** @param {HTMLElement} toggle */
  async function change(toggle) {
    const wanted = toggle.getAttribute("aria-checked") !== "true";
    byId("preference-problem").replaceChildren();
    try {
      await call("PUT", PATH, { json: { allow_user_memory: wanted } });
      toggle.setAttribute("aria-checked", String(wanted));
      toast(wanted ? "Your context memory is on." : "Your context memory is off. Nothing was deleted.");
      onChanged();
    } catch (error) {
      byId("preference-problem").replaceChildren(errorNotice("Not changed.", /** @type {Error} */ (error).message));
    }
  }

  return { load };
}

// The sign-in of this page: says where it has ended or where somebody else has signed in since, and leads back.
// @ts-check

import { call, onSignIn, root } from "./api.js";
import { byId, el, toast } from "./dom.js";

/** @typedef {import("./api.js").SignIn} SignIn */

export function watchSignIn() {
  const place = byId("sign-in");
  /** @type {SignIn} */
  let shown = "in";

  onSignIn((state) => {
    if (state === shown) return;
    shown = state;
    place.hidden = state === "in";
    place.replaceChildren(...(state === "in" ? [] : notice(state)));
    if (state === "in") toast("You are signed in again.");
  });
  document.addEventListener("visibilitychange", () => {
    // Whoever comes back from signing in again is not told that it has ended.
    if (document.visibilityState === "visible") call("GET", "/v1/account").catch(() => {});
  });
}

/** @param {SignIn} state */
function notice(state) {
  if (state === "other") {
    const reload = el("button", { type: "button", class: "button small", onclick: () => location.reload() }, "Reload the page");
    return [el("p", {}, "Somebody else is signed in in this browser by now. This page is not theirs."), reload];
  }
  const again = el("a", { class: "button small", href: `${root}/login?next=${encodeURIComponent(location.pathname)}`, target: "_blank" }, "Sign in again", el("span", { class: "visually-hidden" }, " (opens a new tab)"));
  return [el("p", {}, "Your sign-in has ended. Sign in again in a new tab and come back: what you typed stays here."), again];
}

// Whoever leaves with unsaved changes is asked: by our own question for links and sign-out, by the browser for everything else.
// @ts-check

import { ask } from "../dialog.js";
import { say } from "./strings.js";

/** @param {{ isDirty: () => boolean, dropDraft: () => void }} editor */
export function guardLeaving(editor) {
  let leaves = false;

  addEventListener("beforeunload", (event) => {
    if (!leaves && editor.isDirty()) event.preventDefault();
  });

  document.addEventListener("click", async (event) => {
    const link = /** @type {Element} */ (event.target).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || !leadsAway(link, event) || !editor.isDirty()) return;
    event.preventDefault();
    if (await wantsToLeave()) {
      leaves = true;
      editor.dropDraft();
      location.assign(link.href);
    }
  });

  for (const form of document.querySelectorAll("form[data-leaves]")) {
    form.addEventListener("submit", async (event) => {
      if (leaves || !editor.isDirty()) return editor.dropDraft();
      event.preventDefault();
      if (await wantsToLeave()) {
        leaves = true;
        editor.dropDraft();
        /** @type {HTMLFormElement} */ (form).submit();
      }
      return undefined;
    });
  }
}

async function wantsToLeave() {
  const choices = [
    { label: say.stay, value: "stay", kind: "primary" },
    { label: say.leave, value: "leave", kind: "danger" },
  ];
  return (await ask({ title: say.leaveTitle, text: [say.leaveText], choices })) === "leave";
}

/**
 * Whether a click on the link replaces this page.
 * @param {HTMLAnchorElement} link
 * @param {MouseEvent} event
 */
function leadsAway(link, event) {
  const elsewhere = event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  if (elsewhere || link.target === "_blank" || link.hasAttribute("download")) return false;
  const to = new URL(link.href, location.href);
  return to.origin !== location.origin || to.pathname !== location.pathname || to.search !== location.search;
}

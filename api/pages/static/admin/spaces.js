// Spaces with stored settings, any other by its name, and why memory is off for somebody.
// @ts-check

import { CallFailed, call } from "../api.js";
import { byId, el } from "../dom.js";
import { number } from "../format.js";
import { act, empty, fill, loaded, pagedTable } from "./section.js";
import { SpaceForm, pathOf, reasonList } from "./space_form.js";

/** @param {{ changed: () => void, overview: () => any }} page */
export function setUpSpaces(page) {
  const form = new SpaceForm(page);
  const problem = byId("space-problem");

  /**
   * @param {string} spaceId
   * @param {HTMLElement} button
   */
  async function open(spaceId, button) {
    if (!(await form.mayLeave())) return;
    await act(button, problem, "The space could not be opened.", async () => {
      if (spaceId === "." || spaceId === "..") throw new CallFailed("refused", "A space with this name can be set on the command line only: afterturn space set.");
      // The form shows the deployment's defaults too.
      if (page.overview() === null) throw new CallFailed("failed", "The settings of the company are not loaded yet. Try again in a moment.");
      form.show((await call("GET", pathOf(spaceId))).data);
    });
  }

  const opener = /** @type {HTMLFormElement} */ (byId("open-space"));
  opener.addEventListener("submit", (event) => {
    event.preventDefault();
    const field = byId("open-space-id");
    const spaceId = field.value.trim();
    if (spaceId === "") field.focus();
    else open(spaceId, /** @type {HTMLElement} */ (opener.querySelector("button")));
  });

  const load = loaded(
    byId("spaces"),
    async () => (await call("GET", "/v1/admin/spaces?limit=20")).data,
    (first) => {
      if (first.items.length === 0) return empty("No space has settings of its own: all of them follow the defaults.");
      const columns = [{ label: "Space" }, { label: "Memory" }, { label: "Web search" }, { label: "Tokens", number: true }, { label: "What to do", hidden: true }];
      return pagedTable(
        "Spaces with settings of their own",
        columns,
        first,
        async (cursor) => (await call("GET", `/v1/admin/spaces?limit=20&cursor=${encodeURIComponent(cursor)}`)).data,
        (space) => {
          const edit = el("button", { type: "button", class: "button small" }, "Settings", el("span", { class: "visually-hidden" }, ` of ${space.space_id}`));
          edit.addEventListener("click", () => open(space.space_id, edit));
          return [el("span", { class: "id" }, space.space_id), stateTag(space), space.effective.web_search ? "on" : "off", number(space.effective.max_tokens), edit];
        },
      );
    },
  );
  return { load, open, refresh: () => form.refresh() };
}

/** @param {any} space */
function stateTag(space) {
  if (space.problem) return el("span", { class: "tag error" }, "Settings not valid");
  if (space.enablement.active) return el("span", { class: "tag good" }, "On");
  return el("span", { class: "tag warning" }, "Off: ", WHY[space.enablement.reasons[0].code] ?? "see settings");
}

/** @type {Record<string, string>} */
const WHY = { feature_flag_off: "company", space_off: "switched off", web_search_on: "web search", root_clash: "roots clash" };

export function setUpWhy() {
  const form = /** @type {HTMLFormElement} */ (byId("why-form"));
  const answer = byId("why-answer");
  const button = /** @type {HTMLElement} */ (form.querySelector("button[type=submit]"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const user = byId("why-user").value.trim();
    const space = byId("why-space").value.trim() || "default";
    act(button, answer, "This could not be found out.", async () => {
      const json = { space_id: space, user: user || null, allow_user_memory: byId("why-consent").checked };
      const told = (await call("POST", "/v1/admin/enablement", { json })).data;
      const whom = user === "" ? "everybody who allows it" : user;
      fill(answer, [
        told.active
          ? el("div", { class: "notice good" }, el("p", {}, el("strong", {}, "Memory is on"), ` for ${whom} in the space ${space}.`))
          : el("div", { class: "notice warning" }, el("p", {}, el("strong", {}, "Memory is off"), ` for ${whom} in the space ${space}:`), reasonList(told.reasons)),
      ]);
    });
  });
}

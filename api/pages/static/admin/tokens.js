// Service tokens of the company: list, make one (shown once), revoke.
// @ts-check

import { call } from "../api.js";
import { confirmed, editInDialog } from "../dialog.js";
import { byId, code, el, focusOn, toast } from "../dom.js";
import { date, timeElement } from "../format.js";
import { act, empty, loaded, table } from "./section.js";

/** @type {[string, string][]} */
const PERMISSIONS = [
  ["read", "read memory"],
  ["write", "record turns and change memory"],
  ["forget", "export and delete everything of a user"],
];
/** @type {Record<string, string>} */
const TAGS = { active: "tag good", expired: "tag", revoked: "tag" };

export function setUpTokens() {
  const section = byId("tokens");
  const heading = /** @type {HTMLElement} */ (section.querySelector("h2"));
  const problem = el("div", {});
  const fresh = byId("new-token");

  const load = loaded(
    section,
    async () => (await call("GET", "/v1/admin/tokens")).data,
    ({ items }) => {
      problem.replaceChildren();
      if (items.length === 0) return empty("There is no token yet. An orchestrator needs one to load and record memory over HTTP.");
      const columns = [{ label: "Name" }, { label: "May" }, { label: "State" }, { label: "Ends" }, { label: "Last used" }, { label: "What to do", hidden: true }];
      return [
        table("Newest first", columns, items.map((/** @type {any} */ one) => row(one))).element,
        problem,
      ];
    },
  );

  /** @param {any} token */
  function row(token) {
    const revoke = el("button", { type: "button", class: "button small danger" }, "Revoke", el("span", { class: "visually-hidden" }, ` ${token.name}`));
    revoke.addEventListener("click", async () => {
      if (!(await confirmed(`Revoke ${token.name}?`, ["Whoever uses it gets no further, at once. It cannot be taken back."], "Revoke", { danger: true }))) return;
      await act(revoke, problem, "The token could not be revoked.", async () => {
        await call("DELETE", `/v1/admin/tokens/${token.token_id}`);
        toast(`${token.name} is revoked.`);
        focusOn(heading);
        await load({ quiet: true });
      });
    });
    return [
      [token.name, el("p", { class: "hint" }, code(token.token_id))],
      token.permissions.join(", "),
      el("span", { class: TAGS[token.state] }, token.state),
      token.expires_at ? el("time", { datetime: token.expires_at }, date(token.expires_at)) : "never by itself",
      token.last_used_at ? timeElement(token.last_used_at) : "never",
      token.state === "active" ? revoke : "",
    ];
  }

  byId("make-token").addEventListener("click", async () => {
    /** @type {any} */
    let made = null;
    const saved = await editInDialog({
      title: "New service token",
      label: "Make the token",
      fields: fields(),
      save: async (form) => {
        const given = new FormData(form);
        const days = String(given.get("days"));
        const json = { name: String(given.get("name")).trim(), permissions: given.getAll("permission"), expires_in_days: days === "never" ? null : Number(days) };
        if (json.name === "") throw new Error("Say what the token is for.");
        if (json.permissions.length === 0) throw new Error("Choose what the token may do.");
        made = (await call("POST", "/v1/admin/tokens", { json })).data;
      },
    });
    if (!saved || made === null) return;
    reveal(fresh, made);
    await load({ quiet: true });
  });
  return load;
}

function fields() {
  return [
    el("p", {}, "Whoever holds it can act for every user of the company. Keep it where secrets are kept."),
    el("div", { class: "field" }, el("label", { for: "token-name" }, "What it is for"), el("input", { type: "text", id: "token-name", name: "name", maxlength: 200, autocomplete: "off", required: true })),
    el(
      "fieldset",
      {},
      el("legend", {}, "It may"),
      PERMISSIONS.map(([value, label]) =>
        el("div", { class: "check" }, el("input", { type: "checkbox", name: "permission", value, id: `may-${value}`, checked: value !== "forget" }), el("label", { for: `may-${value}` }, label)),
      ),
    ),
    el(
      "div",
      { class: "field" },
      el("label", { for: "token-days" }, "It ends after"),
      el("select", { id: "token-days", name: "days" }, el("option", { value: "30" }, "30 days"), el("option", { value: "90", selected: true }, "90 days"), el("option", { value: "365" }, "a year"), el("option", { value: "never" }, "never by itself")),
    ),
  ];
}

/**
 * @param {HTMLElement} place
 * @param {any} made
 */
function reveal(place, made) {
  const field = el("input", { type: "text", readonly: true, value: made.token, id: "token-text", class: "mono", "aria-describedby": "token-hint", spellcheck: "false", autocomplete: "off" });
  const copy = el("button", { type: "button", class: "button" }, "Copy");
  const done = el("button", { type: "button", class: "button" }, "Done, hide it");
  copy.addEventListener("click", async () => {
    field.select();
    try {
      await navigator.clipboard.writeText(made.token);
      toast("Copied.");
    } catch {
      toast("It is selected: copy it with the keyboard.");
    }
  });
  done.addEventListener("click", () => {
    place.replaceChildren();
    byId("make-token").focus();
  });
  const heading = el("h3", {}, `The token “${made.name}”`);
  place.replaceChildren(
    el(
      "div",
      { class: "notice good" },
      heading,
      el("p", { id: "token-hint" }, "It is shown this once. Only a hash of it is kept, so nobody can show it again."),
      el("div", { class: "field" }, el("label", { for: "token-text", class: "visually-hidden" }, "The token"), field),
      el("div", { class: "row" }, copy, done),
    ),
  );
  focusOn(heading);
}

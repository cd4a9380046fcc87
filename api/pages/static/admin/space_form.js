// The form of one space: unsaved (leaving asks), saving, saved, not saved, and saved by somebody else meanwhile.
// @ts-check

import { CallFailed, call } from "../api.js";
import { ask } from "../dialog.js";
import { announce, busy, byId, el, errorNotice, focusOn } from "../dom.js";
import { timeOfDay } from "../format.js";
import { capital, fill, table, tip } from "./section.js";
import { CATEGORIES, FIELDS, control, labelOf, shown } from "./space_fields.js";

const WEB_SEARCH = "Memory is not used in a space that searches the web, so that what is remembered of a person does not end up in searches. Switch web search off here, or have the operator set ALLOW_CONTEXT_MEMORY_WITH_WEB_SEARCH_UN_22591.";

/** @typedef {Record<string, any>} Values settings by name; categories as `memory_categories.<name>` */

/** @param {string} spaceId */
export const pathOf = (spaceId) => `/v1/admin/spaces/${encodeURIComponent(spaceId)}`;

/**
 * @param {any} stored
 * @returns {Values}
 */
function flat(stored) {
  const { memory_categories: categories = {}, ...rest } = stored;
  return { ...rest, ...Object.fromEntries(Object.entries(categories).map(([name, on]) => [`memory_categories.${name}`, on])) };
}

/**
 * What is sent of changes; null takes a setting away.
 * @param {Values} changes
 */
function nested(changes) {
  /** @type {Record<string, any>} */
  const body = {};
  for (const [name, value] of Object.entries(changes)) {
    const [group, category] = name.split(".");
    if (category === undefined) body[name] = value ?? null;
    else (body[group] ??= {})[category] = value ?? null;
  }
  return body;
}

/**
 * @param {Values} before
 * @param {Values} after
 */
function changesBetween(before, after) {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return Object.fromEntries([...names].filter((name) => before[name] !== after[name]).map((name) => [name, after[name]]));
}

export class SpaceForm {
  /**
   * @param {{ changed: () => void, overview: () => any }} page `changed`: settings were saved
   */
  constructor(page) {
    this.page = page;
    this.place = byId("space");
    /** @type {any} */
    this.space = null;
    /** @type {ReturnType<typeof control>[]} */
    this.controls = [];
    addEventListener("beforeunload", (event) => {
      if (this.unsaved) event.preventDefault();
    });
  }

  get unsaved() {
    return this.space !== null && Object.keys(this.changes()).length > 0;
  }

  /** Whether the form may be left; asks where something is not saved. */
  async mayLeave() {
    if (!this.unsaved) return true;
    const choices = [
      { label: "Keep editing", value: "stay" },
      { label: "Discard changes", value: "leave", kind: "danger" },
    ];
    return (await ask({ title: "Discard the changes?", text: [`The settings of ${this.space.space_id} have changes that are not saved.`], choices })) === "leave";
  }

  changes() {
    const before = flat(this.space.stored);
    const after = { ...before };
    for (const one of this.controls) after[one.spec.name] = one.value;
    return changesBetween(before, after);
  }

  /**
   * @param {any} space
   * @param {{ focus?: boolean }} [options]
   */
  show(space, { focus = true } = {}) {
    this.space = space;
    const { space_defaults: defaults, categories, language_model: model, allow_with_web_search: search } = this.page.overview();
    const stored = flat(space.stored);
    const fallback = { ...defaults, language_model: model };
    const changed = () => this.#changed();
    this.controls = [
      ...FIELDS.map((spec) => control(spec, { value: stored[spec.name], fallback: fallback[spec.name], changed })),
      ...CATEGORIES.map(([name, label]) =>
        control({ name: `memory_categories.${name}`, label, kind: "switch" }, { value: stored[`memory_categories.${name}`], fallback: categories[name], changed }),
      ),
    ];
    this.searchAllowed = search.on;
    this.heading = el("h3", { id: "space-heading" }, "Settings of ", el("span", { class: "id" }, space.space_id));
    this.status = el("p", { class: "small muted", role: "status" });
    this.problem = el("div", {});
    this.save = el("button", { type: "submit", class: "button primary" }, "Save");
    this.close = el("button", { type: "button", class: "button" }, "Close");
    this.close.addEventListener("click", async () => (await this.mayLeave()) && this.hide());
    this.reasons = el("div", {});
    const form = el(
      "form",
      { "aria-labelledby": "space-heading", novalidate: true },
      this.heading,
      this.reasons,
      el("div", { class: "settings-grid" }, this.controls.slice(0, FIELDS.length).map((one) => one.element)),
      el("fieldset", {}, el("legend", {}, "What is learned from events"), el("div", { class: "categories" }, this.controls.slice(FIELDS.length).map((one) => one.element))),
      this.problem,
      el("div", { class: "row save-row" }, this.save, this.close, this.status),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#save();
    });
    this.place.replaceChildren(form);
    this.place.hidden = false;
    this.#tell();
    this.#changed();
    if (focus) focusOn(this.heading);
  }

  /** Read again what the space says of itself, where nothing is being edited. */
  async refresh() {
    if (this.space === null || this.unsaved) return;
    const space = await call("GET", pathOf(this.space.space_id)).then((reply) => reply.data, () => null);
    if (space !== null && this.space?.space_id === space.space_id && !this.unsaved) this.show(space, { focus: false });
  }

  hide() {
    this.space = null;
    this.place.hidden = true;
    this.place.replaceChildren();
    focusOn(/** @type {HTMLElement} */ (byId("spaces").querySelector("h2")));
  }

  #tell() {
    const { enablement, problem } = this.space;
    fill(this.reasons, [
      problem && errorNotice("A stored setting is not valid.", `${problem}. Fields below show the default in its place; save to put it right.`),
      !enablement.active && el("div", { class: "notice warning" }, el("p", {}, el("strong", {}, "Memory is off in this space.")), reasonList(enablement.reasons)),
    ]);
  }

  #changed() {
    const effective = Object.fromEntries(this.controls.map((one) => [one.spec.name, one.effective]));
    for (const one of this.controls) if (one.spec.only) one.element.hidden = !one.spec.only(effective);
    const excluded = effective.web_search === true && !this.searchAllowed && effective.context_memory !== false;
    const memory = this.controls[0];
    if (excluded && memory.extra.childElementCount === 0) {
      fill(memory.extra, [el("span", { class: "tag warning" }, "Not used while web search is on"), tip("Why memory is not used with web search", WEB_SEARCH)]);
    } else if (!excluded) memory.extra.replaceChildren();
    const unsaved = this.unsaved;
    if (unsaved || this.status.dataset.kind === "unsaved") this.#status(unsaved ? "unsaved" : "clean", unsaved ? "Unsaved changes" : "");
  }

  /**
   * @param {string} kind
   * @param {string} text
   */
  #status(kind, text) {
    this.status.dataset.kind = kind;
    this.status.textContent = text;
  }

  async #save() {
    const changes = this.changes();
    for (const one of this.controls) one.accept();
    await busy(this.save, async () => {
      this.problem.replaceChildren();
      this.#status("saving", "Saving…");
      try {
        await this.#send(changes, this.space.etag);
      } catch (error) {
        if (!(error instanceof CallFailed)) throw error;
        this.#failed(error, changes);
      }
    });
  }

  /**
   * @param {Values} changes
   * @param {string | null} etag
   */
  async #send(changes, etag) {
    /** @type {Record<string, string>} */
    const headers = etag === null ? { "If-None-Match": "*" } : { "If-Match": `"${etag}"` };
    const saved = (await call("PATCH", pathOf(this.space.space_id), { json: nested(changes), headers })).data;
    const focused = document.activeElement === this.save;
    this.show(saved, { focus: false });
    if (focused) this.save.focus();
    this.#status("saved", `Saved at ${timeOfDay(new Date())}`);
    this.page.changed();
  }

  /**
   * @param {CallFailed} error
   * @param {Values} changes
   */
  #failed(error, changes) {
    this.#status("failed", "Not saved");
    if (error.status === 412) {
      this.#conflict(changes, error.body);
      return;
    }
    const fields = error.status === 422 ? this.#refused(error.body.errors ?? []) : [];
    if (fields.length > 0) {
      fields[0].focus();
      announce(`Not saved: ${error.message}`);
      return;
    }
    const again = el("button", { type: "button", class: "button" }, "Try again");
    again.addEventListener("click", () => {
      this.save.focus();
      this.#save();
    });
    fill(this.problem, [errorNotice("Not saved.", `${error.message} What you entered is still here.`, again)]);
  }

  /**
   * Say at each field what is wrong with it.
   * @param {{ where: string[], what: string }[]} errors
   */
  #refused(errors) {
    const found = [];
    for (const { where, what } of errors) {
      const name = where.slice(1).join(".");
      const one = this.controls.find(({ spec }) => name === spec.name || name.startsWith(`${spec.name}.`));
      if (one === undefined) continue;
      one.refuse(what);
      found.push(one.input);
    }
    return found;
  }

  /**
   * Somebody else saved meanwhile. What this person changed goes on top of it, or is given up.
   * @param {Values} mine
   * @param {{ theirs: any, etag: string | null }} told
   */
  #conflict(mine, told) {
    const before = flat(this.space.stored);
    const theirs = changesBetween(before, flat(told.theirs));
    const names = [...new Set([...Object.keys(theirs), ...Object.keys(mine)])].sort((a, b) => labelOf(a).localeCompare(labelOf(b)));
    const compare = table(
      "What was changed",
      [{ label: "Setting" }, { label: "Before" }, { label: "Saved by somebody else" }, { label: "Yours" }],
      names.map((name) => [labelOf(name), shown(name, before[name]), name in theirs ? el("strong", {}, shown(name, theirs[name])) : "–", name in mine ? el("strong", {}, shown(name, mine[name])) : "–"]),
    );
    const both = names.filter((name) => name in theirs && name in mine && theirs[name] !== mine[name]);
    const keep = el("button", { type: "button", class: "button primary" }, "Save my changes on top");
    const drop = el("button", { type: "button", class: "button" }, "Take theirs");
    keep.addEventListener("click", () =>
      busy(keep, async () => {
        try {
          await this.#send(mine, told.etag);
          announce("Saved");
          this.save.focus();
        } catch (error) {
          if (!(error instanceof CallFailed)) throw error;
          this.#failed(error, mine);
        }
      }),
    );
    drop.addEventListener("click", () =>
      busy(drop, async () => {
        try {
          this.show((await call("GET", pathOf(this.space.space_id))).data);
          this.page.changed();
        } catch (error) {
          if (!(error instanceof CallFailed)) throw error;
          drop.after(errorNotice("Their settings could not be loaded.", error.message));
        }
      }),
    );
    const heading = el("h4", {}, "Somebody else saved these settings meanwhile");
    fill(this.problem, [
      el(
        "div",
        { class: "notice warning conflict" },
        heading,
        el("p", {}, "Nothing of yours was stored yet. Their other changes stay when you save yours on top."),
        both.length > 0 && el("p", {}, `Both of you changed: ${both.map(labelOf).join(", ")}.`),
        compare.element,
        el("div", { class: "row" }, keep, drop),
      ),
    ]);
    focusOn(heading);
  }
}

/** @param {{ code: string, message: string, remedy: string }[]} reasons */
export const reasonList = (reasons) => el("ul", { class: "reasons" }, reasons.map((one) => el("li", { "data-code": one.code }, capital(one.message), ". ", el("span", { class: "muted" }, `What to do: ${one.remedy}.`))));

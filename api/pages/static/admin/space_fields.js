// The fields of a space's settings. Each says whether it is set here or follows the default, and can be given back to the default.
// @ts-check

import { el } from "../dom.js";

/**
 * @typedef {{ name: string, label: string, hint?: string, kind: "switch" | "number" | "choice" | "text", choices?: [string, string][], min?: number, max?: number, only?: (effective: Record<string, any>) => boolean }} Spec
 */

/** @type {Spec[]} `root_folder` is not for forms. */
export const FIELDS = [
  { name: "context_memory", label: "Context memory", kind: "switch", hint: "People who talk to the assistant in this space are remembered, and what is remembered is used." },
  { name: "web_search", label: "Web search", kind: "switch", hint: "The assistant of this space searches the web." },
  { name: "use_orchestrator_language_model", label: "Write memory with the model that answered", kind: "switch", hint: "Off: a language model of your own choice writes it." },
  { name: "language_model", label: "Language model", kind: "text", hint: "As provider:model, for instance openai:gpt-4.1-mini.", only: (effective) => effective.use_orchestrator_language_model === false },
  { name: "max_tokens", label: "Size of a person's memory, in tokens", kind: "number", min: 500, max: 8000, hint: "500 to 8000. What does not fit is shortened, oldest topics first." },
  { name: "consolidation_gate_enabled", label: "Ask first whether a turn taught anything", kind: "switch", hint: "A cheap model call saves the rewrite after small talk." },
  {
    name: "consolidation_mode",
    label: "How memory is rewritten",
    kind: "choice",
    choices: [["rewrite", "As a whole"], ["edits", "By single edits"]],
    hint: "Single edits take fewer tokens and lose nothing that was not named.",
  },
  { name: "privacy_scrub", label: "Leave other people out", kind: "switch", hint: "A second model call looks over what changed and takes out details of other people." },
  { name: "show_update_notice", label: "Show that memory is being updated", kind: "switch", hint: "The answer shows “🧠 Updating context memory…” meanwhile." },
];

/** @type {[string, string][]} */
export const CATEGORIES = [
  ["contacts", "Contacts"],
  ["bios", "Who people are"],
  ["rolling_summaries", "What was talked about with them"],
  ["response_policies", "How they want to be answered"],
  ["knowledge", "Facts"],
  ["tasks", "Tasks"],
];

/** @type {Record<string, string>} */
const LABELS = {
  ...Object.fromEntries(FIELDS.map((field) => [field.name, field.label])),
  ...Object.fromEntries(CATEGORIES.map(([name, label]) => [`memory_categories.${name}`, `Learn from events: ${label}`])),
  memory_categories: "What is learned from events",
  root_folder: "Memory root",
};

/** @param {string} name */
export const labelOf = (name) => LABELS[name] ?? name;

/**
 * What a person reads of a value.
 * @param {string} name
 * @param {unknown} value
 */
export function shown(name, value) {
  if (value === undefined || value === null) return "the default";
  if (typeof value === "boolean") return value ? "on" : "off";
  const choice = FIELDS.find((field) => field.name === name)?.choices?.find(([one]) => one === value);
  return choice ? choice[1] : String(value);
}

/**
 * A control for one setting. `value`: what is set here; undefined: it follows `fallback`.
 * @param {Spec} spec
 * @param {{ value: any, fallback: any, changed: () => void }} state
 */
export function control(spec, { value, fallback, changed }) {
  const id = `space-${spec.name.replace(".", "-")}`;
  let set = value;
  const hint = el("p", { class: "hint", id: `${id}-hint` }, spec.hint ?? "");
  const error = el("p", { class: "field-error", id: `${id}-error`, hidden: true });
  const state = el("span", { class: "small muted", id: `${id}-state` });
  const back = el("button", { type: "button", class: "button quiet small" }, "Use the default", el("span", { class: "visually-hidden" }, ` of ${spec.label}`));
  const input = make(spec, id, [spec.hint ? `${id}-hint` : null, `${id}-state`, `${id}-error`].filter(Boolean).join(" "));
  const extra = el("span", { class: "extra" });

  /** @param {any} next */
  const change = (next) => {
    set = next;
    render();
    changed();
  };

  function render() {
    const effective = set === undefined ? fallback : set;
    if (spec.kind === "switch") input.setAttribute("aria-checked", String(effective === true));
    else if (document.activeElement !== input || String(/** @type {any} */ (input).value) === "") /** @type {any} */ (input).value = spec.kind === "choice" || set !== undefined ? String(effective) : "";
    if (spec.kind === "text" || spec.kind === "number") input.setAttribute("placeholder", String(fallback ?? ""));
    state.textContent = set === undefined ? `Default: ${shown(spec.name, fallback)}` : "Set here";
    back.hidden = set === undefined;
  }

  if (spec.kind === "switch") input.addEventListener("click", () => change(input.getAttribute("aria-checked") !== "true"));
  else {
    input.addEventListener(spec.kind === "choice" ? "change" : "input", () => {
      const text = /** @type {any} */ (input).value.trim();
      error.hidden = true;
      input.removeAttribute("aria-invalid");
      change(text === "" ? undefined : spec.kind === "number" && /^\d{1,9}$/.test(text) ? Number(text) : text);
    });
  }
  back.addEventListener("click", () => {
    if (spec.kind !== "switch" && spec.kind !== "choice") /** @type {any} */ (input).value = "";
    change(undefined);
    input.focus();
  });
  const label = spec.kind === "switch" ? null : el("label", { for: id }, spec.label);
  const element = el("div", { class: "field setting", "data-setting": spec.name }, label, el("div", { class: "row" }, input, extra), spec.hint && hint, el("div", { class: "row state-of-setting" }, state, back), error);
  render();
  return {
    spec,
    element,
    extra,
    input,
    get value() {
      return set;
    },
    get effective() {
      return set === undefined ? fallback : set;
    },
    /** @param {string} text */
    refuse(text) {
      error.textContent = text;
      error.hidden = false;
      input.setAttribute("aria-invalid", "true");
    },
    accept() {
      error.hidden = true;
      input.removeAttribute("aria-invalid");
    },
  };
}

/**
 * @param {Spec} spec
 * @param {string} id
 * @param {string} described
 * @returns {HTMLElement}
 */
function make(spec, id, described) {
  const common = { id, "aria-describedby": described };
  if (spec.kind === "switch") return el("button", { ...common, type: "button", role: "switch", class: "switch", "aria-checked": "false" }, spec.label);
  if (spec.kind === "choice") return el("select", common, (spec.choices ?? []).map(([value, label]) => el("option", { value }, label)));
  if (spec.kind === "number") return el("input", { ...common, type: "number", inputmode: "numeric", min: spec.min, max: spec.max, step: 1 });
  return el("input", { ...common, type: "text", maxlength: 200, autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
}

// The company's flag and who changes it, the processes that run, and what is wrong with the whole: clashing roots, differing flags.
// @ts-check

import { call } from "../api.js";
import { confirmed } from "../dialog.js";
import { byId, code, el, focusOn, toast } from "../dom.js";
import { counted, timeElement } from "../format.js";
import { act, capital, empty, fill, loaded, table } from "./section.js";

/** @param {unknown} value */
const told = (value) => (value === true ? "on" : value === false ? "off" : String(value));

const RULES = {
  everyone: "Switched on for all companies.",
  nobody: "Switched off for all companies.",
  listed: "Switched on for some companies; this one is on the list.",
  not_listed: "Switched on for some companies; this one is not on the list.",
};

/**
 * @param {{ changed: () => void, seen: (overview: any) => void }} page `changed`: roots were put in order
 * @returns {(options?: { quiet?: boolean }) => Promise<void>}
 */
export function setUpOverview(page) {
  return loaded(byId("company"), fetchAll, (data) => {
    page.seen(data.overview);
    fill(byId("warnings"), warnings(data, page.changed));
    return company(data.overview);
  });
}

async function fetchAll() {
  const overview = (await call("GET", "/v1/admin/overview")).data;
  // Which of the clashing roots holds the profiles takes the object store; without it the clash is told all the same.
  const roots = overview.clash ? await call("GET", "/v1/admin/roots").then((reply) => reply.data.items, () => []) : [];
  return { overview, roots };
}

/** @param {any} overview */
function company(overview) {
  const { feature_flag: flag, allow_with_web_search: search, processes } = overview;
  const categories = Object.entries(overview.categories).filter(([, on]) => on).map(([name]) => name.replaceAll("_", " "));
  return [
    el(
      "dl",
      { class: "facts" },
      fact("Company", overview.tenant),
      fact(
        "Context memory",
        el("span", { class: flag.on ? "tag good" : "tag error" }, flag.on ? "On for this company" : "Off for this company"),
        el("p", { class: "hint" }, RULES[/** @type {keyof typeof RULES} */ (flag.rule)], " Changed by ", flag.changed_by, ": ", code(flag.setting), "."),
      ),
      fact(
        "Beside web search",
        el("span", { class: "tag" }, search.on ? "Memory stays on" : "Memory is not used"),
        el("p", { class: "hint" }, "Changed by ", search.changed_by, ": ", code(search.setting), "."),
      ),
      fact("Language model", code(overview.language_model), el("p", { class: "hint" }, "Where a space names none of its own.")),
      fact("Learned from events", categories.join(", ") || "nothing", el("p", { class: "hint" }, "Where a space says nothing else.")),
      fact("Memory root", overview.active_roots.join(", ") || "none yet: it is made on first use, or when a space is saved"),
    ),
    el("h3", {}, "Running processes"),
    processes.length === 0
      ? empty("No process has said in the last minute that it runs. Turns are recorded, and worked on as soon as a worker runs.")
      : table(
          counted(processes.length, "process", "processes"),
          [{ label: "Process" }, { label: "Version" }, { label: "Context memory" }, { label: "Since" }],
          processes.map((/** @type {any} */ one) => [
            code(one.process_id),
            one.version,
            one.flags.feature_flag === undefined ? "unknown" : told(one.flags.feature_flag),
            timeElement(one.started_at),
          ]),
        ).element,
    overview.temporal_ui_url && el("p", {}, el("a", { href: overview.temporal_ui_url, target: "_blank", rel: "noreferrer" }, "Temporal Web UI")),
  ];
}

/**
 * @param {string} name
 * @param {...(import("../dom.js").Child)} value
 */
const fact = (name, ...value) => el("div", {}, el("dt", {}, name), el("dd", {}, ...value));

/**
 * @param {{ overview: any, roots: any[] }} data
 * @param {() => void} changed
 */
function warnings({ overview, roots }, changed) {
  const found = [];
  if (overview.clash) found.push(clash(overview.clash, roots, changed));
  if (overview.differences.length > 0) found.push(differing(overview.differences));
  if (!overview.feature_flag.on) {
    found.push(
      el(
        "div",
        { class: "notice warning" },
        el("h2", {}, "Context memory is off for this company"),
        el("p", {}, "Nothing is remembered and nothing is used in any space. It is switched on by ", overview.feature_flag.changed_by, ", with ", code(overview.feature_flag.setting), ". What you set here counts from then on."),
      ),
    );
  }
  return found;
}

/** @param {any[]} differences */
function differing(differences) {
  return el(
    "div",
    { class: "notice warning", id: "differences" },
    el("h2", {}, "Processes run with different settings"),
    el("p", {}, "What one of them does, another one may refuse. ", capital(differences[0].remedy), "."),
    el(
      "ul",
      {},
      differences.map((one) =>
        el(
          "li",
          {},
          code(one.setting),
          ": ",
          one.values.map((/** @type {any} */ value, /** @type {number} */ place) => [
            place > 0 ? "; " : "",
            el("strong", {}, told(value.value)),
            " in ",
            value.processes.map((/** @type {string} */ id, /** @type {number} */ at) => [at > 0 ? ", " : "", code(id)]),
          ]).flat(3),
        ),
      ),
    ),
  );
}

/**
 * @param {any} told_clash
 * @param {any[]} roots
 * @param {() => void} changed
 */
function clash(told_clash, roots, changed) {
  const problem = el("div", {});
  const known = new Map(roots.map((root) => [root.folder, root.has_profiles]));
  return el(
    "div",
    { class: "notice error", id: "clash" },
    el("h2", {}, "Memory is off: several roots clash"),
    el("p", {}, capital(told_clash.message), "."),
    el("p", {}, capital(told_clash.remedy), "."),
    el(
      "ul",
      { class: "plain" },
      told_clash.folders.map((/** @type {string} */ folder) => {
        const keep = el("button", { type: "button", class: "button small" }, "Keep ", code(folder));
        keep.addEventListener("click", async () => {
          const others = told_clash.folders.filter((/** @type {string} */ one) => one !== folder);
          const text = `${others.join(", ")} will no longer be used. Nothing is deleted from the object store: a root that was taken out of use can be taken back.`;
          const warning = known.get(folder) === false && others.some((/** @type {string} */ one) => known.get(one)) ? ["No profile lies under this one, but some lie under another: those people would begin with an empty memory."] : [];
          if (!(await confirmed(`Keep only ${folder}?`, [...warning, text], `Keep ${folder}`, { danger: warning.length > 0 }))) return;
          await act(keep, problem, "The roots could not be put in order.", async () => {
            for (const other of others) await call("DELETE", `/v1/admin/roots/${encodeURIComponent(other)}`);
            toast(`${folder} is the only root now. Memory works again.`);
            focusOn(byId("main"));
            changed();
          });
        });
        return el("li", { class: "row" }, keep, el("span", { class: "muted" }, holds(known.get(folder))));
      }),
    ),
    problem,
  );
}

/** @param {boolean | null | undefined} has */
export const holds = (has) => (has === true ? "holds profiles" : has === false ? "holds no profile" : "not known whether it holds profiles");

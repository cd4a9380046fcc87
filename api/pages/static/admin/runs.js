// Runs that a failure kept from changing memory; they are run again one by one, or all.
// @ts-check

import { call } from "../api.js";
import { confirmed } from "../dialog.js";
import { announce, busy, byId, code, el, focusOn, toast } from "../dom.js";
import { counted, timeElement } from "../format.js";
import { inWords } from "./reasons.js";
import { act, capital, empty, loaded, pagedTable } from "./section.js";

const PATH = "/v1/admin/runs?limit=20";

export function setUpRuns() {
  const section = byId("runs");
  const heading = /** @type {HTMLElement} */ (section.querySelector("h2"));
  const problem = el("div", {});

  const load = loaded(
    section,
    async () => (await call("GET", PATH)).data,
    (first) => {
      problem.replaceChildren();
      if (first.items.length === 0) return empty("Nothing failed: no turn was kept, and no window of events is left over.");
      const all = el("button", { type: "button", class: "button" }, "Run all again");
      all.addEventListener("click", () => rerunAll(all, problem, load, heading));
      const look = el("button", { type: "button", class: "button" }, "Look again");
      look.addEventListener("click", () => busy(look, async () => {
        await load({ quiet: true });
        announce("The list is that of now.");
        /** @type {HTMLElement} */ (section.querySelector("[data-look]") ?? heading).focus();
      }));
      look.dataset.look = "";
      return [
        el("div", { class: "row" }, all, look),
        problem,
        pagedTable(
          "Newest first",
          [{ label: "Run" }, { label: "User" }, { label: "Why" }, { label: "When" }, { label: "What to do", hidden: true }],
          first,
          async (cursor) => (await call("GET", `${PATH}&cursor=${encodeURIComponent(cursor)}`)).data,
          (run) => row(run, problem),
        ),
      ];
    },
  );
  return load;
}

/**
 * @param {any} run
 * @param {HTMLElement} problem
 */
function row(run, problem) {
  const name = run.kind === "turn" ? `turn ${run.id}` : `window ${run.id}`;
  const again = el("button", { type: "button", class: "button small" }, "Run again", el("span", { class: "visually-hidden" }, `: ${name} of ${run.user}`));
  const state = el("span", { class: run.state === "partial" ? "tag warning" : "tag error" }, run.state === "kept" ? "kept" : run.state === "partial" ? "partly failed" : "failed");
  again.addEventListener("click", () =>
    act(again, problem, `${name} could not be run again.`, async () => {
      const told = (await call("POST", "/v1/admin/runs/rerun", { json: { kind: run.kind, user: run.user, ids: [run.id] } })).data;
      const left = told.left.find((/** @type {any} */ one) => one.id === run.id);
      const cell = /** @type {HTMLElement} */ (again.closest("td"));
      const text = left ? `Left alone: it ${left.why}` : told.waiting_users > 0 ? "Runs again within a minute" : "Runs again now";
      cell.replaceChildren(el("span", { class: "tag accent" }, text));
      toast(`${name}: ${text}`);
      focusOn(cell);
    }),
  );
  const link = run.url && el("a", { href: run.url, target: "_blank", rel: "noreferrer" }, "Temporal", el("span", { class: "visually-hidden" }, ` Web UI: ${name} (opens a new tab)`));
  return [
    [el("span", {}, run.kind === "turn" ? "Turn " : "Window "), code(run.id), " ", state, run.attempt > 0 && el("span", { class: "hint" }, ` run again ${counted(run.attempt, "time")}`)],
    el("span", { class: "id" }, run.user),
    reason(run),
    timeElement(run.recorded_at),
    el("div", { class: "row" }, again, link),
  ];
}

/** @param {any} run */
function reason(run) {
  const parts = run.categories.map((/** @type {any} */ one) => `${capital(one.category.replaceAll("_", " "))}: ${one.reason ? inWords(one.reason) : "failed"}`);
  const words = run.reason ? [inWords(run.reason), ...parts] : parts;
  const codes = [words[0] === run.reason ? null : run.reason, ...run.flags].filter(Boolean).flatMap((text, place) => [place > 0 ? ", " : "", code(text)]);
  return [words.join(" ") || "No reason was told.", codes.length > 0 && el("p", { class: "hint" }, codes)];
}

/**
 * @param {HTMLElement} button
 * @param {HTMLElement} problem
 * @param {() => Promise<void>} load
 * @param {HTMLElement} heading
 */
async function rerunAll(button, problem, load, heading) {
  const text = ["Every turn and every window of the company that a failure kept out is worked on once more. That calls language models. What is stored already stays."];
  if (!(await confirmed("Run all of them again?", text, "Run all again"))) return;
  await act(button, problem, "They could not be run again.", async () => {
    const told = (await call("POST", "/v1/admin/runs/rerun", { json: {}, timeoutMs: 120_000 })).data;
    const more = told.more ? "; there are more: run all again once more" : "";
    const waiting = told.waiting_users > 0 ? `; those of ${counted(told.waiting_users, "user")} begin within a minute` : "";
    toast(`${counted(told.turns, "turn")} and ${counted(told.windows, "window")} run again${waiting}${more}.`);
    focusOn(heading);
    await load();
  });
}

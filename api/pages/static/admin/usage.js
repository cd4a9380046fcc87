// What memory costs: turns and tokens by space, tokens by user, day, stage or model.
// @ts-check

import { call } from "../api.js";
import { byId, el } from "../dom.js";
import { date, number, timeElement } from "../format.js";
import { empty, loaded, pagedTable } from "./section.js";

/** @type {Record<string, string>} */
const OUTCOMES = { updated: "updated", noop: "nothing new", kept: "kept", skipped: "skipped", pending: "waiting" };
/** @type {Record<string, string>} */
const KEYS = { user: "User", day: "Day (UTC)", stage: "Stage", model: "Model" };

/** @param {{ openSpace: (spaceId: string, button: HTMLElement) => void }} page */
export function setUpUsage(page) {
  const range = byId("usage-days");
  const by = byId("usage-by");
  const since = () => new Date(Date.now() - (Number(range.value) - 1) * 86_400_000).toISOString().slice(0, 10);

  const spaces = loaded(
    byId("usage-spaces"),
    async () => {
      const path = `/v1/admin/usage/spaces?limit=20&since=${since()}`;
      return { path, first: (await call("GET", path)).data };
    },
    ({ path, first }) => {
      if (first.items.length === 0) return empty("No turn was recorded in this time.");
      return pagedTable(
        `Turns since ${date(first.since)}, those with the most turns first`,
        [{ label: "Space" }, { label: "Turns", number: true }, { label: "Users", number: true }, { label: "How they ended" }, { label: "Tokens", number: true }, { label: "Last turn" }, { label: "What to do", hidden: true }],
        first,
        async (cursor) => (await call("GET", `${path}&cursor=${encodeURIComponent(cursor)}`)).data,
        (line) => {
          const edit = el("button", { type: "button", class: "button quiet small" }, "Settings", el("span", { class: "visually-hidden" }, ` of ${line.space_id}`));
          edit.addEventListener("click", () => page.openSpace(line.space_id, edit));
          return [el("span", { class: "id" }, line.space_id), number(line.turns), number(line.users), outcomes(line.outcomes), number(line.total_tokens), timeElement(line.last_turn_at), edit];
        },
      );
    },
  );

  const users = loaded(
    byId("usage-users"),
    async () => {
      const path = `/v1/admin/usage?limit=20&by=${by.value}&since=${since()}`;
      return { path, key: by.value, first: (await call("GET", path)).data };
    },
    ({ path, key, first }) => {
      if (first.items.length === 0) return empty("No language model was called in this time.");
      return pagedTable(
        key === "day" ? "Tokens by day, newest first" : `Tokens by ${key}, most first`,
        [{ label: KEYS[key] }, { label: "Calls", number: true }, { label: "Input", number: true }, { label: "of it cached", number: true }, { label: "Output", number: true }, { label: "Total", number: true }],
        first,
        async (cursor) => (await call("GET", `${path}&cursor=${encodeURIComponent(cursor)}`)).data,
        (line) => [
          key === "day" ? el("time", { datetime: line.day }, date(line.day)) : el("span", { class: "id" }, line[key]),
          number(line.calls),
          number(line.input_tokens),
          number(line.cached_input_tokens),
          number(line.output_tokens),
          number(line.total_tokens),
        ],
      );
    },
  );

  range.addEventListener("change", () => {
    spaces();
    users();
  });
  by.addEventListener("change", () => users());
  return () => Promise.all([spaces(), users()]);
}

/** @param {Record<string, number>} counts */
const outcomes = (counts) => Object.entries(counts).map(([name, count]) => `${number(count)} ${OUTCOMES[name] ?? name}`).join(", ");

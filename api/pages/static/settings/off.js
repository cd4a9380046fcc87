// Whether memory is on, and if not, every reason and who can change it.
// @ts-check

import { call } from "../api.js";
import { byId, el } from "../dom.js";
import { say } from "./strings.js";

/** What each reason means to the person who reads it. @type {Record<string, [string, string]>} */
const REASONS = {
  feature_flag_off: ["Context memory is not switched on for your company.", "The operator of this service can switch it on."],
  space_off: ["The “Context memory” switch of this space is off.", "An administrator of the space can switch it on."],
  web_search_on: ["This space searches the web, and memory is not used beside it.", "An administrator can switch web search off."],
  user_opted_out: ["You have switched it off.", "You can switch it on below, under “On or off”."],
  being_forgotten: ["Everything of yours is being deleted, and what was still on its way too.", "Once that has ended, new things can be remembered again."],
  root_clash: ["Your company has more than one folder for memories, so none is used.", "An administrator has to rename or remove all but one."],
};

export async function showWhetherOff() {
  const place = byId("memory-off");
  try {
    const found = (await call("GET", "/v1/enablement?allow_user_memory=true")).data;
    place.replaceChildren(...(found.active ? [] : [notice(found.reasons)]));
  } catch {
    // The editor itself says what is away.
    place.replaceChildren();
  }
}

/** @param {{ code: string, message: string, remedy: string }[]} reasons */
function notice(reasons) {
  return el(
    "div",
    { class: "notice warning", id: "off-notice" },
    el("h2", {}, say.off),
    el("ul", {}, reasons.map((reason) => el("li", {}, (REASONS[reason.code] ?? [reason.message, reason.remedy]).join(" ")))),
    reasons.some((reason) => reason.code === "being_forgotten") ? null : el("p", {}, say.offHint),
  );
}

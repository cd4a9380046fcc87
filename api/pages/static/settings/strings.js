// What the page says, in one place.
// @ts-check

import { counted, number } from "../format.js";

export const SECTIONS = ["Identity", "Communication Preferences", "Work Context", "Skills & Expertise", "Recent Topics", "Follow-ups"];

/** What an empty memory is edited from. */
export const TEMPLATE = `# User Memory\n\n${SECTIONS.map((name) => `## ${name}\n_(empty)_\n`).join("\n")}`;

export const say = {
  retry: "Try again",
  loading: "Loading your memory…",
  loaded: "Your memory is loaded.",
  unsaved: "Unsaved changes",
  saving: "Saving…",
  clean: "No unsaved changes",

  notLoaded: "Your memory could not be loaded.",
  unavailable: "Your memory is not available at the moment.",
  unavailableHint: "Nothing is lost: it is kept, and the assistant answers without it until it is back.",
  unreadable: "The stored memory cannot be read.",
  unreadableHint: "You can go back to an earlier version in the history below, or write a new one over it.",

  emptyTitle: "Nothing is remembered yet",
  emptyText: [
    "After an answer, the assistant keeps what is worth keeping about you: who you are, how you like to be answered, what you work on. It appears here, and every change is in the history.",
    "You do not have to wait: you can also write it yourself.",
  ],
  write: "Write it yourself",

  off: "Context memory is off",
  offHint: "Nothing is read or learned while it is off. What was remembered is kept, and you can still read, change and delete it here.",
  offUnknown: "It could not be found out whether memory is on.",

  draftKept: "Your unsaved text from before is back.",
  draftDrop: "Drop it",
  changedMeanwhile: "Your memory was changed meanwhile, by another window or by the assistant. If you save, you will see both versions first.",

  saveFailed: "Not saved.",
  kept: "Your text is kept in this window.",
  unsure: "It may have been saved all the same: trying again saves it once at most.",
  tooLong: (/** @type {number} */ bytes) => `The text has ${number(bytes)} bytes; at most 1,048,576 (1 MiB) can be saved.`,
  saved: (/** @type {number} */ version, /** @type {string} */ time) => `Saved as version ${number(version)} at ${time}`,
  nothingToSave: "There is nothing to save.",

  previewWaits: "The preview could not be made. It is tried again when you type.",
  previewCut: "The preview shows the beginning; all of the text is saved.",
  removed: (/** @type {number} */ count) => `${counted(count, "secret")} (a password, a key or the like) will be taken out.`,
  nothingInSection: "Nothing here yet",

  budget: (/** @type {number} */ used, /** @type {number} */ most) =>
    `${number(used)} of ${number(most)} tokens, ${number(Math.round((used / most) * 100))} %`,
  budgetUnknown: "not counted yet",
  overBudget:
    "This is over the budget. You can save it; when it is used for an answer it will be shortened, oldest topics first, and the next change that the assistant makes condenses it.",

  conflictTitle: "Your memory was changed while you were writing",
  conflictText: (/** @type {string} */ by) => `Nothing was overwritten. Stored now is ${by}. Compare both, put together what you want to keep, and save that.`,
  mergeLabel: "What is to be saved",
  mergeHint: "It begins as your text. Edit it by hand, or start from the stored one.",
  takeTheirs: "Start from the stored one",
  takeMine: "Start from mine",
  saveMerged: "Save this",
  dropMine: "Keep the stored one",
  comparing: "Comparing…",
  notCompared: "The two could not be compared. You can still merge by hand.",

  leaveTitle: "Leave without saving?",
  leaveText: "You have changed your memory and not saved it.",
  stay: "Stay",
  leave: "Leave without saving",
  discardTitle: "Discard your changes?",
  discardText: "The text goes back to what is stored.",
  discard: "Discard changes",
};

/** What wrote a version. @param {string | null} cause */
export function causeText(cause) {
  const [kind, detail] = (cause ?? "").split(":");
  if (kind === "turn" || kind === "turns") return "Learned from a conversation";
  if (kind === "edit") return "Edited by you";
  if (kind === "rollback") return detail ? `Went back to version ${detail}` : "Went back to an earlier version";
  return kind ? `Written by ${kind}` : "Written by another program";
}

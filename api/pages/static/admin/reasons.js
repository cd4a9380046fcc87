// Why a run was kept from changing memory, in words. The codes are those of docs/architecture.md, and stay beside the words.
// @ts-check

/** @type {Record<string, string>} */
const STEPS = {
  consolidate_failed: "The new memory could not be written",
  upload_failed: "The new memory could not be stored",
  candidate_missing: "The new memory was gone before it was stored",
  malformed_output: "The model's answer could not be used",
  loss_guard: "The model's answer would have lost too much",
  privacy_scrub: "The look over other people's details did not succeed",
  conflict: "Another program kept changing the file",
  cancelled: "Somebody cancelled the run",
};

/** @type {Record<string, string>} */
const CAUSES = {
  ModelRateLimited: "the language model takes no more calls at the moment",
  ModelUnavailable: "the language model is away",
  ModelTimedOut: "the language model did not answer in time",
  ModelRejected: "the language model refused the call; see its name, key and limits",
  MalformedOutput: "the language model's answer could not be used",
  MemoryUnavailable: "a store was away",
  StoreUnavailable: "a store was away",
  SpendCapReached: "the user's tokens for the day are used up",
  UnreadableProfile: "the stored memory cannot be read",
  RootClash: "the company's roots clash",
};

/**
 * @param {string} code for instance `consolidate_failed:ModelUnavailable`
 * @returns {string} the code itself where there are no words for it
 */
export function inWords(code) {
  const [step, cause] = code.split(":");
  const words = [STEPS[step], CAUSES[cause ?? step]].filter(Boolean);
  return words.length ? `${words.join(": ")}.` : code;
}

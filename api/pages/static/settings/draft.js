// The unsaved text survives a reload of this tab, and nothing else: it is gone when it is saved, dropped, or its person signs out.
// @ts-check

const KEY = "afterturn.draft";

/**
 * @typedef {{ text: string, etag: string | null, user: string }} Draft
 */

/** @param {string} user */
export function draftOf(user) {
  return {
    /** @returns {Draft | null} */
    read() {
      try {
        const draft = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
        return draft?.user === user && typeof draft.text === "string" ? draft : null;
      } catch {
        return null;
      }
    },
    /**
     * @param {string} text
     * @param {string | null} etag of the version that is edited
     */
    keep(text, etag) {
      try {
        sessionStorage.setItem(KEY, JSON.stringify({ text, etag, user }));
      } catch {
        // A full or closed storage only means that a reload loses the text, and the browser asks before that.
      }
    },
    drop() {
      try {
        sessionStorage.removeItem(KEY);
      } catch {
        // As above.
      }
    },
  };
}

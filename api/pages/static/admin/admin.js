// The admin page: its parts are loaded side by side, and each of them can fail on its own.
// @ts-check

import { watchSignIn } from "../session.js";
import { setUpOverview } from "./overview.js";
import { setUpRoots } from "./roots.js";
import { setUpRuns } from "./runs.js";
import { setUpSpaces, setUpWhy } from "./spaces.js";
import { setUpTokens } from "./tokens.js";
import { setUpUsage } from "./usage.js";

watchSignIn();

/** @type {any} what the company's part shows; the forms of spaces need its defaults */
let overview = null;

const loadOverview = setUpOverview({
  seen: (found) => {
    overview = found;
  },
  changed: () => rootsChanged(),
});
const loadRoots = setUpRoots({ changed: () => rootsChanged() });
const spaces = setUpSpaces({
  overview: () => overview,
  changed: () => {
    // Saving a space may have made a root, or a clash.
    loadOverview({ quiet: true });
    loadRoots({ quiet: true });
    spaces.load({ quiet: true });
  },
});
const loadUsage = setUpUsage({ openSpace: spaces.open });
const loadRuns = setUpRuns();
const loadTokens = setUpTokens();
setUpWhy();

function rootsChanged() {
  loadOverview({ quiet: true });
  loadRoots({ quiet: true });
  spaces.load({ quiet: true });
  spaces.refresh();
}

for (const load of [loadOverview, spaces.load, loadRuns, loadUsage, loadRoots, loadTokens]) load();

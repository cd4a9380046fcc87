// The settings page: its parts, and what one tells another.
// @ts-check

import { byId } from "../dom.js";
import { watchSignIn } from "../session.js";
import { startData } from "./data.js";
import { startEditor } from "./editor.js";
import { startHistory } from "./history.js";
import { guardLeaving } from "./leaving.js";
import { showWhetherOff } from "./off.js";
import { startPreference } from "./preference.js";
import { startRemembered } from "./remembered.js";
import { startSearch } from "./search.js";

const page = byId("main").dataset;
const mayWrite = page.mayWrite === "yes";

watchSignIn();
const remembered = startRemembered(mayWrite);
const preference = startPreference({ mayWrite, onChanged: showWhetherOff });
const editor = startEditor({ user: page.person ?? "", onStored: () => history.load() });
const history = startHistory({ mayWrite, isDirty: editor.isDirty, onWentBack: editor.refresh });

startSearch(remembered.open);
guardLeaving(editor);
startData({
  dropDraft: editor.dropDraft,
  onForgotten() {
    editor.load();
    history.load();
    preference.load();
    remembered.load();
    // The choice is forgotten too, and may have been why it was off.
    showWhetherOff();
  },
});

showWhetherOff();
history.load();
preference.load();
remembered.load();

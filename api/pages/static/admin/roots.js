// Memory roots: list, make one, rename, take out of use.
// @ts-check

import { call } from "../api.js";
import { confirmed, editInDialog } from "../dialog.js";
import { byId, code, el, focusOn, toast } from "../dom.js";
import { holds } from "./overview.js";
import { act, capital, empty, loaded, table } from "./section.js";

/** @param {{ changed: () => void }} page */
export function setUpRoots(page) {
  const section = byId("roots");
  const problem = el("div", {});
  const heading = /** @type {HTMLElement} */ (section.querySelector("h2"));

  /** @param {string} text */
  const done = (text) => {
    toast(text);
    focusOn(heading);
    page.changed();
  };

  /** @param {any} root */
  function row(root) {
    if (!root.active) {
      const back = el("button", { type: "button", class: "button small" }, "Use again", el("span", { class: "visually-hidden" }, ` ${root.folder}`));
      back.addEventListener("click", () =>
        act(back, problem, "The root could not be taken back.", async () => {
          await call("POST", "/v1/admin/roots", { json: { folder: root.folder } });
          done(`${root.folder} is used again.`);
        }),
      );
      return [code(root.folder), el("span", { class: "tag" }, "Out of use"), holds(root.has_profiles), back];
    }
    const rename = el("button", { type: "button", class: "button small" }, "Rename", el("span", { class: "visually-hidden" }, ` ${root.folder}`));
    const remove = el("button", { type: "button", class: "button small danger" }, "Take out of use", el("span", { class: "visually-hidden" }, `: ${root.folder}`));
    rename.addEventListener("click", () => renameRoot(root.folder, done));
    remove.addEventListener("click", async () => {
      const text = [`Spaces that name ${root.folder} fall back to the company's one root. Nothing is deleted from the object store.`];
      if (!(await confirmed(`Take ${root.folder} out of use?`, text, "Take out of use", { danger: true }))) return;
      await act(remove, problem, "The root could not be taken out of use.", async () => {
        await call("DELETE", `/v1/admin/roots/${encodeURIComponent(root.folder)}`);
        done(`${root.folder} is out of use.`);
      });
    });
    return [code(root.folder), el("span", { class: "tag good" }, "In use"), holds(root.has_profiles), el("div", { class: "row" }, rename, remove)];
  }

  return loaded(
    section,
    async () => (await call("GET", "/v1/admin/roots")).data,
    (data) => {
      problem.replaceChildren();
      if (data.items.length > 0) {
        const columns = [{ label: "Folder" }, { label: "State" }, { label: "Profiles" }, { label: "What to do", hidden: true }];
        return [data.clash && el("p", {}, el("span", { class: "tag error" }, "Clash"), " ", capital(data.clash.remedy), "."), table("Roots of the company", columns, data.items.map(row)).element, problem];
      }
      const make = el("button", { type: "button", class: "button" }, "Make it now");
      make.addEventListener("click", () =>
        act(make, problem, "The root could not be made.", async () => {
          await call("POST", "/v1/admin/roots", { json: {} });
          done("The root is there.");
        }),
      );
      return [empty("There is no root yet. It is made when memory is first used, or when a space is saved."), el("div", { class: "row" }, make), problem];
    },
  );
}

/**
 * @param {string} folder
 * @param {(text: string) => void} done
 */
async function renameRoot(folder, done) {
  const field = el("input", { type: "text", id: "new-folder", name: "folder", value: folder, autocomplete: "off", autocapitalize: "none", spellcheck: "false", maxlength: "63", "aria-describedby": "new-folder-hint" });
  const hint = "Letters, digits, - and _. Profiles in the object store are not moved: the only root in use can be renamed while no profile lies under it.";
  let name = folder;
  const saved = await editInDialog({
    title: `Rename ${folder}`,
    label: "Rename",
    fields: [el("div", { class: "field" }, el("label", { for: "new-folder" }, "New name"), field, el("p", { class: "hint", id: "new-folder-hint" }, hint))],
    save: async () => {
      name = field.value.trim();
      await call("POST", `/v1/admin/roots/${encodeURIComponent(folder)}/rename`, { json: { new_folder: name } });
    },
  });
  if (saved) done(`${folder} is now ${name}.`);
}

// What is remembered beside the profile: facts, contacts, tasks.
// @ts-check

import { call, newId } from "../api.js";
import { editInDialog } from "../dialog.js";
import { byId, el } from "../dom.js";
import { date, timeElement } from "../format.js";
import { area, input, select, valueOf } from "./fields.js";
import { startItems } from "./items.js";
import { withSpeakers } from "./sources.js";

const GONE = "It is removed for good, with the words that it rests on. This cannot be undone.";
/** Fields of a contact, in the order in which they are shown. @type {[string, string, "line" | "text" | "email" | "tel"][]} */
const CONTACT_FIELDS = [
  ["first_name", "First name", "line"],
  ["surname", "Surname", "line"],
  ["email_address", "E-mail", "email"],
  ["phone_number", "Phone", "tel"],
  ["whatsapp_number", "WhatsApp", "tel"],
  ["timezone", "Time zone", "line"],
  ["job_title", "Job title", "line"],
  ["bio", "About", "text"],
  ["rolling_summary", "Summary of the conversations", "text"],
  ["response_policy", "How to answer", "text"],
];
const STATUSES = { open: "Open", in_progress: "In progress", done: "Done", cancelled: "Cancelled" };
const PRIORITIES = { low: "Low", normal: "Normal", high: "High", urgent: "Urgent" };

/** @param {boolean} mayWrite */
export function startRemembered(mayWrite) {
  const lists = { fact: startItems(facts(mayWrite)), contact: startItems(contacts(mayWrite)), task: startItems(tasks(mayWrite)) };
  return {
    load: () => Promise.all(Object.values(lists).map((list) => list.load())),
    /** The kinds whose items are opened one by one. @type {Record<string, (key: string) => Promise<HTMLElement>>} */
    open: Object.fromEntries(Object.entries(lists).map(([kind, list]) => [kind, list.open])),
  };
}

// ------------------------------------------------------------------------------------------------------------------- facts

/** @param {boolean} mayWrite @returns {import("./items.js").Kind} */
function facts(mayWrite) {
  return {
    group: byId("facts"),
    path: "/v1/facts?sources=true",
    read: async (key) => (await call("GET", `/v1/facts/${encodeURIComponent(key)}`)).data.fact,
    one: "fact",
    empty: "No fact is remembered.",
    mayWrite,
    key: (fact) => fact.fact_id,
    name: (fact) => fact.statement,
    keeps: () => false,
    body: (fact) => [
      el("p", { class: "item-title" }, fact.statement),
      el("p", { class: "item-facts" }, fact.kind === "fact" ? null : el("span", { class: "tag" }, fact.kind), fact.team ? el("span", { class: "tag" }, `Team ${fact.team}`) : null, el("span", {}, "since ", timeElement(fact.observed_at))),
    ],
    sources: (fact) => withSpeakers(fact.sources ?? []),
    forgetPath: (fact) => `/v1/facts/${encodeURIComponent(fact.fact_id)}${fact.team ? `?team=${encodeURIComponent(fact.team)}` : ""}`,
    forgetText: GONE,
    correct: correctFact,
  };
}

/**
 * What is right takes the place of what was wrong; that stays in the fact's own history.
 * @param {any} fact
 * @param {(changed: any) => void} done
 */
function correctFact(fact, done) {
  const statement = area("fact-statement", "What is right", fact.statement, { rows: 4, maxlength: 2000, required: true });
  const key = newId();
  return editInDialog({
    title: "Correct this fact",
    fields: [el("p", { class: "hint" }, "The new statement takes the place of this one."), statement],
    label: "Save",
    save: async (form) => {
      const text = valueOf(form, "fact-statement", "Write what is right, or forget the fact.");
      const given = { statement: text, subject: fact.subject, kind: fact.kind, topics: fact.topics, supersedes: [fact.fact_id] };
      const json = { facts: [given], team: fact.team ?? null };
      const added = (await call("POST", "/v1/facts", { json, headers: { "Idempotency-Key": key } })).data.items[0];
      done((await call("GET", `/v1/facts/${encodeURIComponent(added.fact.fact_id)}`)).data.fact);
    },
  });
}

// ---------------------------------------------------------------------------------------------------------------- contacts

/** @param {boolean} mayWrite @returns {import("./items.js").Kind} */
function contacts(mayWrite) {
  return {
    group: byId("contacts"),
    path: "/v1/contacts",
    read: async (key) => (await call("GET", `/v1/contacts/${encodeURIComponent(key)}`)).data,
    one: "contact",
    empty: "No contact is remembered.",
    mayWrite,
    key: (contact) => contact.contact_id,
    name: contactName,
    keeps: (contact) => contact.is_system,
    hasSources: (contact) => !contact.is_system || CONTACT_FIELDS.some(([field]) => contact[field]),
    body: (contact) => [
      el("p", { class: "item-title" }, contactName(contact), tagOf(contact)),
      known(contact),
    ],
    sources: async (contact) => withSpeakers((await call("GET", `/v1/contacts/${contact.contact_id}`)).data.sources ?? []),
    forgetPath: (contact) => `/v1/contacts/${contact.contact_id}`,
    forgetText: `${GONE} Tasks of this contact stay.`,
    correct: correctContact,
  };
}

/** @param {any} contact */
function known(contact) {
  const fields = CONTACT_FIELDS.slice(2).filter(([field]) => contact[field]);
  if (!fields.length) return contact.first_name || contact.surname ? null : el("p", { class: "item-facts" }, "Nothing is known yet.");
  return el("dl", {}, fields.flatMap(([field, label]) => [el("dt", {}, label), el("dd", {}, contact[field])]));
}

/** Who of the two that are always there it is, where its name does not say so. @param {any} contact */
function tagOf(contact) {
  if (!contact.is_system || !(contact.first_name || contact.surname)) return null;
  return [" ", el("span", { class: "tag" }, contact.contact_id === 1 ? "You" : "Assistant")];
}

/** @param {any} contact */
function contactName(contact) {
  const name = [contact.first_name, contact.surname].filter(Boolean).join(" ");
  const fallback = ["The assistant", "You"][contact.contact_id] ?? `Contact ${contact.contact_id}`;
  return name || contact.email_address || contact.phone_number || fallback;
}

/**
 * @param {any} contact
 * @param {(changed: any) => void} done
 */
function correctContact(contact, done) {
  const fields = CONTACT_FIELDS.map(([field, label, type]) =>
    type === "text" ? area(field, label, contact[field] ?? "", { rows: 3 }) : input(field, label, contact[field] ?? "", { type: type === "line" ? "text" : type }),
  );
  const key = newId();
  return editInDialog({
    title: `Correct ${contactName(contact)}`,
    fields,
    label: "Save",
    save: async (form) => {
      /** @type {Record<string, string | null>} */
      const json = {};
      for (const [field] of CONTACT_FIELDS) {
        const value = valueOf(form, field) || null;
        if (value !== (contact[field] ?? null)) json[field] = value;
      }
      if (!Object.keys(json).length) return done(contact);
      return done((await call("PATCH", `/v1/contacts/${contact.contact_id}`, { json, headers: { "Idempotency-Key": key } })).data);
    },
  });
}

// ------------------------------------------------------------------------------------------------------------------- tasks

/** @param {boolean} mayWrite @returns {import("./items.js").Kind} */
function tasks(mayWrite) {
  return {
    group: byId("tasks"),
    path: "/v1/tasks?sources=true",
    read: async (key) => (await call("GET", `/v1/tasks/${encodeURIComponent(key)}`)).data,
    one: "task",
    empty: "No task is remembered.",
    mayWrite,
    key: (task) => task.task_id,
    name: (task) => task.name,
    keeps: () => false,
    body: (task) => [
      el("p", { class: "item-title" }, task.name),
      task.description ? el("p", {}, task.description) : null,
      el(
        "p",
        { class: "item-facts" },
        el("span", { class: `tag ${task.status === "done" ? "good" : ""}` }, /** @type {any} */ (STATUSES)[task.status] ?? task.status),
        task.priority === "normal" ? null : el("span", { class: "tag warning" }, `${/** @type {any} */ (PRIORITIES)[task.priority]} priority`),
        task.deadline ? el("span", {}, `due ${date(task.deadline)}`) : null,
        task.schedule ? el("span", {}, `repeats: ${task.schedule}`) : null,
      ),
    ],
    sources: (task) => withSpeakers(task.sources ?? []),
    forgetPath: (task) => `/v1/tasks/${encodeURIComponent(task.task_id)}`,
    forgetText: GONE,
    correct: correctTask,
  };
}

/**
 * @param {any} task
 * @param {(changed: any) => void} done
 */
function correctTask(task, done) {
  const dueDay = task.deadline ? task.deadline.slice(0, 10) : "";
  const fields = [
    input("name", "What", task.name, { type: "text", maxlength: 200, required: true }),
    area("description", "Details", task.description, { rows: 3, maxlength: 4000 }),
    select("status", "Status", task.status, STATUSES),
    select("priority", "Priority", task.priority, PRIORITIES),
    input("deadline", "Due on (UTC)", dueDay, { type: "date" }),
  ];
  const key = newId();
  return editInDialog({
    title: "Correct this task",
    fields,
    label: "Save",
    save: async (form) => {
      const name = valueOf(form, "name", "A task needs a few words that say what it is.");
      /** @type {Record<string, any>} */
      const json = { name, description: valueOf(form, "description"), status: valueOf(form, "status"), priority: valueOf(form, "priority") };
      const day = valueOf(form, "deadline");
      // A day that was not touched keeps its hour.
      if (day !== dueDay) json.deadline = day ? `${day}T23:59:00Z` : null;
      for (const field of Object.keys(json)) if (json[field] === (task[field] ?? "")) delete json[field];
      if (!Object.keys(json).length) return done(task);
      return done((await call("PATCH", `/v1/tasks/${encodeURIComponent(task.task_id)}`, { json, headers: { "Idempotency-Key": key } })).data);
    },
  });
}

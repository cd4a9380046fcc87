// Numbers, sizes and times in the way of the reader's own language setting.
// @ts-check

import { el } from "./dom.js";

const whole = new Intl.NumberFormat();
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

/** @param {number} value */
export const number = (value) => whole.format(value);

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1024) return counted(bytes, "byte");
  return bytes < 1024 * 1024 ? `${number(Math.round(bytes / 1024))} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** @param {string | null | undefined} iso */
export const when = (iso) => (iso ? moment.format(new Date(iso)) : "");

/** @param {string | null | undefined} iso */
export const date = (iso) => (iso ? day.format(new Date(iso)) : "");

/** @param {Date} at */
export const timeOfDay = (at) => clock.format(at);

/** @param {string} iso */
export const timeElement = (iso) => el("time", { datetime: iso }, when(iso));

import type { Interval, Setting } from "../protocol";

const grouped = new Intl.NumberFormat("en-US");

export const count = (n: number): string => grouped.format(n);

/** "1 row", "3 rows" */
export const counted = (n: number, noun: string): string => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/** A share as "12.3 %", or "–" where there is none. */
export const percent = (share: number | null | undefined, digits = 1): string =>
  share == null ? "–" : `${(share * 100).toFixed(digits)} %`;

/** A share as whole percent without the sign, for columns headed by it. */
export const hundred = (share: number | null | undefined): string => (share == null ? "–" : String(Math.round(share * 100)));

/** A distance without its leading zero: ".474"; "–" lends nothing. */
export const radius = (value: Setting | undefined): string =>
  value == null ? "–" : value === "auto" ? "auto" : value.toFixed(3).replace(/^0(?=\.)/, "");

/** How far a source lends: what is set or, where that is left to the model, what it chose; null lends nothing. */
export const reaches = (source: { radius: Setting; reach: number | null }): Setting =>
  source.reach ?? (source.radius === "auto" ? null : source.radius);

export const score = (value: number | null | undefined): string => (value == null ? "–" : value.toFixed(3));

/** A probability as ".97"; certainty is "1.0". */
export const chance = (p: number | null | undefined): string => (p == null ? "" : p >= 0.995 ? "1.0" : p.toFixed(2).replace(/^0/, ""));

/** "14 of 15" while the count is small, else "97 %". */
export function rate(interval: Interval): string {
  if (!interval || interval.n === 0) return "–";
  return interval.n < 50 ? `${Math.round(interval.value * interval.n)} of ${interval.n}` : percent(interval.value, 0);
}

export const range = (interval: Interval): string =>
  interval && interval.n > 0 ? `${Math.round(interval.low * 100)}–${Math.round(interval.high * 100)} %` : "";

/** Milliseconds of a measured time; under ten with one decimal. */
export const milliseconds = (ms: number): string => `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;

export const signed = (value: number): string => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

/** Whether what a voice adds can be seen in two decimals: what adds nothing is not drawn. */
export const counts = ({ weight }: { weight: number }): boolean => Math.abs(weight) >= 0.005;

/** The clock of an ISO time, in this place. */
export function clock(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** A name for a function from what it looks for: letters, digits and underscores, a letter first. */
export function functionName(words: string): string {
  const name = words.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "").slice(0, 40);
  return /^[a-z]/.test(name) ? name : name ? `f_${name}` : "";
}

// One table of keys: it answers key presses, fills the "?" overlay and the status bar.

export type Action =
  | "find" | "keys" | "lasso" | "colour" | "why" | "like" | "next" | "undo" | "redo" | "back" | "open"
  | "down" | "up" | "tab" | "theme" | "fit" | "in" | "out" | "clear" | "search";

export interface Key { keys: string[]; show: string; words: string; action: Action }

export const KEYS: Key[] = [
  { keys: ["ArrowDown", "j"], show: "↓", words: "next row", action: "down" },
  { keys: ["ArrowUp", "k"], show: "↑", words: "row before", action: "up" },
  { keys: ["Enter"], show: "↵", words: "keep, open", action: "open" },
  { keys: ["Escape"], show: "Esc", words: "back, drop", action: "back" },
  { keys: ["v"], show: "V", words: "lasso", action: "lasso" },
  { keys: ["c"], show: "C", words: "next colour", action: "colour" },
  { keys: ["w"], show: "W", words: "why this label", action: "why" },
  { keys: ["s"], show: "S", words: "more like this", action: "like" },
  { keys: ["n"], show: "N", words: "next row to label", action: "next" },
  { keys: ["u", "mod+z"], show: "U", words: "undo", action: "undo" },
  { keys: ["shift+u", "mod+shift+z"], show: "⇧U", words: "redo", action: "redo" },
  { keys: ["+", "="], show: "+", words: "zoom in", action: "in" },
  { keys: ["-"], show: "−", words: "zoom out", action: "out" },
  { keys: ["f"], show: "F", words: "whole map", action: "fit" },
  { keys: ["x"], show: "X", words: "clear the selection", action: "clear" },
  { keys: ["t"], show: "T", words: "next tab", action: "tab" },
  { keys: ["d"], show: "D", words: "light or dark", action: "theme" },
  { keys: ["/"], show: "/", words: "find rows", action: "find" },
  { keys: ["g", "mod+k"], show: "G", words: "go to a row, source or class", action: "search" },
  { keys: ["?", "shift+?"], show: "?", words: "all keys", action: "keys" },
];

/** What the platform calls the key of its shortcuts. */
export const MOD = /Mac|iP/.test(globalThis.navigator?.platform ?? "") ? "⌘" : "Ctrl ";

export interface Press { key: string; ctrlKey: boolean; metaKey: boolean; shiftKey: boolean; altKey: boolean }

export function pressed(event: Press): string {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const mod = event.ctrlKey || event.metaKey ? "mod+" : "";
  const shift = event.shiftKey && (mod || /^[a-z?]$/.test(key)) ? "shift+" : "";
  return mod + shift + key;
}

export function actionOf(event: Press): Action | null {
  if (event.altKey) return null;
  const press = pressed(event);
  return KEYS.find(({ keys }) => keys.includes(press))?.action ?? null;
}

/** The key of each class: its own digit where all classes are digits, else 1, 2, … 9. */
export function classKeys(classes: string[]): string[] {
  if (classes.every((name) => /^[0-9]$/.test(name))) return classes;
  return classes.map((_, index) => (index < 9 ? String(index + 1) : ""));
}

/** 0 skips, except where 0 is a class. */
export const skipKey = (classes: string[]): string => (classKeys(classes).includes("0") ? "." : "0");

export function digitAction(event: Press, classes: string[]): { label: string } | "skip" | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.key === skipKey(classes)) return "skip";
  const index = classKeys(classes).indexOf(event.key);
  return index >= 0 && event.key !== "" ? { label: classes[index] } : null;
}

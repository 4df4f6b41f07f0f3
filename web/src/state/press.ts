import { actionOf, digitAction, type Action } from "../logic/keys";
import type { ColourBy } from "../protocol";
import type { Studio, Tab } from "./studio.svelte";

const TABS: Tab[] = ["rows", "why", "source", "label", "code", "history"];
export const COLOURS: ColourBy[] = ["label", "source", "uncertain", "hand", "novote"];

function typing(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0] as HTMLElement;
  return target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.tagName)
    || (target.tagName === "INPUT" && !["checkbox", "range"].includes((target as HTMLInputElement).type));
}

/** Answers a key press anywhere in the studio, except where someone types. */
export function handleKey(studio: Studio, event: KeyboardEvent): void {
  if (!studio.state || event.defaultPrevented) return;
  if (typing(event)) {
    if (event.key === "Escape" && !(event.composedPath()[0] as HTMLElement).isContentEditable) (event.composedPath()[0] as HTMLElement).blur();
    return;
  }
  const digit = digitAction(event, studio.classes);
  const action = digit ? null : actionOf(event);
  const button = (event.composedPath()[0] as HTMLElement).tagName === "BUTTON";
  if (!digit && (!action || (action === "open" && button))) return;
  event.preventDefault();
  if (digit) answer(studio, digit);
  else ACTIONS[action!](studio);
}

function answer(studio: Studio, digit: { label: string } | "skip"): void {
  if (studio.tab === "label") {
    if (digit === "skip") studio.queue.skip();
    else void studio.queue.answer(digit.label);
  } else if (digit !== "skip" && studio.row !== null) void studio.label(studio.row, digit.label);
}

const step = (by: number) => (studio: Studio) => {
  if (studio.tab === "label") return studio.queue.move(by);
  const { rows } = studio;
  const at = studio.row === null ? -1 : rows.indexOf(studio.row);
  const line = rows.at(Math.max(0, Math.min(rows.total - 1, at + by)));
  if (line) studio.openRow(line.row);
};

const ACTIONS: Record<Action, (studio: Studio) => void> = {
  down: step(1),
  up: step(-1),
  open: (studio) => {
    if (studio.trial.open) void studio.trial.keep();
    else if (studio.row !== null) studio.tab = "why";
  },
  back: (studio) => {
    if (studio.keysShown) studio.keysShown = false;
    else if (studio.trial.open) void studio.trial.drop();
    else if (studio.draft.open && studio.tab === "draft") void studio.draft.close();
    else if (studio.lasso) studio.lasso = false;
    else if (studio.tab !== "rows") studio.tab = "rows";
    else if (studio.selection) studio.select(null);
    else studio.row = null;
  },
  lasso: (studio) => (studio.lasso = !studio.lasso),
  colour: (studio) => {
    const modes = COLOURS.filter((by) => by !== "source" || studio.source);
    studio.choose(modes[(modes.indexOf(studio.by) + 1) % modes.length]);
  },
  why: (studio) => (studio.tab = "why"),
  like: (studio) => {
    const rows = studio.selection ?? (studio.row !== null ? [studio.row] : []);
    if (rows.length) void studio.draft.moreLike(rows);
  },
  next: (studio) => {
    if (studio.tab === "label") void studio.queue.fill("teach");
    studio.tab = "label";
  },
  undo: (studio) => {
    if (studio.tab === "label" && studio.queue.answered.length) void studio.queue.undo();
    else if (studio.state?.undo) void studio.edit("undo", {});
  },
  redo: (studio) => {
    if (studio.state?.redo) void studio.edit("redo", {});
  },
  tab: (studio) => (studio.tab = TABS[(TABS.indexOf(studio.tab) + 1) % TABS.length]),
  theme: (studio) => setTheme(studio),
  fit: (studio) => studio.scene?.fit(studio.selection ?? undefined),
  in: (studio) => studio.scene?.zoom(1.4),
  out: (studio) => studio.scene?.zoom(1 / 1.4),
  clear: (studio) => studio.select(null),
  find: (studio) => {
    studio.tab = "rows";
    studio.findAsked++;
  },
  search: (studio) => studio.searchAsked++,
  keys: (studio) => (studio.keysShown = !studio.keysShown),
};

export function setTheme(studio: Studio): void {
  studio.theme = studio.theme === "dark" ? "light" : "dark";
  localStorage.setItem("epoxy-theme", studio.theme);
}

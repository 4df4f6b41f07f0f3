// Which lines of a long list are on the screen. Browsers stop at some 33 million pixels of height, so a
// longer list is scrolled in proportion: a million rows fit, and the last one is still reached.
const TALLEST = 16_000_000;

export interface Window { first: number; last: number; offset: number; height: number }

export function visible(total: number, line: number, scroll: number, view: number, spare = 4): Window {
  const full = total * line;
  const height = Math.min(full, TALLEST);
  const travel = Math.max(1, height - view);
  const at = full === height ? scroll : (Math.min(scroll, travel) / travel) * Math.max(0, full - view);
  const first = Math.max(0, Math.floor(at / line) - spare);
  const last = Math.min(total, Math.ceil((at + view) / line) + spare);
  return { first, last, offset: scroll + (first * line - at), height };
}

/** Where to scroll so that a line is in view; null where it already is. */
export function scrollTo(index: number, total: number, line: number, scroll: number, view: number): number | null {
  const full = total * line;
  const height = Math.min(full, TALLEST);
  const stretch = full === height ? 1 : Math.max(1, full - view) / Math.max(1, height - view);
  const at = scroll * stretch;
  if (index * line < at) return (index * line) / stretch;
  if ((index + 1) * line > at + view) return ((index + 1) * line - view) / stretch;
  return null;
}

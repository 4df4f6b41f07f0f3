/** The text selected where an element stands, also within a shadow root, which a document does not look into. */
export function textSelection(within: Node | undefined): Selection | null {
  const root = within?.getRootNode() as (Node & { getSelection?: () => Selection | null }) | undefined;
  return root?.getSelection?.() ?? getSelection();
}

export const chosenText = (within: Node | undefined): string => textSelection(within)?.toString().trim() ?? "";

/** Both selections as one, in order, without repeats. */
export function union(a: Uint32Array | null, b: Uint32Array): Uint32Array {
  if (!a) return b;
  const both = new Uint32Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  both.sort();
  let n = 0;
  for (let i = 0; i < both.length; i++) if (!n || both[i] !== both[n - 1]) both[n++] = both[i];
  return both.slice(0, n);
}

/** One bit a row, lowest first, in base64: a lasso may hold a million rows, and their numbers would be megabytes. */
export function asBits(rows: Uint32Array, total: number): string {
  const bits = new Uint8Array(Math.ceil(total / 8));
  for (let i = 0; i < rows.length; i++) bits[rows[i] >> 3] |= 1 << (rows[i] & 7);
  let text = "";
  for (let at = 0; at < bits.length; at += 8192) text += String.fromCharCode(...bits.subarray(at, at + 8192));
  return btoa(text);
}

/** So many of the rows at most, as far apart in the list as they can be. */
export function spread(rows: ArrayLike<number>, most: number): number[] {
  const n = Math.min(most, rows.length);
  return Array.from({ length: n }, (_, i) => rows[Math.floor((i * rows.length) / n)]);
}

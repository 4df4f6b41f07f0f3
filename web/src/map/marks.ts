import type { Pushed } from "../protocol";
import { asUint32 } from "../transport/frames";

/**
 * Two bytes a row for the way the map is coloured now. A sparse difference changes some rows, a whole one all.
 * Returns false where the frame does not fit the rows there are, so that the page asks again.
 */
export function applyMarks(marks: Uint8Array, { head, bytes }: Pushed["marks"]): boolean {
  if (!head.sparse) {
    if (bytes.length !== marks.length) return false;
    marks.set(bytes);
    return true;
  }
  if (bytes.length !== 6 * head.n) return false;
  const rows = asUint32(bytes.subarray(0, 4 * head.n));
  const values = bytes.subarray(4 * head.n);
  for (let i = 0; i < rows.length; i++) {
    const at = 2 * rows[i];
    if (at + 1 >= marks.length) return false;
    marks[at] = values[2 * i];
    marks[at + 1] = values[2 * i + 1];
  }
  return true;
}

/** Both selections as one, in order, without repeats. */
export function union(a: Uint32Array | null, b: Uint32Array): Uint32Array {
  return a ? Uint32Array.from(new Set([...a, ...b])).sort() : b;
}

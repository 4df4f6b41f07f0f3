/** The text selected where an element stands, also within a shadow root, which a document does not look into. */
export function textSelection(within: Node | undefined): Selection | null {
  const root = within?.getRootNode() as (Node & { getSelection?: () => Selection | null }) | undefined;
  return root?.getSelection?.() ?? getSelection();
}

export const chosenText = (within: Node | undefined): string => textSelection(within)?.toString().trim() ?? "";

/** Both selections as one, in order, without repeats. */
export function union(a: Uint32Array | null, b: Uint32Array): Uint32Array {
  return a ? Uint32Array.from(new Set([...a, ...b])).sort() : b;
}

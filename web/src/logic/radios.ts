/** Arrow keys within a group of radios or a menu: they move the focus, and choose where it is a radio. */
export function arrows(group: HTMLElement): { destroy: () => void } {
  const press = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const all = [...group.querySelectorAll<HTMLButtonElement>("[role=radio]:not(:disabled), [role=menuitem]")];
    const at = all.indexOf(event.composedPath()[0] as HTMLButtonElement);
    if (!by || at < 0) return;
    const next = all[(at + by + all.length) % all.length];
    next.focus();
    if (next.getAttribute("role") === "radio") next.click();
    event.preventDefault();
    event.stopPropagation();
  };
  group.addEventListener("keydown", press);
  return { destroy: () => group.removeEventListener("keydown", press) };
}

/** One radio of a group is reached by Tab: the chosen one, or the first where none is chosen. */
export const reached = (chosen: boolean, none: boolean, index: number): 0 | -1 => (chosen || (none && index === 0) ? 0 : -1);

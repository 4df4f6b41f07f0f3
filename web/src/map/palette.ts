// Okabe–Ito for two classes, longer sequences for more, each colour at least 3:1 on its surface. Classes also
// differ by shape, so that colour is never alone; after ten colours the shapes move on by one.

const TWO = { light: ["#0072b2", "#d55e00"], dark: ["#56b4e9", "#e69f00"] };
const MANY = {
  light: ["#0072b2", "#d55e00", "#fa4387", "#c959ee", "#4c3bb2", "#920529", "#08565b", "#996f3b", "#a686ba", "#059e8d"],
  dark: ["#56b4e9", "#e69f00", "#fa578c", "#a56efa", "#83e751", "#f1cb90", "#48edc1", "#86851e", "#319049", "#aa71ae"],
};

export type Theme = "light" | "dark";
/** What lies under the points: --bg of the page. */
export const SURFACE = { light: "#ffffff", dark: "#17181b" };
export const SHAPES = ["disc", "diamond", "square", "up", "down"] as const;
export type Shape = (typeof SHAPES)[number];

export function colours(classes: number, theme: Theme): string[] {
  const base = (classes <= 2 ? TWO : MANY)[theme];
  return Array.from({ length: classes }, (_, i) => base[i % base.length]);
}

export const shapeOf = (index: number): Shape => SHAPES[(index + Math.floor(index / 10)) % SHAPES.length];

/** "#rrggbb" as three numbers in [0, 1]. */
export function rgb(hex: string): [number, number, number] {
  const value = parseInt(hex.slice(1), 16);
  return [(value >> 16) / 255, ((value >> 8) & 255) / 255, (value & 255) / 255];
}

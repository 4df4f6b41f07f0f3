// Okabe–Ito for two classes, longer sequences for more, each colour at least 3:1 on its surface. Classes also
// differ by shape, so that colour is never alone; after ten colours the shapes move on by one.

const TWO = { light: ["#0072b2", "#d55e00"], dark: ["#56b4e9", "#e69f00"] };
const MANY = {
  light: ["#0072b2", "#d55e00", "#008060", "#b0488f", "#7a6a00", "#6a51c4", "#a3352b", "#2f7f93", "#8a5a2e", "#5c6670"],
  dark: ["#56b4e9", "#e69f00", "#35c99a", "#e68fc4", "#e8dc5a", "#a99bff", "#ff8674", "#7fd3e0", "#d0a57a", "#b5bcc6"],
};

export type Theme = "light" | "dark";
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

import { expect, test } from "vitest";
import { colours, rgb, shapeOf } from "../src/map/palette";

const linear = (v: number) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const luminance = (hex: string) => rgb(hex).map(linear).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a: string, b: string) => {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
};

// Machado, Oliveira and Fernandes 2009: full protan, deutan and tritan vision, on linear colours
const VISION = {
  normal: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protan: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deutan: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritan: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};
function lab(hex: string, m: number[]): number[] {
  const c = rgb(hex).map(linear);
  const [r, g, b] = [0, 1, 2].map((i) => Math.min(1, Math.max(0, m[3 * i] * c[0] + m[3 * i + 1] * c[1] + m[3 * i + 2] * c[2])));
  const f = (t: number) => (t > 216 / 24389 ? Math.cbrt(t) : (t * 24389) / 27 / 116 + 16 / 116);
  const [x, y, z] = [
    f((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047), f(0.2126729 * r + 0.7151522 * g + 0.072175 * b),
    f((0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883),
  ];
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

for (const [theme, surface] of [["light", "#ffffff"], ["dark", "#17181b"]] as const) {
  for (const classes of [2, 10]) {
    test(`${classes} colours have 3:1 on the ${theme} surface`, () => {
      for (const colour of colours(classes, theme)) expect(contrast(colour, surface)).toBeGreaterThanOrEqual(3);
    });
    test(`${classes} colours on ${theme} differ in normal, protan, deutan and tritan vision, more so where the shape is one`, () => {
      const all = colours(classes, theme);
      for (const matrix of Object.values(VISION))
        for (let i = 0; i < classes; i++)
          for (let j = 0; j < i; j++) {
            const [a, b] = [lab(all[i], matrix), lab(all[j], matrix)];
            const apart = Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
            expect(apart, `${all[i]} ${all[j]}`).toBeGreaterThan(shapeOf(i) === shapeOf(j) ? 20 : 14);
          }
    });
  }
}

test("fifty classes have fifty different pairs of colour and shape", () => {
  const pairs = colours(50, "light").map((colour, index) => colour + shapeOf(index));
  expect(new Set(pairs).size).toBe(50);
});

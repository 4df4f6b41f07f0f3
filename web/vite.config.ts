import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// Two builds into the Python package: the page (index.html and its assets) and, with --mode widget,
// the notebook's widget: one ES module that carries its own styles, because a notebook loads one file.
export default defineConfig(({ mode }) => {
  const widget = mode === "widget";
  return {
    base: "./",
    publicDir: widget ? false : "public",
    plugins: [svelte({ compilerOptions: { css: widget ? "injected" : "external" } })],
    build: {
      outDir: "../src/epoxy/studio/static",
      emptyOutDir: !widget,
      target: "es2022",
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      ...(widget && {
        lib: { entry: "src/widget.ts", formats: ["es"], fileName: () => "widget.js" },
        rollupOptions: { output: { inlineDynamicImports: true } },
      }),
    },
    test: { include: ["tests/*.test.ts"] },
  };
});

import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [preact()],
  build: {
    outDir: "../src/trilens/serve/web/dist",
    emptyOutDir: true,
    target: "es2022",
    // One file each for what all pages share and for a page: a page that is never opened is never loaded.
    chunkSizeWarningLimit: 250,
    rolldownOptions: { checks: { pluginTimings: false } }, // how long plugins took says nothing of the app
  },
});

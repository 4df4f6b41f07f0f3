import { mount } from "svelte";
import { Lasso } from "./map/lasso";
import LassoWorker from "./map/lasso.worker?worker";
import App from "./parts/App.svelte";
import "./epoxy.css";
import "./style.css";
import { Studio } from "./state/studio.svelte";
import { SocketTransport } from "./transport/socket";

declare global {
  interface Window { __csp: number; __epoxy: unknown }
}
window.__csp = 0;
document.addEventListener("securitypolicyviolation", () => window.__csp++);

Lasso.worker = () => new LassoWorker();
const socket = new SocketTransport(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/live`);
const studio = new Studio(socket, window, true);
mount(App, { target: document.getElementById("studio")!, props: { studio } });

// what browser tests read: where a row is, when the last request was painted, how many frames there were
window.__epoxy = {
  get frames() { return studio.scene?.frames ?? 0; },
  get timing() { return studio.timing && { ...studio.timing }; },
  get painted() { return studio.painted; },
  repaint: () => studio.scene?.painted(),
  get zoom() { return studio.scene?.camera.zoom ?? 0; },
  mark: (row: number) => Array.from(studio.scene?.marks.subarray(2 * row, 2 * row + 2) ?? []),
  place(row: number) {
    const box = document.querySelector("canvas")!.getBoundingClientRect();
    const at = studio.scene?.screen(row);
    return at ? [box.left + at[0], box.top + at[1]] : null;
  },
};

import { mount, unmount } from "svelte";
import styles from "./epoxy.css?inline";
import App from "./parts/App.svelte";
import { Studio } from "./state/studio.svelte";
import { NotebookTransport, type Model } from "./transport/notebook";

/** The studio as a notebook's widget: same parts, in a shadow root so that neither page styles the other. */
function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  el.dataset.lmSuppressShortcuts = "true"; // X clears our selection, and does not cut the notebook's cell
  const root = el.attachShadow({ mode: "open" });
  const sheet = document.createElement("style");
  sheet.textContent = `${styles}\n:host { display: block; } .frame { height: 720px; border: 1px solid #8b8e92; }`;
  const frame = document.createElement("div");
  frame.className = "frame";
  root.append(sheet, frame);
  const transport = new NotebookTransport(model);
  const app = mount(App, { target: frame, props: { studio: new Studio(transport, frame, false) } });
  return () => {
    void unmount(app);
    transport.close();
  };
}

export default { render };

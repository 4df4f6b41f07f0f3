// CodeMirror, loaded only when the code is opened. It stands in a shadow root, because the style sheets it makes
// there are adopted by script, which the page's policy allows, and not written into the document, which it forbids.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { pythonLanguage } from "@codemirror/lang-python";
import { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, nextDiagnostic, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colours = (key: string, text: string, comment: string, number: string) =>
  syntaxHighlighting(HighlightStyle.define([
    { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.meta], color: key },
    { tag: [tags.string, tags.special(tags.string)], color: text },
    { tag: tags.comment, color: comment },
    { tag: [tags.number, tags.bool, tags.null], color: number },
  ]));
const LIGHT = colours("#6a2c91", "#1f6b3a", "#5f6369", "#8a4b00");
const DARK = colours("#cba6f7", "#8fd19e", "#969aa1", "#f0b26b");

const frame = EditorView.theme({
  "&": { height: "100%", fontSize: "12px", color: "var(--ink)", backgroundColor: "var(--bg)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-gutters": { backgroundColor: "var(--bg)", color: "var(--ink-3)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--sunken)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select) !important" },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--bg)", color: "var(--ink)", border: "1px solid var(--edge)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--alert)" },
});

export interface Shown { message: string; line: number | null }

export class CodeEditor {
  private view: EditorView;
  private theme = new Compartment();

  constructor(host: HTMLElement, text: string, on: { change: () => void; save: () => void }) {
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const parent = document.createElement("div");
    parent.style.height = "100%";
    root.replaceChildren(parent);
    const save = { key: "Mod-s", preventDefault: true, run: () => (on.save(), true) };
    this.view = new EditorView({
      root, parent,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(), lintGutter(), history(), drawSelection(), highlightActiveLine(), EditorView.lineWrapping, bracketMatching(), indentOnInput(),
          indentUnit.of("    "), EditorState.tabSize.of(4), pythonLanguage, frame, this.theme.of(LIGHT),
          keymap.of([save, indentWithTab, ...lintKeymap, ...historyKeymap, ...defaultKeymap]),
          EditorView.contentAttributes.of({ "aria-label": "lfs.py" }),
          EditorView.updateListener.of((update) => { if (update.docChanged) on.change(); }),
        ],
      }),
    });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  set text(text: string) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  show(errors: Shown[]): void {
    const { doc } = this.view.state;
    const found = errors.filter(({ line }) => line !== null && line >= 1 && line <= doc.lines).map(({ message, line }) => {
      const { from, to } = doc.line(line!);
      return { from, to, severity: "error" as const, message };
    });
    this.view.dispatch(setDiagnostics(this.view.state, found.sort((a, b) => a.from - b.from)));
  }

  dress(dark: boolean): void {
    this.view.dispatch({ effects: this.theme.reconfigure(dark ? DARK : LIGHT) });
  }

  reveal(line: number): void {
    const { doc } = this.view.state;
    const at = doc.line(Math.max(1, Math.min(line, doc.lines))).from;
    this.view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
    this.view.focus();
  }

  nextError(): void {
    nextDiagnostic(this.view);
    this.view.focus();
  }

  destroy(): void {
    this.view.destroy();
  }
}

// Completion in the SQL editor: names of the catalog beside the language's own words.
import * as CM from "nicegui-codemirror";

const known = {};
const READS = /\b(from|join|into|update|table|query)\s+$/i;
const READ = ["class", "interface", "namespace"];
const COLUMN = ["property"];
const CTRL_SPACE = { key: " ", code: "Space", keyCode: 32, ctrlKey: true };

export function offer(id, options) {
  const first = !(id in known);
  known[id] = options;
  if (!first) return;
  getElement(id).editorPromise.then((view) => {
    const source = (context) => {
      const word = context.matchBefore(/[\w.]*/);
      if (!word || (word.from === word.to && !context.explicit)) return null;
      const dot = word.text.lastIndexOf(".");
      const system = word.text.toLowerCase().startsWith("penstock.");
      const from = dot >= 0 && !system ? word.from + dot + 1 : word.from;
      const shown = dot >= 0 && !system ? known[id].filter((o) => o.type === "property") : known[id];
      // What can be read comes first where something is to be read, columns elsewhere.
      const before = context.state.sliceDoc(Math.max(0, word.from - 40), word.from);
      const wanted = READS.test(before) ? READ : COLUMN;
      const options = shown.map((o) => (wanted.includes(o.type) ? { ...o, boost: 1 } : o));
      return { from, options, validFor: /^[\w.]*$/ };
    };
    const data = CM.EditorState.languageData.of(() => [{ autocomplete: source }]);
    view.dispatch({ effects: CM.StateEffect.appendConfig.of(data) });
    view.contentDOM.setAttribute("aria-label", "SQL");
    // Somebody typed before the names were there: they come for the word that stands there, as by Ctrl+Space.
    const typed = CM.undoDepth(view.state) > 0 && /\w$/.test(view.state.sliceDoc(0, view.state.selection.main.head));
    if (typed && view.hasFocus) CM.runScopeHandlers(view, new KeyboardEvent("keydown", CTRL_SPACE), "editor");
  });
}
window.penstockOffer = offer;

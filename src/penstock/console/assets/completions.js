// Completion in the SQL editor: names of the catalog beside the language's own words.
import * as CM from "nicegui-codemirror";

const known = {};
const READS = /\b(from|join|into|update|table|query)\s+$/i;
const BEGINS = /(^|;)\s*$/;
const READ = ["class", "interface", "namespace"];
const COLUMN = ["property"];
const WORDS = ["keyword"];
const CTRL_SPACE = { key: " ", code: "Space", keyCode: 32, ctrlKey: true };
const ESCAPE = { key: "Escape", code: "Escape", keyCode: 27 };

const press = (view, key) => CM.runScopeHandlers(view, new KeyboardEvent("keydown", key), "editor");

// What was typed is how a name begins, or a part of it: "gas" means much_gas, too.
const begins = (label, typed) => label.startsWith(typed) || ["_", ".", " "].some((mark) => label.includes(mark + typed));

// Where nothing was typed yet, only what can stand there.
function fitting(before) {
  if (READS.test(before)) return READ;
  return BEGINS.test(before) ? WORDS : [...COLUMN, ...WORDS];
}

// A list that comes up after the editor was left would stay open over whatever is used next.
const closing = CM.EditorView.updateListener.of(({ view }) => {
  if (view.hasFocus) return;
  setTimeout(() => {
    if (!view.hasFocus && view.dom.querySelector(".cm-tooltip-autocomplete")) press(view, ESCAPE);
  });
});

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
      const before = context.state.sliceDoc(0, word.from);
      const typed = context.state.sliceDoc(from, word.to).toLowerCase();
      const fits = fitting(before);
      const found = shown.filter((o) => (word.text ? begins(o.label.toLowerCase(), typed) : fits.includes(o.type)));
      // What can be read comes first where something is to be read, columns elsewhere.
      const wanted = READS.test(before) ? READ : COLUMN;
      return { from, options: found.map((o) => (wanted.includes(o.type) ? { ...o, boost: 1 } : o)) };
    };
    const data = CM.EditorState.languageData.of(() => [{ autocomplete: source }]);
    view.dispatch({ effects: CM.StateEffect.appendConfig.of([data, closing]) });
    view.contentDOM.setAttribute("aria-label", "SQL");
    // Somebody typed before the names were there: they come for the word that stands there, as by Ctrl+Space.
    const typed = CM.undoDepth(view.state) > 0 && /\w$/.test(view.state.sliceDoc(0, view.state.selection.main.head));
    if (typed && view.hasFocus) press(view, CTRL_SPACE);
  });
}
window.penstockOffer = offer;

// Completion in the SQL editor: names of the catalog beside the language's own words.
import * as CM from "nicegui-codemirror";

const known = {};

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
      return { from, options: shown, validFor: /^[\w.]*$/ };
    };
    const data = CM.EditorState.languageData.of(() => [{ autocomplete: source }]);
    view.dispatch({ effects: CM.StateEffect.appendConfig.of(data) });
    view.contentDOM.setAttribute("aria-label", "SQL");
  });
}
window.penstockOffer = offer;

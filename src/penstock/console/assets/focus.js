// The cells of a table are made anew with every update, and the focus would be gone with them, every second for
// whoever walks through it with the keyboard: it goes on to the same link or head in the new cells.
let kept = null;

const same = ({ table, href, place }) => {
  const cells = document.getElementById(table);
  return href === null ? cells?.querySelectorAll("th")[place] : cells?.querySelector(`a[href="${CSS.escape(href)}"]`);
};

document.addEventListener("focusin", ({ target }) => {
  const table = target.closest(".list");
  const head = target.closest("th");
  kept = table && { target, table: table.id, href: target.getAttribute("href"), place: head?.cellIndex ?? -1 };
});
document.addEventListener("pointerdown", () => (kept = null));

new MutationObserver(() => {
  if (kept && !kept.target.isConnected && document.activeElement === document.body)
    same(kept)?.focus({ preventScroll: true });
}).observe(document.body, { childList: true, subtree: true });

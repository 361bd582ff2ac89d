// Repairs to what the theme and myst-nb leave behind, each found by axe-core.
document.addEventListener("DOMContentLoaded", () => {
  const each = (selector, repair) => document.querySelectorAll(selector).forEach(repair);

  // A name must hold the visible words, or voice control cannot find the thing.
  each(".search-button-field[aria-label], details.hide > summary[aria-label]", (e) =>
    e.removeAttribute("aria-label"));

  // The logo stands outside every landmark.
  each(".sidebar-primary-item:has(.navbar-brand)", (e) => {
    e.setAttribute("role", "navigation");
    e.setAttribute("aria-label", "Book home");
  });

  // The arrow beside a chapter in the menu has no name of its own.
  each(".bd-links li > details > summary", (e) => {
    const chapter = e.closest("li").querySelector("a").textContent.trim();
    e.setAttribute("aria-label", `Below ${chapter}`);
  });

  // A bibliography is a list, and the role that docutils gives its entries is no longer one.
  each(".citation-list > .citation", (e) => e.setAttribute("role", "listitem"));

  // A box that scrolls sideways must be reachable without a mouse. Mathematics and fonts settle
  // late, so look again whenever a box changes its size.
  const boxes = new ResizeObserver((changes) => {
    for (const { target: box } of changes) {
      if (box.scrollWidth <= box.clientWidth) continue;
      box.tabIndex = 0;
      box.dataset.scrolls = "";
    }
  });
  each(".bd-article :is(pre, div.math, .text_html), .pst-scrollable-table-container", (box) =>
    boxes.observe(box));

  // The theme measures them too, sometimes too early, and takes the tab stop away again.
  new MutationObserver((changes) => {
    for (const { target: box } of changes)
      if ("scrolls" in box.dataset && box.tabIndex < 0) box.tabIndex = 0;
  }).observe(document.body, { subtree: true, attributeFilter: ["tabindex"] });
});

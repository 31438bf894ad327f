// Names for screen readers and places for keys, which the theme's own elements lack.
const complete = () => {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav").forEach((nav, i) => nav.setAttribute("aria-label", `Code ${i + 1}`));
  const version = document.querySelector(".md-version__current");
  version?.setAttribute("aria-label", `${version.textContent.trim()}: select a version`);
  // A table that scrolls can be reached and scrolled with keys.
  document.querySelectorAll(".md-typeset table:not([class])").forEach((table) => {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
    else table.removeAttribute("tabindex");
  });
};
new MutationObserver(complete).observe(document.documentElement, { childList: true, subtree: true });
complete();
addEventListener("resize", complete);
addEventListener("load", complete);

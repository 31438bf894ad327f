// Names for screen readers, which the theme's own elements lack.
const name = () => {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav").forEach((nav, i) => nav.setAttribute("aria-label", `Code ${i + 1}`));
  const version = document.querySelector(".md-version__current");
  version?.setAttribute("aria-label", `${version.textContent.trim()}: select a version`);
};
new MutationObserver(name).observe(document.documentElement, { childList: true, subtree: true });
name();

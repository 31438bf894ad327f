// The page of a run under way shows the frames that the server sends. The list reads itself again while
// summaries are being made.
"use strict";
const screen_ = document.getElementById("live");
if (screen_) {
  const state = document.getElementById("state");
  const probe = document.createElement("span");
  probe.textContent = "0".repeat(50);
  screen_.append(probe);
  const columns = Math.floor(((screen_.clientWidth - 24) / probe.getBoundingClientRect().width) * 50);
  screen_.textContent = "";
  const source = new EventSource(screen_.dataset.events + "?columns=" + columns);
  source.addEventListener("frame", (e) => { state.textContent = "Under way."; screen_.textContent = e.data; });
  source.addEventListener("end", () => { source.close(); state.textContent = "The run has ended, or was interrupted."; });
  source.addEventListener("problem", (e) => { source.close(); state.textContent = e.data; });
  source.onerror = () => { if (source.readyState !== EventSource.CLOSED) state.textContent = "No connection: trying again."; };
}
const list = document.getElementById("list");
if (list && list.dataset.pending) {
  const again = async () => {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("list");
    if (list.contains(document.activeElement) && document.activeElement !== document.body) { setTimeout(again, 2000); return; }
    list.replaceChildren(...next.childNodes);
    if (next.dataset.pending) setTimeout(again, 2000);
  };
  setTimeout(again, 1000);
}

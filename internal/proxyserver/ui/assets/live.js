// Makes a page live: the server sends the parts that changed, and the browser keeps times
// up to date. The page is complete without this script.
"use strict";

(() => {
  const main = document.querySelector("main[data-live]");
  if (!main) return;
  const sign = document.getElementById("live");

  // The same as span in view.go.
  function span(s) {
    s = Math.max(0, Math.floor(s));
    if (s < 60) return `${s} s`;
    if (s < 600 && s % 60) return `${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
  }

  // The server's clock, since the browser's may be wrong.
  let ahead = 0;

  function text(kind, at) {
    const s = (at - Date.now() - ahead) / 1000;
    switch (kind) {
      case "ago": return span(-s) + " ago";
      case "for": return span(-s);
      case "in": return s >= 1 ? "in " + span(s) : "now";
      case "until": return span(s);
      default: return at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    }
  }

  function count() {
    for (const time of document.querySelectorAll("time[data-is]")) {
      const at = new Date(time.dateTime);
      const says = text(time.dataset.is, at);
      if (time.textContent !== says) time.textContent = says;
      if (!time.dataset.told) {
        time.title = at.toLocaleString();
        time.dataset.told = "yes";
      }
    }
  }

  // If a link had the focus, the same link in the new text gets it.
  function put(part) {
    const section = document.getElementById(part.id);
    if (!section) return;
    const focus = document.activeElement;
    const href = section.contains(focus) ? focus.getAttribute("href") : null;
    section.innerHTML = part.html;
    if (href) {
      for (const a of section.querySelectorAll("a[href]")) {
        if (a.getAttribute("href") === href) {
          a.focus({ preventScroll: true });
          break;
        }
      }
    }
    count();
  }

  function say(words, on) {
    if (sign.textContent !== words) sign.textContent = words;
    sign.className = on ? "on" : "off";
  }

  let source;
  let again;

  function open() {
    clearTimeout(again);
    source = new EventSource(main.dataset.live);
    source.addEventListener("now", (e) => {
      ahead = new Date(e.data) - Date.now();
      say("Live", true);
      count();
    });
    source.addEventListener("part", (e) => put(JSON.parse(e.data)));
    source.addEventListener("reload", () => location.reload());
    source.onerror = () => {
      say("Not live: what is shown may be old", false);
      // The browser tries again by itself, unless the server refused.
      if (source.readyState === EventSource.CLOSED) again = setTimeout(open, 15000);
    };
  }

  // A hidden page asks for nothing.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(again);
    if (source) source.close();
    if (!document.hidden) open();
  });

  count();
  setInterval(count, 1000);
  if (!document.hidden) open();
})();

// The changes of a query as they are published.

import { make, setText, writeClock, writeNumber } from "./dom.js";
import { follow } from "./server.js";

const MOST_STEPS = 100, MOST_ROWS = 8;

export function showFeed(panel, name, find) {
  const ending = new AbortController();
  let isPaused = false, missed = 0;
  const line = make("p", { class: "note", "aria-live": "polite" }, "Connecting …");
  const list = make("ol", { class: "feed", "aria-label": "Changes, newest first" });
  const pause = make("button", { type: "button", "aria-pressed": "false", onclick: () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    setText(pause, isPaused ? "Continue" : "Pause");
    if (!isPaused) missed = 0;
    describe();
  } }, "Pause");
  panel.replaceChildren(make("div", { class: "row" }, line, make("span", { class: "space" }), pause), list);
  let way = "wait", reason = "";
  const describe = () => setText(line, {
    wait: "Connecting …",
    live: isPaused ? `Paused; ${writeNumber(missed)} steps passed meanwhile.` : list.children.length ? "Following; the newest step is on top." : "Following; waiting for the next change …",
    lost: "The connection was lost; it resumes when the server is back …",
    refused: reason, ended: "The query was dropped.",
  }[way]);

  (async () => {
    const onState = (state, error) => {
      way = state;
      reason = error?.message ?? "";
      describe();
    };
    for await (const message of follow(name, ending.signal, onState)) {
      if (message.event === "end") way = "ended";
      if (message.event === "snapshot") list.replaceChildren();
      if (message.event === "changes") {
        if (isPaused) missed += 1;
        else list.prepend(drawStep(message, find()?.columns ?? []));
        while (list.children.length > MOST_STEPS) list.lastChild.remove();
      }
      describe();
    }
  })();
  return () => ending.abort();
}

function drawStep(message, columns) {
  const gained = message.rows.filter((row) => row.change > 0).length;
  const lost = message.rows.length - gained;
  const shown = message.rows.slice(0, MOST_ROWS);
  const left = message.rows.length - shown.length;
  return make("li", {},
    make("p", { class: "step" },
      make("span", {}, `epoch ${writeNumber(Number(message.id))}`),
      gained ? make("span", { class: "plus" }, `+${writeNumber(gained)}`) : null,
      lost ? make("span", { class: "minus" }, `−${writeNumber(lost)}`) : null,
      make("time", {}, writeClock(new Date()))),
    make("ul", {}, ...shown.map((row) => make("li", { class: row.change > 0 ? "plus" : "minus" },
      make("span", { class: "sign" }, `${row.change > 0 ? "+" : "−"}${Math.abs(row.change) > 1 ? writeNumber(Math.abs(row.change)) : ""}`),
      make("span", { class: "terms" }, columns.map((column) => row[column] ?? "unbound").join("  ") || "yes"))),
    left > 0 ? make("li", { class: "more" }, `and ${writeNumber(left)} more`) : null));
}

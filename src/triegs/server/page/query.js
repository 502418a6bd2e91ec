// A query: its figures, and tabs for answers, picture, changes, plan, explain and text.

import { showAnswers } from "./answers.js";
import { make, setText, writeAge, writeNumber } from "./dom.js";
import { showFeed } from "./feed.js";
import { showGraph } from "./graph.js";
import { flash } from "./overview.js";
import { onStatus, refresh, request, Refused, state } from "./server.js";

const TABS = [
  ["answers", "Answers", showAnswers],
  ["graph", "Graph", showGraph],
  ["changes", "Changes", showFeed],
  ["plan", "Plan", showPlan],
  ["explain", "Explain", showExplain],
  ["text", "Text", showText],
];
const PLAN_EVERY_MS = 2000;

export function showQuery(root, name, tab) {
  const count = make("strong", { class: "count" }, "–");
  const total = make("span", {});
  const changed = make("span", {});
  const chip = make("span", { class: "chip" });
  const promise = make("p", { class: "promise" });
  const warning = make("p", { class: "warning", hidden: true });
  const drop = make("button", { class: "danger quiet", type: "button", onclick: () => askToDrop(name) }, "Drop");
  const tablist = make("div", { class: "tabs", role: "tablist", "aria-label": "Parts of the query" });
  const panel = make("div", { id: "panel", class: "panel", role: "tabpanel", tabindex: "0" });
  root.append(
    make("div", { class: "row" }, make("h1", {}, name), chip, make("span", { class: "space" }), drop),
    make("p", { class: "facts" }, count, " answers ", total, changed), promise, warning, tablist, panel);
  let leave = () => {};
  let wanted = TABS.some(([id]) => id === tab) ? tab : "answers";
  const open = (id) => {
    wanted = id;
    if (!find()) return; // the first status opens it
    leave();
    history.replaceState(null, "", `#/query/${encodeURIComponent(name)}/${id}`);
    for (const tab of tablist.children) {
      const isOpen = tab.dataset.tab === id;
      tab.setAttribute("aria-selected", String(isOpen));
      tab.tabIndex = isOpen ? 0 : -1;
      if (isOpen) tab.scrollIntoView({ block: "nearest", inline: "nearest" }); // on a phone some are outside
    }
    panel.setAttribute("aria-labelledby", `tab-${id}`);
    panel.replaceChildren();
    leave = TABS.find(([each]) => each === id)[2](panel, name, find) ?? (() => {});
  };
  for (const [id, label] of TABS) {
    tablist.append(make("button", {
      id: `tab-${id}`, type: "button", role: "tab", "data-tab": id, "aria-controls": "panel", onclick: () => open(id),
    }, label));
  }
  tablist.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const tabs = [...tablist.children];
    const at = tabs.indexOf(document.activeElement);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    next.focus();
    next.click();
  };
  const find = () => state.status?.queries.find((query) => query.name === name);
  let isOpened = false, isMissing = false;
  const draw = () => {
    if (!state.status) return;
    const query = find();
    if (query && isMissing) {
      dispatchEvent(new Event("hashchange")); // it is there (again): show it from the start
      return;
    }
    if (!query) {
      isMissing = true;
      leave();
      leave = () => {};
      root.replaceChildren(make("h1", {}, name), make("p", { class: "empty" },
        "There is no query of this name; it may have been dropped. ", make("a", { href: "#/" }, "All queries")));
      return;
    }
    const text = writeNumber(query.support);
    if (count.textContent !== text && count.textContent !== "–") flash(count);
    setText(count, text);
    setText(total, query.count !== null && query.count !== query.support ? `· ${writeNumber(query.count)} with multiplicities ` : "");
    setText(changed, query.changed_s === null ? "" : query.changed_s < 1.5 ? "· changed now" : `· changed ${writeAge(query.changed_s)} ago`);
    setText(chip, query.error ? "stalled" : query.class);
    chip.dataset.class = chip.textContent;
    setText(promise, query.promise);
    const warnings = [query.error, ...query.warnings].filter(Boolean).join(" ");
    setText(warning, warnings);
    warning.hidden = !warnings;
    drop.hidden = state.status.role !== "admin";
    if (!isOpened) {
      isOpened = true;
      open(wanted);
    }
  };
  draw();
  const end = onStatus(draw);
  return () => {
    end();
    leave();
  };
}

function askToDrop(name) {
  const dialog = document.getElementById("drop-dialog");
  setText(document.getElementById("drop-title"), `Drop the query ${name}?`);
  document.getElementById("drop-sure").value = "drop";
  dialog.onclose = async () => {
    if (dialog.returnValue !== "drop") return;
    dialog.returnValue = "";
    try {
      await request(`/queries/${encodeURIComponent(name)}`, { method: "DELETE" });
      location.hash = "#/";
    } finally {
      refresh();
    }
  };
  dialog.showModal();
}

/** Fetch again and again while the tab is open; `draw` gets the text when it differs. */
function showLive(panel, path, accept, draw) {
  let isOpen = true, before = null;
  const note = make("p", { class: "empty" }, "Loading …");
  panel.replaceChildren(note);
  const look = async () => {
    try {
      const text = await (await request(path, { accept })).text();
      if (isOpen && text !== before) draw((before = text));
    } catch (error) {
      if (isOpen && before === null) setText(note, error instanceof Refused ? error.message : "The server does not respond.");
    }
    if (isOpen) setTimeout(look, PLAN_EVERY_MS);
  };
  look();
  return () => (isOpen = false);
}

function showPlan(panel, name) {
  const frame = make("div", { class: "plan", tabindex: "0", role: "region", "aria-label": "Plan with live sizes" });
  return showLive(panel, `/queries/${encodeURIComponent(name)}/explain`, "image/svg+xml", (text) => {
    // Without its own rules: the page's style sheet has them, in both colours, and others are not allowed.
    const plain = text.replace(/<style>.*?<\/style>/s, "");
    const picture = new DOMParser().parseFromString(plain, "image/svg+xml").documentElement;
    cutHead(picture);
    frame.replaceChildren(document.importNode(picture, true));
    if (!frame.isConnected) {
      panel.replaceChildren(make("p", { class: "note" }, "Sizes on the nodes are those of the newest epoch."), frame);
    }
  });
}

/** Leave out the title of the picture, which the page has, and let it take the width there is. */
function cutHead(picture) {
  const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
  const tree = picture.querySelector("g");
  const top = Number(/([\d.]+)\)/.exec(tree.getAttribute("transform"))[1]) - 24;
  for (let head = tree.previousElementSibling; head; head = tree.previousElementSibling) head.remove();
  picture.setAttribute("viewBox", `0 ${top} ${width} ${height - top}`);
  picture.removeAttribute("height");
  picture.removeAttribute("width");
  picture.style.maxWidth = `${Math.round(width * 1.25)}px`;
}

function showExplain(panel, name) {
  const text = make("pre", { class: "text", tabindex: "0" });
  return showLive(panel, `/queries/${encodeURIComponent(name)}/explain`, "text/plain", (found) => {
    setText(text, found);
    if (!text.isConnected) panel.replaceChildren(text);
  });
}

function showText(panel, name, find) {
  const query = find();
  const facts = [
    ["Columns", query.columns.map((column) => `?${column}`).join(" ") || "none (ASK)"],
    ["Windows", query.windows.join(", ") || "none"],
    ["Also kept", query.keep.join(", ") || "nothing"],
  ];
  panel.replaceChildren(
    make("pre", { class: "text", tabindex: "0" }, query.text),
    make("dl", {}, ...facts.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)])),
    make("p", {}, make("a", { class: "button", href: `#/try/${encodeURIComponent(name)}` }, "Open in the editor")));
}

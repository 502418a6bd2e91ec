// Start, the address bar, the bar at the top, dialogs and keys.

import { make, setText, writeClock, writeNumber } from "./dom.js";
import { showOverview } from "./overview.js";
import { showQuery } from "./query.js";
import { onStatus, readToken, state, useToken, watch } from "./server.js";
import { showTry } from "./try.js";

const content = document.getElementById("content");
const notice = document.getElementById("notice");
const tokenDialog = document.getElementById("token-dialog");
let leave = () => {};
let wasLost = false;
let seenRestarts = 0;

function readPlace() {
  const [, page = "", name = "", tab = ""] = location.hash.split("/");
  try {
    return { page, name: decodeURIComponent(name), tab };
  } catch {
    return { page: "", name: "", tab: "" };
  }
}

function show() {
  leave();
  const { page, name, tab } = readPlace();
  const root = make("div", { class: "view" });
  content.replaceChildren(root);
  const shown = page === "query" && name ? "query" : page === "try" ? "try" : "overview";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = shown === "query" ? `${name} – triegs` : shown === "try" ? "Try a query – triegs" : "triegs";
  if (shown === "query") leave = showQuery(root, name, tab);
  else if (shown === "try") leave = showTry(root, name);
  else leave = showOverview(root);
  scrollTo(0, 0);
}

function showState({ status, isLost, needsToken, restarts, lostAt }) {
  const pulse = document.getElementById("pulse");
  pulse.dataset.state = isLost ? "lost" : needsToken ? "wait" : status ? (status.ready ? "live" : "wait") : "wait";
  setText(document.getElementById("pulse-text"),
    isLost ? "connection lost" : needsToken ? "no access" : status ? `epoch ${writeNumber(status.epoch)}` : "connecting");
  document.getElementById("key").hidden = !(needsToken || readToken());
  document.body.classList.toggle("stale", isLost);
  if (isLost) {
    notice.hidden = false;
    notice.dataset.kind = "lost";
    setText(notice, `The server has not answered since ${writeClock(lostAt)}. What you see is from before; trying again …`);
  } else if (wasLost) {
    notice.dataset.kind = "back";
    const anew = restarts !== seenRestarts ? " It was started again." : "";
    setText(notice, `The server is back.${anew}`);
    setTimeout(() => {
      if (!state.isLost) notice.hidden = true;
    }, 5000);
  }
  wasLost = isLost;
  seenRestarts = restarts;
  if (status) {
    const role = status.role === "admin" ? "" : ` · role ${status.role}`;
    setText(document.getElementById("foot"), `${writeNumber(status.subscribers)} subscribers · ${writeNumber(status.held_epochs)} held epochs${role}`);
  }
  if (needsToken && !tokenDialog.open && !tokenDialog.dataset.put) askForToken();
}

function askForToken() {
  const input = document.getElementById("token");
  input.value = "";
  setText(document.getElementById("token-text"), readToken()
    ? "The server no longer accepts this token. The token stays in this browser tab."
    : "Ask its operator. The token stays in this browser tab.");
  tokenDialog.showModal();
  input.focus();
}

function setTheme(theme) {
  const root = document.documentElement;
  if (theme === "auto") root.removeAttribute("data-theme");
  else root.dataset.theme = theme;
  const button = document.getElementById("theme");
  setText(button, { auto: "◐", light: "☀", dark: "☾" }[theme]);
  button.setAttribute("aria-label", `Colours: ${theme === "auto" ? "as the system" : theme}`);
  localStorage.setItem("triegs-theme", theme);
}

function begin() {
  setTheme(localStorage.getItem("triegs-theme") ?? "auto");
  document.getElementById("theme").onclick = () => {
    const order = { auto: "light", light: "dark", dark: "auto" };
    setTheme(order[localStorage.getItem("triegs-theme") ?? "auto"]);
  };
  document.getElementById("key").onclick = askForToken;
  tokenDialog.onclose = () => {
    // "Not now" is an answer: the button in the bar asks again.
    tokenDialog.dataset.put = tokenDialog.returnValue === "used" ? "" : "yes";
    if (tokenDialog.returnValue === "used") useToken(document.getElementById("token").value.trim());
    tokenDialog.returnValue = "";
  };
  document.getElementById("token-use").value = "used";
  for (const button of document.querySelectorAll("[data-close]")) {
    button.onclick = () => button.closest("dialog").close();
  }
  addEventListener("hashchange", show);
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, dialog, [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "o") location.hash = "#/";
    if (event.key === "t") location.hash = "#/try";
  });
  onStatus(showState);
  show();
  watch();
}

begin();

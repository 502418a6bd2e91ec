// Answers as a table, paged by position.

import { make, makeTable, setText, writeNumber } from "./dom.js";
import { readLines, request, Refused } from "./server.js";

const PAGE = 50;
const FOLLOW_MS = 1500;

/** Rows from a position on, of a held epoch or of the newest: {rows, epoch}. */
export async function readAnswers(name, { offset = 0, limit = PAGE, epoch = null } = {}) {
  const given = new URLSearchParams({ offset, limit, terms: "short" });
  if (epoch !== null) given.set("epoch", epoch);
  const response = await request(`/queries/${encodeURIComponent(name)}/snapshot?${given}`, { accept: "application/x-ndjson" });
  const rows = [];
  for await (const line of readLines(response)) if (line) rows.push(JSON.parse(line));
  return { rows, epoch: Number(response.headers.get("Triegs-Epoch")) };
}

/** A table of answers; terms that are cut have their whole text as a tooltip. */
export function drawAnswers(label, columns, rows, offset = 0) {
  return makeTable(label,
    [{ name: "#", class: "number" }, ...columns.map((name) => ({ name: `?${name}` })), { name: "×", class: "number" }],
    rows.map((row, at) => make("tr", {},
      make("td", { class: "number place" }, writeNumber(offset + at + 1)),
      ...columns.map((name) => drawTerm(row[name])),
      make("td", { class: "number" }, writeNumber(row.multiplicity ?? 1)))));
}

export function drawTerm(value) {
  if (value === null || value === undefined) return make("td", { class: "term unbound" }, "unbound");
  const text = String(value);
  return make("td", { class: "term", title: text.length > 40 ? text : null }, text);
}

export function showAnswers(panel, name, find) {
  let offset = 0, isOpen = true, isFollowing = true, isBusy = false, held = null;
  const body = make("div", { class: "answers" }, make("p", { class: "empty" }, "Loading …"));
  const place = make("span", { class: "place", "aria-live": "polite" });
  const note = make("p", { class: "note" });
  const buttons = {};
  const addButton = (id, label, text, move) => {
    buttons[id] = make("button", { type: "button", "data-go": id, "aria-label": text, title: text, onclick: () => go(move()) }, label);
    return buttons[id];
  };
  const size = () => find()?.support ?? null;
  const lastPage = () => Math.max(Math.floor(((size() ?? 1) - 1) / PAGE) * PAGE, 0);
  const jump = make("input", { type: "number", min: "1", "aria-label": "Go to position", placeholder: "position" });
  const follow = make("input", { type: "checkbox", checked: true });
  follow.onchange = () => {
    isFollowing = follow.checked;
    load();
  };
  const bar = make("form", { class: "row pager", onsubmit: (event) => {
    event.preventDefault();
    if (jump.value) go(Math.max(Number(jump.value) - 1, 0));
  } },
  addButton("first", "«", "First page", () => 0),
  addButton("previous", "‹", "Previous page", () => Math.max(offset - PAGE, 0)),
  place,
  addButton("next", "›", "Next page", () => offset + PAGE),
  addButton("last", "»", "Last page", lastPage),
  jump, make("span", { class: "space" }), make("label", { class: "check" }, follow, " follow the newest epoch"));
  panel.replaceChildren(bar, note, body);
  panel.onkeydown = (event) => {
    if (event.target.closest("input, [role=tab]")) return;
    const id = { ArrowRight: "next", ArrowLeft: "previous", Home: "first", End: "last" }[event.key];
    if (id && !buttons[id].disabled) {
      event.preventDefault();
      buttons[id].click();
    }
  };

  function go(to) {
    offset = to;
    load();
  }

  async function load() {
    if (isBusy) return;
    isBusy = true;
    const wanted = offset;
    try {
      await draw(wanted, isFollowing ? null : held);
    } catch (error) {
      if (error instanceof Refused) setText(note, error.message);
    }
    isBusy = false;
    if (isOpen && offset !== wanted) load();
  }

  async function draw(from, epoch) {
    let found, gone = "";
    try {
      found = await readAnswers(name, { offset: from, epoch });
    } catch (error) {
      if (!(error instanceof Refused && error.status === 410)) throw error;
      found = await readAnswers(name, { offset: from });
      gone = `Epoch ${writeNumber(epoch)} is no longer held; this is epoch ${writeNumber(found.epoch)}.`;
    }
    if (!isOpen) return;
    held = found.epoch;
    const query = find();
    if (!query) return;
    const { rows } = found;
    const known = size();
    if (!rows.length && from > 0) return go(Math.min(lastPage(), Math.max(from - PAGE, 0)));
    const columns = query.columns.length ? query.columns : [];
    body.replaceChildren(query.form === "ASK"
      ? make("p", { class: "verdict" }, rows.length ? "Yes: the pattern has a match." : "No: nothing matches now.")
      : rows.length ? drawAnswers("Answers", columns, rows, from) : make("p", { class: "empty" }, "No answers at this epoch."));
    setText(place, rows.length ? `${writeNumber(from + 1)}–${writeNumber(from + rows.length)}${known === null ? "" : ` of ${writeNumber(Math.max(known, from + rows.length))}`}` : "0 of 0");
    const slow = query.keep.includes("slice") || (known ?? 0) < 10_000 ? "" : " Without keep=slice, a far position is found by a scan.";
    setText(note, gone || `Epoch ${writeNumber(found.epoch)}.${slow}`);
    buttons.first.disabled = buttons.previous.disabled = from === 0;
    buttons.next.disabled = rows.length < PAGE;
    buttons.last.disabled = rows.length < PAGE && known !== null;
  }

  load();
  const timer = setInterval(() => {
    // Not while somebody selects text in the table.
    if (isFollowing && !document.hidden && getSelection().isCollapsed) load();
  }, FOLLOW_MS);
  return () => {
    isOpen = false;
    panel.onkeydown = null;
    clearInterval(timer);
  };
}

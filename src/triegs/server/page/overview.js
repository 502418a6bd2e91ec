// The first page: figures of the server, the queries, and who holds epochs.

import { drawLine, make, makeTable, setText, writeAge, writeBytes, writeMillis, writeNumber, writeRate } from "./dom.js";
import { onStatus, state } from "./server.js";

/** Rates between the points of the history, by the difference of a counter. */
export function findRates(history, name) {
  const rates = [];
  for (let at = 1; at < history.length; at += 1) {
    const seconds = history[at].at_s - history[at - 1].at_s;
    rates.push(seconds > 0.05 ? Math.max(history[at][name] - history[at - 1][name], 0) / seconds : null);
  }
  return rates;
}

/** The mean over the last seconds: a single second is restless. */
export function findRate(history, name, seconds = 5) {
  const last = history[history.length - 1];
  const first = history.find((point) => last.at_s - point.at_s <= seconds);
  if (!last || first === last) return null;
  return Math.max(last[name] - first[name], 0) / (last.at_s - first.at_s);
}

export function showOverview(root) {
  const figures = make("section", { class: "figures", "aria-label": "Figures" });
  const queries = make("section", { "aria-labelledby": "queries-title" });
  const holders = make("section", { "aria-labelledby": "holders-title" });
  root.append(make("h1", { class: "hidden" }, "Overview"), figures, queries, holders);
  const draw = () => {
    if (!state.status) return;
    drawFigures(figures);
    drawQueries(queries);
    drawHolders(holders);
  };
  draw();
  return onStatus(draw);
}

function drawFigures(section) {
  const { status, history } = state;
  const { memory, epoch_ms: times, queue } = status;
  const shown = [
    ["events", "Events per second", writeRate(findRate(history, "events")), `${writeNumber(status.events)} in all`,
      findRates(history, "events")],
    ["epochs", "Epochs per second", writeRate(findRate(history, "epochs")), `the newest is ${writeNumber(status.epoch)}`,
      findRates(history, "epochs")],
    ["time", "Epoch time, p50", writeMillis(times.p50), `p99 ${writeMillis(times.p99)}`,
      history.map((point) => point.epoch_ms ?? null)],
    ["lag", "Lag", writeMillis(status.lag_s * 1000), `${writeNumber(queue.requests)} waiting, ${writeBytes(queue.bytes)}`,
      history.map((point) => point.lag_ms ?? null)],
    ["live", "Live memory", writeBytes(memory.live_bytes), `and ${writeBytes(memory.term_bytes)} of terms`,
      history.map((point) => point.live_bytes)],
    ["retained", "Retained by pins", writeBytes(memory.retained_bytes), `${writeNumber(status.held_epochs)} epochs held`,
      history.map((point) => point.retained_bytes)],
  ];
  section.replaceChildren(...shown.map(([id, name, value, more, line]) =>
    make("div", { class: "figure", "data-figure": id },
      make("h2", {}, name), make("p", { class: "value" }, value), make("p", { class: "more" }, more),
      drawLine(line, `${name} over the last minutes`))));
}

function drawQueries(section) {
  const { queries } = state.status;
  if (!section.firstChild) {
    section.append(
      make("div", { class: "row" }, make("h2", { id: "queries-title" }, "Queries"),
        make("a", { class: "button", href: "#/try" }, "Try or register a query")),
      make("div", {}));
  }
  const body = section.lastChild;
  if (!queries.length) {
    body.replaceChildren(make("p", { class: "empty" }, "No query is registered. ",
      make("a", { href: "#/try" }, "Write the first one."), " Its answers are maintained from then on."));
    body.dataset.names = "";
    return;
  }
  const names = queries.map((query) => query.name).join("\n");
  if (body.dataset.names !== names) {
    body.dataset.names = names;
    body.replaceChildren(makeTable("Queries", [
      { name: "Name" }, { name: "Answers", class: "number" }, { name: "Last change", class: "number" },
      { name: "Class" }, { name: "Promise", class: "wide" }],
    queries.map((query) => make("tr", { "data-query": query.name },
      make("th", { scope: "row" }, make("a", { href: `#/query/${encodeURIComponent(query.name)}` }, query.name)),
      make("td", { class: "number" }), make("td", { class: "number" }), make("td"), make("td", { class: "wide promise" }))), "cards"));
  }
  for (const [at, query] of queries.entries()) {
    const [, answers, change, plan, promise] = body.querySelectorAll("tbody tr")[at].children;
    const isMoving = answers.textContent && answers.textContent !== writeNumber(query.support);
    setText(answers, writeNumber(query.support));
    if (isMoving) flash(answers);
    setText(change, query.changed_s === null ? "–" : query.changed_s < 1.5 ? "now" : `${writeAge(query.changed_s)} ago`);
    const label = query.error ? "stalled" : query.class;
    if (plan.textContent !== label) plan.replaceChildren(make("span", { class: "chip", "data-class": label }, label));
    setText(promise, query.error ?? query.promise);
  }
}

/** Show that a figure has moved. */
export function flash(element) {
  element.classList.remove("flash");
  void element.offsetWidth; // restarts the animation
  element.classList.add("flash");
}

function drawHolders(section) {
  const { holders, holds, epoch } = state.status;
  const rows = [];
  for (const group of Map.groupBy(holders, (each) => `${each.client}\n${each.purpose}`).values()) {
    const names = [...new Set(group.map((each) => each.query))];
    rows.push({
      who: group[0].client, what: group.length > 1 ? `${group[0].purpose} (${group.length})` : group[0].purpose,
      query: names.length > 3 ? `${names.slice(0, 2).join(", ")} and ${names.length - 2} more` : names.join(", "),
      epoch: Math.min(...group.map((each) => each.epoch)), age: writeAge(Math.max(...group.map((each) => each.age_s))),
    });
  }
  if (state.status.retained_epochs) {
    rows.push({ who: "the server", what: "resuming (--retain-epochs)", query: "all", epoch: Math.max(epoch - state.status.retained_epochs, 0), age: "always" });
  }
  for (const [name, held] of Object.entries(holds)) {
    rows.push({ who: name, what: "hold", query: "all", epoch: held, age: "until released" });
  }
  const title = make("h2", { id: "holders-title" }, "Who holds epochs");
  if (!rows.length) {
    section.replaceChildren(title, make("p", { class: "empty" }, "Nobody: only the newest epochs are in memory."));
    return;
  }
  section.replaceChildren(title, makeTable("Who holds epochs", [
    { name: "Who" }, { name: "For" }, { name: "Query" }, { name: "Oldest epoch", class: "number" },
    { name: "Behind", class: "number" }, { name: "Since", class: "number" }],
  rows.slice(0, 50).map((row) => make("tr", {},
    make("th", { scope: "row" }, row.who), make("td", {}, row.what), make("td", {}, row.query),
    make("td", { class: "number" }, writeNumber(row.epoch)), make("td", { class: "number" }, writeNumber(Math.max(epoch - row.epoch, 0))),
    make("td", { class: "number" }, row.age)))));
}

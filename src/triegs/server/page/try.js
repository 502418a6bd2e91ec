// An editor that checks a query while it is written, answers it once, and registers it.

import { drawAnswers } from "./answers.js";
import { make, setText, writeMillis, writeNumber } from "./dom.js";
import { onStatus, readLines, refresh, Refused, request, sendQuery, state } from "./server.js";

const DRAFT = "triegs-draft";
const CHECK_MS = 350, MOST_ROWS = 200;
const EXAMPLE = "SELECT ?x ?y {\n  ?x ?p ?y\n}";

/** Where a line and column, both from 1, are in a text. */
export function findPlace(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  return Math.min(before + column - 1, text.length);
}

export function showTry(root, name) {
  const text = make("textarea", { id: "editor", spellcheck: "false", autocapitalize: "off", rows: "9", "aria-label": "SPARQL query", "aria-describedby": "verdict" });
  const mirror = make("pre", { class: "mirror", "aria-hidden": "true" });
  const verdict = make("div", { id: "verdict", class: "verdict-box", "aria-live": "polite" });
  const run = make("button", { class: "primary", type: "button", onclick: () => answer() }, "Answer once");
  const result = make("div", { class: "result" });
  const nameInput = make("input", { id: "query-name", required: true, pattern: "[A-Za-z_][A-Za-z0-9_.\\-]{0,99}", placeholder: "name", "aria-label": "Name of the query", autocomplete: "off", title: "a letter or _, then letters, digits, _, . and -" });
  const keeps = ["count", "slice"].map((each) => make("input", { type: "checkbox", value: each, checked: true }));
  const width = make("input", { placeholder: "10s", size: "6", "aria-label": "Window, such as 10s" });
  const slide = make("input", { placeholder: "5s", size: "6", "aria-label": "Slide of the window, such as 5s" });
  const outcome = make("p", { class: "note", role: "status" });
  const register = make("form", { class: "row register", onsubmit: (event) => {
    event.preventDefault();
    put();
  } },
  make("label", {}, "Register as ", nameInput),
  ...keeps.map((input) => make("label", { class: "check" }, input, input.value === "count" ? " keep the count" : " page by position")),
  make("label", {}, "window ", width), make("label", {}, "slide ", slide),
  make("button", { type: "submit" }, "Register"));
  const starts = make("select", { "aria-label": "Start from a registered query" });
  root.append(
    make("div", { class: "row" }, make("h1", {}, "Try a query"), make("span", { class: "space" }), starts),
    make("p", { class: "note" }, "The query is checked as you type. “Answer once” registers it, reads the current answers, and drops it; a registered query is maintained."),
    make("div", { class: "editor" }, mirror, text), verdict,
    make("div", { class: "row" }, run, make("span", { class: "note" }, "or Ctrl+Enter")),
    register, outcome, result);

  let timer = null, checks = 0, runs = 0, form = "SELECT";
  text.value = sessionStorage.getItem(DRAFT) ?? EXAMPLE;
  text.oninput = () => {
    sessionStorage.setItem(DRAFT, text.value);
    mark(null);
    clearTimeout(timer);
    timer = setTimeout(check, CHECK_MS);
  };
  text.onscroll = () => mirror.scrollTo(text.scrollLeft, text.scrollTop);
  text.onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      answer();
    }
  };
  starts.onchange = () => {
    const query = state.status?.queries.find((each) => each.name === starts.value);
    if (query) write(query.text);
  };

  function write(found) {
    text.value = found;
    text.oninput();
  }

  /** Underline the place of an error, in a copy of the text that lies behind the editor. */
  function mark(problem) {
    if (!problem?.line) {
      mirror.replaceChildren(`${text.value}\n`);
      text.removeAttribute("aria-invalid");
      return;
    }
    const at = findPlace(text.value, problem.line, problem.column ?? 1);
    const word = /^(\w+|\s*\S)/.exec(text.value.slice(at))?.[0] ?? "";
    const marked = word || " ";
    mirror.replaceChildren(text.value.slice(0, at), make("mark", {}, marked), `${text.value.slice(at + word.length)}\n`);
    mirror.scrollTo(text.scrollLeft, text.scrollTop);
    text.setAttribute("aria-invalid", "true");
  }

  function showProblem(error) {
    const problem = error.problem;
    verdict.dataset.state = "wrong";
    mark(problem);
    const place = problem.line ? `Line ${problem.line}, column ${problem.column}: ` : "";
    const children = [make("p", {}, make("strong", {}, place), error.message)];
    if (problem.line) {
      const line = text.value.split("\n")[problem.line - 1] ?? "";
      children.push(make("pre", {}, `${line}\n${" ".repeat(Math.max((problem.column ?? 1) - 1, 0))}↑`));
      children.push(make("button", { type: "button", class: "quiet", onclick: () => {
        const at = findPlace(text.value, problem.line, problem.column ?? 1);
        text.focus();
        text.setSelectionRange(at, at);
      } }, "Go there"));
    }
    if (problem.hint) children.push(make("p", { class: "note" }, problem.hint));
    verdict.replaceChildren(...children);
  }

  async function check() {
    const number = (checks += 1);
    if (!text.value.trim()) {
      verdict.replaceChildren();
      return;
    }
    try {
      const found = await (await sendQuery("/explain", "POST", text.value)).json();
      if (number !== checks) return;
      form = found.query.form;
      mark(null);
      verdict.dataset.state = "right";
      verdict.replaceChildren(make("p", {}, make("span", { class: "chip", "data-class": found.class }, found.class), ` ${found.promise}`),
        ...(found.warnings ?? []).map((warning) => make("p", { class: "warning" }, warning)));
    } catch (error) {
      if (number !== checks) return;
      if (error instanceof Refused) showProblem(error);
    }
  }

  async function answer() {
    const number = (runs += 1);
    const begin = performance.now();
    run.disabled = true;
    result.replaceChildren(make("p", { class: "empty" }, "Answering …"));
    try {
      const response = await sendQuery("/sparql?terms=short", "POST", text.value, { accept: "application/x-ndjson" });
      const rows = [];
      for await (const line of readLines(response)) {
        if (line && rows.push(JSON.parse(line)) >= MOST_ROWS) break;
      }
      if (number !== runs) return;
      const took = writeMillis(performance.now() - begin);
      const epoch = writeNumber(Number(response.headers.get("Triegs-Epoch")));
      const columns = rows.length ? Object.keys(rows[0]).filter((key) => key !== "multiplicity") : [];
      const more = rows.length >= MOST_ROWS ? "The first " : "";
      result.replaceChildren(make("p", { class: "note" }, `${more}${writeNumber(rows.length)} answers at epoch ${epoch}, in ${took}.`),
        rows.length && columns.length ? drawAnswers("Answers", columns, rows) : make("p", { class: "verdict" }, form === "ASK" ? (rows.length ? "Yes" : "No") : "No answers."));
      verdict.dataset.state = "right";
    } catch (error) {
      result.replaceChildren();
      if (error instanceof Refused) showProblem(error);
      else result.replaceChildren(make("p", { class: "warning" }, "The server does not respond."));
    } finally {
      run.disabled = false;
    }
  }

  async function put() {
    const given = new URLSearchParams();
    const keep = keeps.filter((input) => input.checked).map((input) => input.value);
    if (keep.length) given.set("keep", keep.join(","));
    if (width.value.trim()) given.set("window", width.value.trim());
    if (width.value.trim() && slide.value.trim()) given.set("slide", slide.value.trim());
    const asked = nameInput.value.trim();
    setText(outcome, "Registering …");
    try {
      await sendQuery(`/queries/${encodeURIComponent(asked)}?${given}`, "PUT", text.value);
      refresh();
      location.hash = `#/query/${encodeURIComponent(asked)}`;
    } catch (error) {
      if (!(error instanceof Refused)) setText(outcome, "The server does not respond.");
      else if (error.problem.line) {
        setText(outcome, "");
        showProblem(error);
      } else setText(outcome, `Not registered: ${error.message}`);
    }
  }

  let known = "", wanted = name;
  const draw = () => {
    if (!state.status) return;
    register.hidden = state.status.role !== "admin";
    run.hidden = !state.status.adhoc;
    const names = state.status.queries.map((query) => query.name);
    if (names.join("\n") !== known) {
      known = names.join("\n");
      starts.replaceChildren(make("option", { value: "" }, "Start from …"), ...names.map((each) => make("option", {}, each)));
    }
    starts.hidden = !names.length;
    const query = wanted && state.status.queries.find((each) => each.name === wanted);
    if (query) write(query.text);
    wanted = "";
  };
  draw();
  mark(null);
  check();
  text.focus({ preventScroll: true });
  const end = onStatus(draw);
  return () => {
    end();
    clearTimeout(timer);
  };
}

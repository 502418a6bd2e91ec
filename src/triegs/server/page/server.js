// The server: requests with a token, its status once a second, and streams that resume.

export class Refused extends Error {
  /** A response with an error; `problem` is its body. */
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

const TOKEN = "triegs-token";
const listeners = new Set();
let wakeUp = null, isDue = false;

export const state = {
  status: null,
  history: [],
  isLost: false,
  lostAt: null,
  restarts: 0,
  needsToken: false,
};

export function readToken() {
  return sessionStorage.getItem(TOKEN);
}

export function useToken(text) {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
  state.needsToken = false;
  refresh();
}

/** Call a function after each look at the server; the result ends that. */
export function onStatus(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Look at the server now; also if a look is under way, which may be too early. */
export function refresh() {
  isDue = true;
  wakeUp?.();
}

/** A response, or `Refused`, or the TypeError of a lost connection. */
export async function request(path, { accept = "application/json", headers = {}, ...options } = {}) {
  const sent = { Accept: accept, ...headers };
  const token = readToken();
  if (token) sent.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...options, headers: sent, cache: "no-store" });
  if (response.ok) return response;
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // a proxy answered
  }
  if (response.status === 401 && !state.needsToken) {
    state.needsToken = true;
    tell();
  }
  throw new Refused(response.status, problem);
}

export function sendQuery(path, method, text, options = {}) {
  const headers = { "Content-Type": "application/sparql-query" };
  return request(path, { method, body: text, headers, ...options });
}

/** The lines of a response as they arrive. */
export async function* readLines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      yield* lines;
    }
    if (rest) yield rest;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The changes of a query until `signal`: {event, epoch, rows}. Resumes after a lost connection. */
export async function* follow(name, signal, onState) {
  let last = null;
  for (let pause = 500; !signal.aborted; pause = Math.min(pause * 2, 5000)) {
    try {
      const headers = last === null ? {} : { "Last-Event-ID": last };
      const path = `/queries/${encodeURIComponent(name)}/subscribe?terms=short${last === null ? "&snapshot=false" : ""}`;
      const response = await request(path, { accept: "text/event-stream", headers, signal });
      onState("live");
      for await (const message of readEvents(response)) {
        pause = 500;
        if (message.id) last = message.id;
        yield message;
        if (message.event === "end") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status !== 429 && error.status < 500) {
        onState("refused", error);
        return;
      }
    }
    onState("lost");
    await sleep(pause);
  }
}

async function* readEvents(response) {
  let message = { event: "", id: null, rows: [] };
  for await (const line of readLines(response)) {
    const at = line.indexOf(": ");
    const name = line.slice(0, at), value = line.slice(at + 2);
    if (name === "event") message.event = value;
    else if (name === "id") message.id = value;
    else if (name === "data") message.rows.push(JSON.parse(value));
    else if (!line && message.event) {
      yield message;
      message = { event: "", id: null, rows: [] };
    }
  }
}

/** Look at the server once a second while the page is visible, and tell the listeners. */
export async function watch() {
  for (let pause = 1000; ; ) {
    isDue = false;
    try {
      const first = state.history.length === 0;
      const signal = AbortSignal.timeout(8000);
      const response = await request(`/status${first ? "?history=true" : ""}`, { signal });
      take(await response.json());
      pause = 1000;
    } catch (error) {
      if (!(error instanceof Refused && error.status === 401)) lose();
      pause = Math.min(pause * 1.5, 5000);
    }
    tell();
    if (!isDue) await Promise.race([sleep(pause), new Promise((resolve) => (wakeUp = resolve))]);
    if (document.hidden && !isDue) {
      await new Promise((resolve) => {
        wakeUp = resolve;
        document.addEventListener("visibilitychange", resolve, { once: true });
      });
    }
  }
}

function take(status) {
  const before = state.status;
  if (before && status.clock_s - before.clock_s < 0 || before && status.epoch < before.epoch) {
    state.history = [];
    state.restarts += 1;
  }
  state.isLost = false;
  state.needsToken = false;
  state.status = status;
  const point = {
    at_s: status.clock_s, epochs: status.epoch, events: status.events,
    epoch_ms: status.last_epoch_ms, lag_ms: status.lag_s * 1000, live_bytes: status.memory.live_bytes, retained_bytes: status.memory.retained_bytes,
  };
  state.history.push(...(status.history ?? []), point);
  state.history.sort((a, b) => a.at_s - b.at_s);
  state.history.splice(0, state.history.length - 180);
}

function lose() {
  if (!state.isLost) state.lostAt = new Date();
  state.isLost = true;
}

function tell() {
  for (const listener of [...listeners]) listener(state);
}

export function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

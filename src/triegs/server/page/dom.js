// Elements, numbers as text, and small line charts.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `make("p", {class: "note"}, "text", child)`. Handlers are functions: `onclick`. */
export function make(name, given = {}, ...children) {
  return fill(document.createElement(name), given, children);
}

export function makeSvg(name, given = {}, ...children) {
  return fill(document.createElementNS(SVG, name), given, children);
}

function fill(element, given, children) {
  for (const [key, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Set text only if it differs, so that a selection survives. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function writeNumber(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

export function writeRate(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value.toFixed(value >= 10 ? 1 : 2).replace(/\.?0+$/, "");
}

export function writeBytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

export function writeMillis(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 ms";
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return `${value >= 100 ? Math.round(value) : value.toFixed(value >= 10 ? 1 : 2)} ms`;
}

export function writeClock(date) {
  return date.toLocaleTimeString("en-GB");
}

/** A length of time in words that fit a table cell. */
export function writeAge(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1.5) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** A line over a filled area; as wide as its box. */
export function drawLine(values, label) {
  const width = 240, height = 44;
  const known = values.filter((value) => value !== null);
  const top = Math.max(...known, 0) || 1;
  const step = values.length > 1 ? width / (values.length - 1) : width;
  const points = values
    .map((value, at) => (value === null ? null : [at * step, height - 2 - (value / top) * (height - 6)]))
    .filter((point) => point !== null)
    .map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`);
  const chart = makeSvg("svg", {
    class: "line", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label,
  });
  if (points.length > 1) {
    const first = points[0].split(",")[0], last = points[points.length - 1].split(",")[0];
    chart.append(
      makeSvg("polygon", { points: `${first},${height} ${points.join(" ")} ${last},${height}` }),
      makeSvg("polyline", { points: points.join(" "), "vector-effect": "non-scaling-stroke" }),
    );
  }
  return chart;
}

/** A table that scrolls by itself when the screen is narrow. */
export function makeTable(label, columns, rows, style = "") {
  const head = make("tr", {}, ...columns.map((column) =>
    make("th", { scope: "col", class: column.class }, column.name)));
  return make("div", { class: `scroll ${style}`, tabindex: "0", role: "region", "aria-label": label },
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

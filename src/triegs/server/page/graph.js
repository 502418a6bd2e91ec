// A small result as a picture: terms as nodes, the query's patterns as edges.

import { make, makeSvg, setText, writeNumber } from "./dom.js";
import { readAnswers } from "./answers.js";

const MOST = 40; // answers
const EVERY_MS = 2500;
const WIDTH = 1100, HEIGHT = 600, ROUNDS = 260;

export function showGraph(panel, name, find) {
  let isOpen = true, timer = null, before = "";
  const places = new Map();
  const note = make("p", { class: "note" }, "Loading …");
  const frame = make("div", { class: "graph" });
  panel.replaceChildren(note, frame);
  const look = async () => {
    try {
      const query = find();
      if (query && !document.hidden) {
        const { rows, epoch } = await readAnswers(name, { limit: MOST });
        if (!isOpen) return;
        const { nodes, edges } = connect(query, rows);
        const size = query.support ?? rows.length;
        const labels = new Set(edges.map(([, , label]) => label));
        const kind = labels.size === 1 && !labels.has("") ? ` Each edge is ${[...labels][0]}.` : "";
        setText(note, !nodes.length ? "No answers at this epoch."
          : `${size > rows.length ? `The first ${rows.length} of ${writeNumber(size)}` : `All ${rows.length}`} answers, epoch ${writeNumber(epoch)}.${kind}`);
        const key = JSON.stringify([nodes, edges]);
        if (key !== before) {
          before = key;
          arrange(nodes, edges, places);
          frame.replaceChildren(draw(nodes, edges, places));
        }
      }
    } catch {
      // the notice at the top says that the server is lost
    }
    if (isOpen) timer = setTimeout(look, EVERY_MS);
  };
  look();
  return () => {
    isOpen = false;
    clearTimeout(timer);
  };
}

/** Nodes and edges of answers: a pattern whose ends are known is an edge; without any, columns are
 * connected in their order. */
export function connect(query, rows) {
  const nodes = new Map(), edges = new Map();
  const names = new Set(query.columns.map((column) => `?${column}`));
  const isKnown = (term) => !term.startsWith("?") || names.has(term);
  let patterns = query.atoms.filter(([from, , to]) => isKnown(from) && isKnown(to) && (names.has(from) || names.has(to)));
  const covered = new Set(patterns.flat());
  const single = query.columns.filter((column) => !covered.has(`?${column}`));
  if (single.length && query.columns.length > 1) {
    patterns = [...patterns, ...query.columns.slice(1).map((column, at) => [`?${query.columns[at]}`, "", `?${column}`])
      .filter(([from, , to]) => single.includes(from.slice(1)) || single.includes(to.slice(1)))];
  }
  for (const row of rows) {
    const read = (term) => (term.startsWith("?") ? row[term.slice(1)] : shorten(term));
    for (const column of query.columns) {
      const value = row[column];
      if (value !== null && value !== undefined) nodes.set(String(value), column);
    }
    for (const [subject, label, object] of patterns) {
      const from = read(subject), to = read(object), text = read(label) ?? "";
      if (from === null || from === undefined || to === null || to === undefined) continue;
      for (const end of [from, to]) if (!nodes.has(String(end))) nodes.set(String(end), "");
      edges.set(`${from}\n${to}\n${text}`, [String(from), String(to), shorten(String(text))]);
    }
  }
  return { nodes: [...nodes], edges: [...edges.values()] };
}

/** The last part of an IRI or prefixed name. */
export function shorten(term) {
  const text = term.replace(/^<|>$/g, "").replace(/^"(.*)"(\^\^.*|@.*)?$/s, "$1");
  const cut = /^[a-z][a-z0-9+.-]*:/i.test(text) ? text.split(/[/#:]/).filter(Boolean).pop() ?? text : text;
  return cut.length > 22 ? `${cut.slice(0, 21)}…` : cut;
}

/** Springs along edges, repulsion between all nodes; nodes that were there before stay put. */
function arrange(nodes, edges, places) {
  const present = new Set(nodes.map(([id]) => id));
  for (const id of [...places.keys()]) if (!present.has(id)) places.delete(id);
  const fresh = nodes.filter(([id]) => !places.has(id));
  fresh.forEach(([id], at) => {
    const angle = at * 2.399963; // the golden angle spreads them evenly, the same each time
    const radius = 40 + 210 * Math.sqrt((at + 0.5) / fresh.length);
    places.set(id, { x: WIDTH / 2 + 1.5 * radius * Math.cos(angle), y: HEIGHT / 2 + radius * Math.sin(angle) });
  });
  const all = nodes.map(([id]) => places.get(id));
  const ideal = Math.sqrt((WIDTH * HEIGHT) / Math.max(all.length, 1)) * 0.75;
  const rounds = fresh.length ? ROUNDS : 30;
  for (let round = 0; round < rounds; round += 1) {
    const heat = 18 * (1 - round / rounds) + 0.5;
    const forces = new Map(all.map((place) => [place, { x: 0, y: 0 }]));
    for (let i = 0; i < all.length; i += 1) {
      for (let j = i + 1; j < all.length; j += 1) push(all[i], all[j], forces, (length) => (ideal * ideal) / length);
    }
    for (const [from, to] of edges) {
      if (from !== to) push(places.get(from), places.get(to), forces, (length) => -(length * length) / ideal);
    }
    for (const [place, force] of forces) {
      force.x += (WIDTH / 2 - place.x) * 0.35;
      force.y += (HEIGHT / 2 - place.y) * 0.7;
      const length = Math.hypot(force.x, force.y) || 1;
      place.x += (force.x / length) * Math.min(length, heat);
      place.y += (force.y / length) * Math.min(length, heat);
    }
  }
  fit(all, "x", 60, WIDTH - 60);
  fit(all, "y", 24, HEIGHT - 34);
}

/** Spread places over the frame; few nodes stay close together. */
function fit(all, axis, from, to) {
  const values = all.map((place) => place[axis]);
  const low = Math.min(...values), high = Math.max(...values);
  const scale = Math.min((to - from) / Math.max(high - low, 1), 1.4);
  for (const place of all) place[axis] = (from + to) / 2 + (place[axis] - (low + high) / 2) * scale;
}

function push(a, b, forces, strength) {
  const x = a.x - b.x || 0.1, y = a.y - b.y || 0.1;
  const length = Math.max(Math.hypot(x, y), 1);
  const force = strength(length) / length;
  forces.get(a).x += x * force;
  forces.get(a).y += y * force;
  forces.get(b).x -= x * force;
  forces.get(b).y -= y * force;
}

function draw(nodes, edges, places) {
  const columns = [...new Set(nodes.map(([, column]) => column))];
  const picture = makeSvg("svg", { class: nodes.length > 45 ? "dense" : null, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${nodes.length} terms and ${edges.length} edges` });
  picture.append(makeSvg("defs", {}, makeSvg("marker", {
    id: "tip", viewBox: "0 0 8 8", refX: "14", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto",
  }, makeSvg("path", { d: "M0 0 8 4 0 8z" }))));
  const areLabelled = edges.length <= 40 && new Set(edges.map(([, , label]) => label)).size > 1;
  for (const [from, to, label] of edges) {
    const a = places.get(from), b = places.get(to);
    picture.append(makeSvg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, "marker-end": "url(#tip)" }));
    if (areLabelled && label) picture.append(makeSvg("text", { class: "label", x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 - 3 }, label));
  }
  for (const [id, column] of nodes) {
    const { x, y } = places.get(id);
    picture.append(makeSvg("g", { class: "node", "data-kind": String(columns.indexOf(column) % 6) },
      makeSvg("title", {}, id), makeSvg("circle", { cx: x, cy: y, r: 6 }), makeSvg("text", { x, y: y + 18 }, shorten(id))));
  }
  const legend = make("p", { class: "legend" }, ...columns.filter(Boolean).map((column) =>
    make("span", { "data-kind": String(columns.indexOf(column) % 6) }, `?${column}`)));
  return make("div", {}, picture, legend);
}

"use strict";
const STEPS = 255, TOP = 6, LEAST = 0.0005, HEATMAP = 4, SPOTLIGHT = 2, PICTURE = 448, THUMB = 96, SPEED = 900;
const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const state = { map: 0, layer: 0, head: 0, direction: "at", pointed: null, pinned: null };
const photo = new Image();
let playing = null;

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/* The weights. A head beyond the last one is the mean of all. */
function bytes(layer) {
  if (!layer.bytes) layer.bytes = Uint8Array.from(atob(layer.weights), (sign) => sign.charCodeAt(0));
  return layer.bytes;
}
const size = (places) => (places.grid ? places.grid[0] * places.grid[1] : places.labels.length);
function weights(map, layer, head) {
  layer.heads_read ??= [];
  if (layer.heads_read[head]) return layer.heads_read[head];
  const count = size(map.queries) * size(map.keys), read = new Float32Array(count), stored = bytes(layer);
  const heads = head < layer.heads ? [head] : [...Array(layer.heads).keys()];
  for (const h of heads)
    for (let i = 0; i < count; i++) read[i] += (stored[h * count + i] / STEPS) ** 2 / heads.length;
  return (layer.heads_read[head] = read);
}
const map = () => data.maps[state.map];
const layer = () => map().layers[state.layer];
const from = () => (state.direction === "at" ? map().queries : map().keys);
const to = () => (state.direction === "at" ? map().keys : map().queries);
const itself = () => map().kind !== "decoder.cross";
/* What one position attends to, or what attends to it. */
function row(place) {
  const all = weights(map(), layer(), state.head), keys = size(map().keys);
  const at = (i) => (state.direction === "at" ? all[place * keys + i] : all[i * keys + place]);
  return Float32Array.from({ length: size(to()) }, (_, i) => at(i));
}

/* Names */
const headName = (head, one) => (head < one.heads ? `head ${head + 1}` : one.heads > 1 ? "mean of heads" : "head 1");
function placeName(places, i) {
  if (!places.grid) return places.labels[i];
  return `row ${Math.floor(i / places.grid[1]) + 1}, column ${(i % places.grid[1]) + 1}`;
}

/* Drawing. The strongest color is the largest weight, or so many even shares where that is more: what reads everything
   evenly stays pale. */
const strongest = (all, keys, shares) => all.reduce((a, b) => Math.max(a, b), Math.min(1, shares / keys));
const colors = {}; // of the scheme, light or dark, that the reader has now
function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["heat", "line", "text", "accent"]) colors[name] = style.getPropertyValue(`--${name}`).trim();
}
const heat = (share) => `rgba(${colors.heat}, ${share.toFixed(3)})`;
function heatmap(canvas, map, layer, head) {
  const rows = size(map.queries), columns = size(map.keys), all = weights(map, layer, head);
  canvas.width = columns;
  canvas.height = rows;
  const pen = canvas.getContext("2d"), image = pen.createImageData(columns, rows);
  const [red, green, blue] = colors.heat.split(",").map(Number), { data: pixels } = image;
  const most = 255 / Math.sqrt(strongest(all, columns, HEATMAP));
  for (let i = 0; i < all.length; i++) {
    pixels[4 * i] = red;
    pixels[4 * i + 1] = green;
    pixels[4 * i + 2] = blue;
    pixels[4 * i + 3] = most * Math.sqrt(all[i]);
  }
  pen.putImageData(image, 0, 0);
}
/* The picture, dark where nothing is read. */
function spotlight(canvas, side, grid, shares, marked) {
  const ratio = window.devicePixelRatio || 1, [rows, columns] = grid, full = (canvas.width = canvas.height = side * ratio);
  canvas.style.width = `${side}px`;
  const pen = canvas.getContext("2d");
  pen.drawImage(photo, 0, 0, full, full);
  if (shares) {
    const small = make("canvas", { width: columns, height: rows }), image = small.getContext("2d").createImageData(columns, rows);
    const most = strongest(shares, rows * columns, SPOTLIGHT);
    shares.forEach((share, i) => image.data.set([10, 8, 20, 205 * (1 - share / most)], 4 * i));
    small.getContext("2d").putImageData(image, 0, 0);
    pen.imageSmoothingQuality = "high";
    pen.drawImage(small, 0, 0, full, full);
  }
  if (marked !== null) {
    const wide = full / columns, high = full / rows;
    pen.lineWidth = 2 * ratio;
    pen.strokeStyle = heat(1);
    pen.strokeRect((marked % columns) * wide, Math.floor(marked / columns) * high, wide, high);
  }
}

/* The places that look, and those that are looked at */
function build(box, places) {
  box.replaceChildren();
  box.hidden = false;
  if (places.grid) {
    const canvas = make("canvas", { role: "img", "aria-label": "the image" });
    canvas.places = places;
    box.append(make("div", { class: "picture" }, canvas));
    return;
  }
  places.labels.forEach((label, i) => {
    const special = /^(<.+>|\[.+\])$/.test(label) ? " special" : "";
    const token = make("button", { class: `token${special}`, "data-place": i, dir: "auto" });
    token.textContent = label;
    box.append(token);
  });
}
function placeAt(event, box, places) {
  if (!places.grid) {
    const token = event.target.closest(".token");
    return token && box.contains(token) ? Number(token.dataset.place) : null;
  }
  if (event.target.tagName !== "CANVAS") return null;
  const frame = event.target.getBoundingClientRect(), [rows, columns] = places.grid;
  const across = Math.floor(((event.clientX - frame.left) / frame.width) * columns);
  const down = Math.floor(((event.clientY - frame.top) / frame.height) * rows);
  return Math.min(rows - 1, Math.max(0, down)) * columns + Math.min(columns - 1, Math.max(0, across));
}
function paint(box, places, shares, chosen) {
  if (places.grid) return spotlight(box.querySelector("canvas"), PICTURE, places.grid, shares, chosen);
  const most = shares ? strongest(shares, shares.length, HEATMAP) : 1;
  for (const token of box.children) {
    const i = Number(token.dataset.place), share = shares ? Math.sqrt(shares[i] / most) : 0;
    token.style.backgroundColor = share > 0.02 ? heat(0.9 * share) : "";
    token.classList.toggle("hot", share > 0.72);
    token.classList.toggle("chosen", i === chosen);
    if (shares) token.dataset.weight = shares[i].toFixed(4);
    else delete token.dataset.weight;
    token.title = shares ? `${(100 * shares[i]).toFixed(1)} %` : "";
  }
}
function readOut(shares, chosen) {
  const box = find("readout");
  box.replaceChildren();
  if (shares === null) return box.append(make("p", {}, "Point at a token or an image position."));
  const verb = state.direction === "at" ? "attends to" : "is attended to by";
  const line = make("p", {});
  line.append(make("strong", {}, placeName(from(), chosen)), ` ${verb}`);
  box.append(line);
  const best = [...shares.keys()].filter((i) => shares[i] >= LEAST).sort((a, b) => shares[b] - shares[a]).slice(0, TOP);
  const full = to().grid ? Math.max(shares[best[0]], 1e-9) : 1;
  for (const i of best) {
    const bar = make("div", { class: "bar" });
    bar.style.width = `${100 * Math.min(1, shares[i] / full)}%`;
    box.append(make("span", { class: "label" }, placeName(to(), i)), make("div", {}, bar), `${(100 * shares[i]).toFixed(1)} %`);
  }
}
function show() {
  const chosen = state.pointed ?? state.pinned, shares = chosen === null ? null : row(chosen);
  if (itself()) paint(find("from"), from(), shares, chosen);
  else {
    paint(find("from"), from(), null, chosen);
    paint(find("to"), to(), shares, null);
  }
  readOut(shares, chosen);
  for (const button of find("strip").children) button.setAttribute("aria-pressed", Number(button.dataset.place) === chosen);
  markMatrix(chosen);
}


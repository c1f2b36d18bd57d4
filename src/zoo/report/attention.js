/* All weights of one head */
function drawMatrix() {
  const one = map(), rows = size(one.queries), columns = size(one.keys);
  find("all").hidden = Boolean(one.queries.grid || one.keys.grid);
  if (find("all").hidden) return;
  const cell = Math.max(9, Math.min(26, Math.floor(900 / Math.max(rows, columns)))), font = Math.min(12, cell - 1);
  const canvas = find("matrix"), pen = canvas.getContext("2d");
  pen.font = `${font}px system-ui, sans-serif`;
  const widest = (labels) => Math.min(150, 10 + Math.max(...labels.map((label) => pen.measureText(label).width)));
  const left = widest(one.queries.labels), top = widest(one.keys.labels);
  const [wide, high] = [left + columns * cell + 1, top + rows * cell + 1];
  // browsers draw nothing at all in a canvas of more than 16384 x 16384 pixels
  const ratio = Math.min(window.devicePixelRatio || 1, 16000 / Math.max(wide, high));
  Object.assign(canvas, { width: wide * ratio, height: high * ratio, cell, left, top });
  Object.assign(canvas.style, { width: `${wide}px`, height: `${high}px` });
  pen.scale(ratio, ratio);
  pen.font = `${font}px system-ui, sans-serif`;
  pen.textBaseline = "middle";
  const small = make("canvas", {});
  heatmap(small, one, layer(), state.head);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, left, top, columns * cell, rows * cell);
  pen.strokeStyle = colors.line;
  pen.strokeRect(left, top, columns * cell, rows * cell);
  pen.textAlign = "right";
  one.queries.labels.forEach((label, i) => write(pen, label, left - 5, top + (i + 0.5) * cell, 0));
  pen.textAlign = "left";
  one.keys.labels.forEach((label, i) => write(pen, label, left + (i + 0.5) * cell, top - 5, -Math.PI / 2));
}
function write(pen, label, x, y, turned) {
  pen.save();
  pen.translate(x, y);
  pen.rotate(turned);
  pen.fillStyle = colors.text;
  pen.fillText(label, 0, 0, 140);
  pen.restore();
}
/* A frame around the chosen row or column */
function markMatrix(chosen) {
  const { cell, left, top } = find("matrix"), frame = find("mark"), by = state.direction === "by";
  frame.hidden = chosen === null || find("all").hidden;
  if (frame.hidden) return;
  const [wide, high] = [size(map().keys) * cell, size(map().queries) * cell];
  const box = by ? [left + chosen * cell, 0, cell, top + high] : [0, top + chosen * cell, left + wide, cell];
  ["left", "top", "width", "height"].forEach((side, i) => (frame.style[side] = `${box[i]}px`));
}

/* Choosing */
function press(box, wanted) {
  for (const button of box.querySelectorAll("button")) button.setAttribute("aria-pressed", wanted(button));
}
function overview() {
  const one = map(), most = Math.max(...one.layers.map((layer) => layer.heads)), table = find("heads");
  const columns = [...Array(most).keys(), ...(most > 1 ? [most] : [])], thumb = most > 8 || one.layers.length > 8 ? 34 : 52;
  const head = make("tr", {}, make("th", {}, "layer"), ...columns.map((h) => make("th", {}, h < most ? String(h + 1) : "mean")));
  table.replaceChildren(make("thead", {}, head));
  one.layers.forEach((layer, l) => {
    const line = make("tr", {}, make("th", {}, String(layer.layer)));
    for (const column of columns) {
      const h = column < most ? column : layer.heads, canvas = make("canvas", {});
      if (h > layer.heads || (column < most && h >= layer.heads)) { line.append(make("td", {})); continue; }
      heatmap(canvas, one, layer, h);
      const name = `layer ${layer.layer}, ${headName(h, layer)}`;
      Object.assign(canvas.style, { width: `${thumb}px`, height: `${thumb}px` });
      line.append(make("td", {}, make("button", { "data-layer": l, "data-head": h, title: name, "aria-label": name }, canvas)));
    }
    table.append(line);
  });
}
function strip() {
  find("strip").replaceChildren();
  if (!(to().grid && from().labels.length)) return;
  from().labels.forEach((label, i) => {
    const canvas = make("canvas", {});
    spotlight(canvas, THUMB, to().grid, row(i), null);
    find("strip").append(make("button", { "data-place": i, title: label }, canvas, make("span", {}, label)));
  });
}
function chooseHead() {
  press(find("heads"), (b) => Number(b.dataset.layer) === state.layer && Number(b.dataset.head) === state.head);
  find("chosen").textContent = `${map().name}: layer ${layer().layer}, ${headName(state.head, layer())}`;
  strip();
  drawMatrix();
  show();
}
function chooseDirection() {
  press(find("directions"), (button) => button.dataset.direction === state.direction);
  build(find("from"), from());
  find("view").dataset.beside = from().grid ? "from" : to().grid ? "to" : "";
  find("between").hidden = find("to").hidden = itself();
  find("between").textContent = state.direction === "at" ? "attends to" : "is attended to by";
  if (!itself()) build(find("to"), to());
  chooseHead();
}
function chooseMap(number) {
  const last = data.maps[number].layers.length - 1, heads = data.maps[number].layers[last].heads;
  Object.assign(state, { map: number, layer: last, head: heads > 1 ? heads : 0, pointed: null, pinned: null });
  press(find("kinds"), (button) => Number(button.dataset.map) === number);
  overview();
  chooseDirection();
}
function step(by) {
  const count = size(from()), now = state.pinned ?? (by > 0 ? -1 : count);
  Object.assign(state, { pinned: (now + by + count) % count, pointed: null });
  show();
}
function play(on) {
  clearInterval(playing);
  playing = on ? setInterval(() => step(1), SPEED) : null;
  find("play").textContent = on ? "stop" : "play";
}
function pin(place) {
  state.pinned = state.pinned === place ? null : place;
  show();
}

/* Listening */
function listen() {
  find("kinds").addEventListener("click", (e) => e.target.dataset.map && chooseMap(Number(e.target.dataset.map)));
  find("directions").addEventListener("click", (e) => {
    if (!e.target.dataset.direction) return;
    Object.assign(state, { direction: e.target.dataset.direction, pointed: null, pinned: null });
    chooseDirection();
  });
  find("heads").addEventListener("click", (e) => {
    const button = e.target.closest("button");
    if (!button) return;
    Object.assign(state, { layer: Number(button.dataset.layer), head: Number(button.dataset.head) });
    chooseHead();
  });
  const point = (place) => { if (place !== state.pointed) { state.pointed = place; show(); } };
  find("from").addEventListener("pointermove", (e) => point(placeAt(e, find("from"), from())));
  find("from").addEventListener("pointerleave", () => point(null));
  find("from").addEventListener("focusin", (e) => point(placeAt(e, find("from"), from())));
  find("from").addEventListener("focusout", () => point(null));
  find("from").addEventListener("click", (e) => {
    const place = placeAt(e, find("from"), from());
    if (place !== null) { play(false); pin(place); }
  });
  find("strip").addEventListener("click", (e) => e.target.closest("button") && pin(Number(e.target.closest("button").dataset.place)));
  find("matrix").addEventListener("pointermove", (e) => {
    const { cell, left, top } = e.target, x = Math.floor((e.offsetX - left) / cell), y = Math.floor((e.offsetY - top) / cell);
    const inside = x >= 0 && y >= 0 && x < size(map().keys) && y < size(map().queries);
    point(inside ? (state.direction === "at" ? y : x) : null);
    const all = weights(map(), layer(), state.head);
    e.target.title = inside ? `${map().queries.labels[y]} → ${map().keys.labels[x]}: ${(100 * all[y * size(map().keys) + x]).toFixed(1)} %` : "";
  });
  find("matrix").addEventListener("pointerleave", () => point(null));
  find("steps").addEventListener("click", (e) => {
    if (e.target.id === "play") return play(playing === null);
    if (e.target.dataset.step) { play(false); step(Number(e.target.dataset.step)); }
  });
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") { play(false); Object.assign(state, { pinned: null, pointed: null }); show(); }
    if (e.key === "ArrowRight" || e.key === "ArrowLeft") { step(e.key === "ArrowRight" ? 1 : -1); e.preventDefault(); }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColors();
    overview();
    chooseHead();
  });
}
function begin() {
  readColors();
  document.querySelector("h1").textContent = data.title;
  for (const [name, text] of Object.entries(data.texts)) find("texts").append(make("dt", {}, name), make("dd", { dir: "auto" }, text));
  data.maps.forEach((one, i) => find("kinds").append(make("button", { "data-map": i, "data-kind": one.kind }, one.name)));
  const written = data.maps.findIndex((one) => one.kind === "decoder.cross");
  listen();
  chooseMap(Math.max(0, written));
}
photo.onload = begin;
if (data.picture) photo.src = data.picture;
else begin();

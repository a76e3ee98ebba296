// The map: draws machines and pods on a canvas, moves and zooms, and finds what is under the pointer.
// What does not move is drawn once to a picture that is larger than the window; moving the map copies it.

import { layoutMap, layoutPods } from "./layout.js";
import { cores, hourly, plain } from "./model.js";

const MARGIN = 0.35;
const MACHINE_TIME = 450;
const POD_TIME = 700;
const MOST_FLIGHTS = 1500;
const STYLES = ["back", "panel", "line", "text", "quiet", "accent", "machine", "machine-line", "cell", "free", "bad", "good", "warn"];
const ease = (t) => (t < 0.5 ? 2 * t * t : 1 - (2 - 2 * t) ** 2 / 2);

export class ClusterMap {
  constructor(canvas, model, onSelect) {
    this.canvas = canvas;
    this.model = model;
    this.onSelect = onSelect;
    this.context = canvas.getContext("2d", { alpha: false });
    this.picture = document.createElement("canvas");
    this.pen = this.picture.getContext("2d", { alpha: false });
    this.view = { x: 0, y: 0, scale: 1 };
    this.fitted = true;
    this.selected = null;
    this.workload = "";
    this.matches = null;
    this.tiles = new Map();
    this.ghosts = [];
    this.flights = new Map();
    this.moving = new Map();
    this.drawn = 0;
    this.times = [];
    this.stale = true;
    this.layout = null;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.restyle();
    this.resize();
    this.update(false);
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.listen();
  }

  restyle() {
    const style = getComputedStyle(document.documentElement);
    this.color = {};
    for (const name of STYLES) this.color[name] = style.getPropertyValue(`--${name}`).trim();
    this.redraw();
  }

  resize() {
    if (!this.canvas.clientWidth && this.width) return; // another view is shown
    const ratio = Math.min(devicePixelRatio || 1, 2);
    this.ratio = ratio;
    this.width = this.canvas.clientWidth || 1;
    this.height = this.canvas.clientHeight || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.picture.width = Math.round(this.canvas.width * (1 + 2 * MARGIN));
    this.picture.height = Math.round(this.canvas.height * (1 + 2 * MARGIN));
    if (this.fitted && this.layout) this.fit();
    this.redraw();
  }

  /** Lay out the state that the model shows now; with `animate`, machines and pods are seen moving there. */
  update(animate = true) {
    const before = this.layout, old = this.tiles;
    this.layout = layoutMap(this.model, this.width, Math.max(this.height - 20, 60));
    this.tiles = new Map();
    for (const [name, box] of this.layout.machines) {
      const pods = this.model.pods.get(name);
      const known = old.get(name);
      const same = known && known.machine === box.machine && known.w === box.w && samePods(known.pods, pods);
      this.tiles.set(name, same ? known : {
        machine: box.machine, w: box.w, pods, tiles: layoutPods(box.machine, pods, box.w, box.h),
      });
    }
    if (animate && before && !this.calm.matches) this.animate(before, old);
    if (this.fitted) this.fit();
    this.redraw();
  }

  animate(before, old) {
    const now = performance.now();
    for (const [name, box] of this.layout.machines) {
      const was = before.machines.get(name);
      if (!was) this.moving.set(name, { x: box.x, y: box.y, grow: true, began: now });
      else if (was.x !== box.x || was.y !== box.y) this.moving.set(name, { x: was.x, y: was.y, began: now });
    }
    for (const [name, was] of before.machines) {
      if (!this.layout.machines.has(name)) this.ghosts.push({ box: was, tiles: old.get(name).tiles, began: now });
    }
    const places = placesOf(before, old), next = placesOf(this.layout, this.tiles);
    const moved = [];
    for (const [key, place] of next) {
      const was = places.get(key);
      if (!was || was.machine !== place.machine) moved.push([key, was, place]);
      if (moved.length > MOST_FLIGHTS) return;
    }
    for (const [key, was, place] of moved) {
      const from = was || { ...place, x: place.x + place.w / 2, y: place.y + place.h / 2, w: 0, h: 0 };
      this.flights.set(key, { from, to: place, began: now });
    }
  }

  fit() {
    const pad = 14;
    const scale = Math.min((this.width - 2 * pad) / this.layout.width, (this.height - 2 * pad) / this.layout.height, 3);
    this.view.scale = Math.max(scale, 0.02);
    this.view.x = pad + Math.max(0, (this.width - 2 * pad - this.layout.width * scale) / 2);
    this.view.y = pad;
    this.fitted = true;
    this.redraw();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(Math.max(this.view.scale * factor, 0.02), 20);
    const by = scale / this.view.scale;
    this.view.x = x - (x - this.view.x) * by;
    this.view.y = y - (y - this.view.y) * by;
    this.view.scale = scale;
    this.fitted = false;
    this.redraw();
  }

  pan(dx, dy) {
    const { view, layout } = this;
    const kept = (at, size, window) => Math.min(Math.max(at, 80 - size * view.scale), window - 80); // never out of sight
    view.x = kept(view.x + dx, layout.width, this.width);
    view.y = kept(view.y + dy, layout.height, this.height);
    this.fitted = false;
    this.request();
  }

  redraw() {
    this.stale = true;
    this.request();
  }

  request() {
    if (!this.waiting) {
      this.waiting = true;
      requestAnimationFrame((time) => this.frame(time));
    }
  }

  frame(time) {
    this.waiting = false;
    const active = this.advance(performance.now());
    if (active || this.stale || !this.covered()) this.paint();
    const { context, view, at, ratio } = this;
    const dx = Math.round((view.x - at.x - this.width * MARGIN) * ratio);
    const dy = Math.round((view.y - at.y - this.height * MARGIN) * ratio);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.picture, dx, dy);
    this.overlay();
    this.times.push(time);
    if (this.times.length > 240) this.times.shift();
    if (!this.drawn) this.first = performance.now();
    this.drawn += 1;
    if (active) this.request();
  }

  /** Whether the picture still covers the window. */
  covered() {
    const { view, at } = this;
    return at && at.scale === view.scale && Math.abs(view.x - at.x) <= this.width * MARGIN
      && Math.abs(view.y - at.y) <= this.height * MARGIN;
  }

  advance(now) {
    for (const [name, each] of this.moving) if (now - each.began > MACHINE_TIME) this.moving.delete(name);
    for (const [key, each] of this.flights) if (now - each.began > POD_TIME) this.flights.delete(key);
    this.ghosts = this.ghosts.filter((each) => now - each.began < POD_TIME);
    this.now = now;
    const active = this.moving.size + this.flights.size + this.ghosts.length > 0;
    if (!active && this.wasActive) this.stale = true;
    this.wasActive = active;
    return active;
  }

  paint() {
    const { pen, view, ratio, color } = this;
    this.stale = false;
    this.at = { ...view };
    const scale = view.scale * ratio;
    const left = (view.x + this.width * MARGIN) * ratio, top = (view.y + this.height * MARGIN) * ratio;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = color.back;
    pen.fillRect(0, 0, this.picture.width, this.picture.height);
    pen.setTransform(scale, 0, 0, scale, left, top);
    const seen = {
      x: -left / scale, y: -top / scale, right: (this.picture.width - left) / scale, bottom: (this.picture.height - top) / scale,
    };
    this.batches = new Map();
    for (const cell of this.layout.cells) if (overlaps(cell, seen)) this.paintCell(cell, seen, view.scale);
    this.paintWaiting();
    for (const ghost of this.ghosts) this.paintGhost(ghost);
    this.flush();
    this.paintFlights();
    this.paintHeads();
  }

  paintCell(cell, seen, scale) {
    const { pen, color } = this;
    pen.fillStyle = color.cell;
    pen.fillRect(cell.x, cell.y, cell.w, cell.h);
    const shown = [];
    for (const box of cell.members) {
      const place = this.placed(box);
      if (overlaps(place, seen)) shown.push([box, place]);
    }
    pen.fillStyle = color.machine;
    for (const [, place] of shown) pen.fillRect(place.x, place.y, place.w, place.h);
    for (const [box, place] of shown) this.addTiles(box, place, scale);
    this.flush();
    for (const [box, place] of shown) this.paintFrame(box.machine, place, scale);
    const price = cell.members.reduce((sum, each) => sum + (each.machine.price || 0), 0);
    if (cell.members.length && cell.w * scale > 90) {
      const text = `${cell.members.length} ${cell.members.length === 1 ? "machine" : "machines"}, ${hourly(price)}/h`;
      this.clipped(text, cell.x + 5, cell.y + 13, Math.min(10.5 / scale, 14), cell.w - 8, color.quiet);
    }
  }

  placed(box) {
    const move = this.moving.get(box.machine.name);
    if (!move) return box;
    const t = ease(Math.min((this.now - move.began) / MACHINE_TIME, 1));
    if (move.grow) {
      return { x: box.x + (box.w * (1 - t)) / 2, y: box.y + (box.h * (1 - t)) / 2, w: box.w * t, h: box.h * t, grow: t };
    }
    return { x: move.x + (box.x - move.x) * t, y: move.y + (box.y - move.y) * t, w: box.w, h: box.h };
  }

  addTiles(box, place, scale) {
    const entry = this.tiles.get(box.machine.name);
    if (!entry.tiles.length || place.grow) return;
    // Below a pixel for each pod, a machine is one bar of the colour of most of its pods.
    if (place.h * scale < 7) {
      const last = entry.tiles[entry.tiles.length - 1];
      this.add(entry.tiles[0].pod, place.x, place.y + last.y, place.w, place.h - last.y);
      return;
    }
    const gap = Math.min(0.6, 0.7 / scale);
    for (const tile of entry.tiles) {
      if (this.flights.has(tile.key)) continue;
      this.add(tile.pod, place.x + tile.x, place.y + tile.y, tile.w - gap, tile.h - gap, scale);
    }
  }

  add(pod, x, y, w, h, scale = 0) {
    const color = this.model.color(pod[0]);
    const pale = (this.workload && this.workload !== pod[0]) || (this.matches && !this.matches.workloads.has(pod[0]));
    const key = pale ? `${color}30` : pod[4] === "running" ? color : `${color}99`;
    let batch = this.batches.get(key);
    if (!batch) this.batches.set(key, batch = []);
    batch.push(x, y, Math.max(w, 0), Math.max(h, 0));
    const mark = scale && h * scale > 6 && w * scale > 6 ? this.model.mark(pod[0]) : 0;
    if (mark && !pale) {
      const kind = mark === 1 ? "stripe" : "corner";
      let marks = this.batches.get(kind);
      if (!marks) this.batches.set(kind, marks = []);
      if (mark === 1) marks.push(x + w * 0.4, y, w * 0.2, h);
      else marks.push(x, y, w * 0.35, h * 0.35);
    }
  }

  flush() {
    const { pen } = this;
    for (const [key, boxes] of this.batches) {
      pen.fillStyle = key[0] === "#" ? key : this.color.back;
      for (let i = 0; i < boxes.length; i += 4) pen.fillRect(boxes[i], boxes[i + 1], boxes[i + 2], boxes[i + 3]);
    }
    this.batches.clear();
  }

  paintFrame(machine, place, scale) {
    const { pen, color } = this;
    const leaving = machine.state === "disrupting", coming = machine.state !== "ready" && !leaving && machine.state !== "not ready";
    if (leaving && place.h * scale > 5) this.hatch(place, scale);
    pen.strokeStyle = leaving || machine.state === "not ready" ? color.bad : coming ? color.good : color["machine-line"];
    pen.lineWidth = (leaving || coming ? 1.8 : 1) / scale;
    if (coming) pen.setLineDash([4 / scale, 3 / scale]);
    pen.strokeRect(place.x, place.y, place.w, place.h);
    if (coming) pen.setLineDash([]);
    if (place.w * scale > 58) this.describe(machine, place, scale);
    if (machine.capacityType === "spot" && place.w * scale > 12) {
      pen.fillStyle = color.text;
      pen.fillRect(place.x + place.w - 5 / scale, place.y + 1 / scale, 4 / scale, 4 / scale);
    }
  }

  describe(machine, place, scale) {
    const size = Math.min(place.h * 0.16, 12 / scale);
    const price = machine.price == null ? "" : `${hourly(machine.price)} `;
    const state = machine.state === "ready" ? "" : ` ${machine.state}`;
    const way = { spot: "spot", reserved: "reserved" }[machine.capacityType] || "";
    this.clipped(`${price}${machine.type || machine.name} ${way}${state}`, place.x + 2, place.y + place.h * 0.14, size, place.w - 4);
  }

  hatch(place, scale) {
    const { pen, color } = this;
    pen.save();
    pen.beginPath();
    pen.rect(place.x, place.y, place.w, place.h);
    pen.clip();
    pen.strokeStyle = color.bad;
    pen.globalAlpha = 0.5;
    pen.lineWidth = 1 / scale;
    pen.beginPath();
    const step = Math.max(6 / scale, place.w / 12);
    for (let x = place.x - place.h; x < place.x + place.w; x += step) {
      pen.moveTo(x, place.y + place.h);
      pen.lineTo(x + place.h, place.y);
    }
    pen.stroke();
    pen.restore();
  }

  paintWaiting() {
    const lane = this.layout.waiting;
    if (!lane) return;
    const { pen, color } = this;
    pen.strokeStyle = color.warn;
    pen.lineWidth = 1 / this.view.scale;
    pen.strokeRect(lane.x, lane.y, lane.w, lane.h);
    for (const tile of lane.tiles) {
      if (tile.text) this.paintWorkload(tile);
      else if (!this.flights.has(tile.key)) this.add(tile.pod, tile.x, tile.y, tile.w, tile.h, this.view.scale);
    }
  }

  paintWorkload(tile) {
    const { pen, color } = this;
    const size = tile.h * 0.62;
    pen.fillStyle = color.panel;
    pen.fillRect(tile.x, tile.y, tile.w, tile.h);
    pen.fillStyle = this.model.color(tile.pod[0]);
    pen.fillRect(tile.x, tile.y, tile.h * 0.3, tile.h);
    this.clipped(tile.text, tile.x + tile.h * 0.45, tile.y + tile.h * 0.72, size, tile.w - tile.h * 0.55);
  }

  paintGhost(ghost) {
    const t = ease(Math.min((this.now - ghost.began) / POD_TIME, 1));
    const { pen, color } = this;
    pen.globalAlpha = 1 - t;
    pen.strokeStyle = color.bad;
    pen.lineWidth = 2 / this.view.scale;
    const cut = (ghost.box.w * t) / 4;
    pen.strokeRect(ghost.box.x + cut, ghost.box.y + cut * 0.8, ghost.box.w - 2 * cut, ghost.box.h - 1.6 * cut);
    pen.globalAlpha = 1;
  }

  paintFlights() {
    const { pen } = this;
    for (const { from, to, began } of this.flights.values()) {
      const t = ease(Math.min((this.now - began) / POD_TIME, 1));
      pen.fillStyle = this.model.color(to.pod[0]);
      pen.fillRect(from.x + (to.x - from.x) * t, from.y + (to.y - from.y) * t, from.w + (to.w - from.w) * t, from.h + (to.h - from.h) * t);
    }
  }

  paintHeads() {
    const { color, view, layout } = this;
    const size = Math.min(13 / view.scale, 60);
    for (const column of layout.columns) {
      this.ending(column.name || "launching", column.x, layout.head - 8, size, column.w, color.text);
    }
    for (const row of layout.rows) {
      const pool = this.model.state.pools.get(row.name);
      const limit = pool && pool.limits && Object.entries(pool.limits)[0];
      const used = limit ? `${limit[0]} ${limit[1]}` : "";
      if (layout.narrow) {
        this.clipped(`${row.name || "unmanaged"}${used && `, ${used}`}`, 2, row.y - size * 0.35, size, layout.width, color.text);
      } else {
        this.clipped(row.name || "unmanaged", 2, row.y + size, size, 112, color.text);
        this.clipped(used, 2, row.y + size * 2.3, size * 0.85, 112, color.quiet);
      }
    }
    const lane = layout.waiting;
    if (lane) this.clipped("waiting", 2, layout.narrow ? lane.y - size * 0.35 : lane.y + size, size, 112, color.warn);
  }

  /** Write a text, or as much of its end as there is room for: zones differ in their last letters. */
  ending(text, x, y, size, width, fill) {
    const many = Math.floor(width / (size * 0.56));
    this.clipped(text.length > many ? `…${text.slice(text.length - Math.max(many - 1, 1))}` : text, x, y, size, Infinity, fill);
  }

  clipped(text, x, y, size, width, fill = this.color.text) {
    const { pen } = this;
    const told = plain(text), many = Math.floor(width / (size * 0.56));
    pen.font = `${size}px system-ui, "DejaVu Sans", sans-serif`;
    pen.fillStyle = fill;
    pen.fillText(told.length > many ? `${told.slice(0, Math.max(many - 1, 1))}…` : told, x, y);
  }

  overlay() {
    const { context, view, ratio, color } = this;
    const scale = view.scale * ratio;
    context.setTransform(scale, 0, 0, scale, view.x * ratio, view.y * ratio);
    const mark = (box, stroke, wide) => {
      context.strokeStyle = stroke;
      context.lineWidth = wide / view.scale;
      const out = wide / view.scale;
      context.strokeRect(box.x - out, box.y - out, box.w + 2 * out, box.h + 2 * out);
    };
    for (const name of this.marked || []) {
      const box = this.layout.machines.get(name);
      if (box) mark(box, color.warn, 2.5);
    }
    if (this.matches) {
      for (const name of this.matches.machines) {
        const box = this.layout.machines.get(name);
        if (box) mark(box, color.accent, 2);
      }
    }
    const box = this.selected && this.layout.machines.get(this.selected);
    if (box) mark(box, color.accent, 3.5);
  }

  // What people do

  listen() {
    const { canvas } = this;
    let held = null;
    canvas.addEventListener("pointerdown", (event) => {
      held = { x: event.clientX, y: event.clientY, far: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held) return this.hover(event);
      const dx = event.clientX - held.x, dy = event.clientY - held.y;
      if (held.far || Math.abs(dx) + Math.abs(dy) > 4) {
        held = { x: event.clientX, y: event.clientY, far: true };
        this.pan(dx, dy);
      }
      return undefined;
    });
    canvas.addEventListener("pointerup", (event) => {
      const clicked = held && !held.far;
      held = null;
      if (clicked) this.click(event);
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const bounds = canvas.getBoundingClientRect();
      this.zoom(1.0015 ** -event.deltaY, event.clientX - bounds.left, event.clientY - bounds.top);
    }, { passive: false });
  }

  under(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const x = (event.clientX - bounds.left - this.view.x) / this.view.scale;
    const y = (event.clientY - bounds.top - this.view.y) / this.view.scale;
    const inside = (box) => x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h;
    for (const tile of this.layout.waiting ? this.layout.waiting.tiles : []) if (inside(tile)) return { kind: "pod", name: tile.key, many: tile.keys.length };
    for (const cell of this.layout.cells) {
      if (!inside(cell)) continue;
      for (const box of cell.members) {
        if (!inside(box)) continue;
        for (const tile of this.tiles.get(box.machine.name).tiles) {
          if (inside({ x: box.x + tile.x, y: box.y + tile.y, w: tile.w, h: tile.h })) {
            return { kind: "pod", name: tile.key, machine: box.machine.name };
          }
        }
        return { kind: "machine", name: box.machine.name };
      }
    }
    if (x < 118 && !this.layout.narrow) for (const row of this.layout.rows) if (row.name && y >= row.y && y <= row.y + row.h) return { kind: "pool", name: row.name };
    return null;
  }

  hover(event) {
    const found = this.under(event);
    this.canvas.title = found ? plain(this.told(found)) : "";
  }

  told({ kind, name, many }) {
    if (kind === "pool") return `NodePool ${name}`;
    if (many > 1) return `${many.toLocaleString("en-US")} pods wait, such as ${name}`;
    if (kind === "pod") {
      const pod = this.model.state.pods.get(name);
      return pod ? `pod ${name} (${pod[4]}), ${cores(pod[2])} cpu` : name;
    }
    const machine = this.model.state.machines.get(name);
    const count = (this.model.pods.get(name) || []).length;
    const price = machine.price == null ? "price not known" : `${hourly(machine.price)} an hour`;
    return `${machine.node || machine.name}: ${machine.type || "no type yet"} in ${machine.zone || "no zone yet"}, ${machine.capacityType || ""} ${price}, ${machine.state}, ${count} pods`;
  }

  click(event) {
    const found = this.under(event);
    if (found && found.kind === "machine") this.selected = found.name;
    if (found && found.kind === "pod") this.selected = found.machine || null;
    this.onSelect(found);
    this.request();
  }

  /** Go to the nearest machine in a direction, and say which it is. */
  step(dx, dy) {
    const from = this.layout.machines.get(this.selected);
    let best = null, least = Infinity;
    for (const [name, box] of this.layout.machines) {
      if (name === this.selected) continue;
      if (!from) { best = name; break; }
      const x = box.x + box.w / 2 - from.x - from.w / 2, y = box.y + box.h / 2 - from.y - from.h / 2;
      const along = x * dx + y * dy, across = Math.abs(x * dy) + Math.abs(y * dx);
      if (along <= 1) continue;
      const far = along + across * 3;
      if (far < least) { least = far; best = name; }
    }
    if (!best) return "";
    this.choose(best);
    return this.told({ kind: "machine", name: best });
  }

  choose(name) {
    this.selected = name;
    const box = this.layout.machines.get(name);
    if (box) this.reveal(box);
    this.request();
  }

  reveal(box) {
    const { view } = this;
    const x = view.x + (box.x + box.w / 2) * view.scale, y = view.y + (box.y + box.h / 2) * view.scale;
    if (x < 20 || y < 20 || x > this.width - 20 || y > this.height - 20) this.pan(this.width / 2 - x, this.height / 2 - y);
  }
}

const overlaps = (box, seen) => box.x < seen.right && box.x + box.w > seen.x && box.y < seen.bottom && box.y + box.h > seen.y;

function samePods(old, fresh) {
  if (!old || !fresh) return old === fresh;
  if (old.length !== fresh.length) return false;
  return old.every(([key, pod], number) => fresh[number][0] === key && fresh[number][1] === pod);
}

function placesOf(layout, tiles) {
  const places = new Map();
  for (const [name, box] of layout.machines) {
    for (const tile of tiles.get(name).tiles) {
      places.set(tile.key, { x: box.x + tile.x, y: box.y + tile.y, w: tile.w, h: tile.h, pod: tile.pod, machine: name });
    }
  }
  for (const tile of layout.waiting ? layout.waiting.tiles : []) {
    for (const key of tile.keys) places.set(key, { ...tile, machine: "" });
  }
  return places;
}

// Where machines and pods are drawn: rows are NodePools, columns are zones. World units, not pixels.

const SIDE = 120;
const NARROW = 560;
const MOST_TILES = 60;
const MOST_BOXES = 24;
const GAP = 7;
const UNIT = 26;
const CELL_GAP = 18;
const PAD = 12;

/** The size of a machine: its area is its cores. */
function sized(machine) {
  const side = UNIT * Math.sqrt(Math.max(machine.cpu, 500) / 1000);
  return { w: side * 1.25, h: side };
}

/** Lay out the map so that it is as large as it can be in a window of this shape. */
export function layoutMap(model, width, height) {
  const narrow = width < NARROW;
  let best = null, most = 0, line = 16;
  // Names have a size on the screen, so that their room depends on the scale that is found.
  for (const stretch of [0.35, 0.6, 1, 1.6, 2.6, 4.2, 1]) {
    const found = laidOut(model, stretch, narrow, line);
    const scale = Math.min(width / found.width, height / found.height);
    line = Math.min(Math.max(16 / scale, 6), 90);
    const again = laidOut(model, stretch, narrow, line);
    const fits = Math.min(width / again.width, height / again.height);
    if (fits > most * 1.02) {
      best = again;
      most = fits;
    }
  }
  return best;
}

function laidOut(model, stretch, narrow, line) {
  const side = narrow ? 0 : SIDE, head = Math.max(line * 1.2, 26);
  const cells = new Map();
  const pools = new Set([...model.state.pools.keys()].sort());
  // Machines have no zone before they are launched; their column is always there, so that nothing jumps.
  const zones = new Set(model.doc.mode === "plan" || narrow ? [] : [""]);
  for (const machine of model.state.machines.values()) {
    pools.add(machine.pool || "");
    zones.add(machine.zone || "");
  }
  const rows = [...pools].sort((a, b) => (a === "") - (b === "") || (a < b ? -1 : 1));
  const columns = [...zones].sort((a, b) => (a === "") - (b === "") || (a < b ? -1 : 1));
  if (!columns.length) columns.push("");
  for (const row of rows) for (const column of columns) cells.set(`${row}\n${column}`, []);
  for (const machine of model.state.machines.values()) {
    cells.get(`${machine.pool || ""}\n${machine.zone || ""}`).push({ machine, ...sized(machine) });
  }
  const widths = columns.map((column) => Math.max(narrow ? 60 : 120, ...rows.map((row) => wished(cells.get(`${row}\n${column}`), stretch))));
  const result = { cells: [], machines: new Map(), rows: [], columns: [], width: 0, height: 0, waiting: null, narrow, head, side };
  let y = head + (narrow ? 0.3 * line : 0);
  y += waitingLane(model, result, widths, y, line);
  for (const row of rows) {
    if (narrow) y += line;
    let height = 46;
    for (const [number, column] of columns.entries()) {
      height = Math.max(height, shelves(cells.get(`${row}\n${column}`), widths[number]));
    }
    result.rows.push({ name: row, y, h: height });
    let x = side;
    for (const [number, column] of columns.entries()) {
      const members = cells.get(`${row}\n${column}`);
      result.cells.push({ pool: row, zone: column, x, y, w: widths[number], h: height, members });
      for (const each of members) {
        each.x += x;
        each.y += y;
        result.machines.set(each.machine.name, each);
      }
      x += widths[number] + CELL_GAP;
    }
    y += height + CELL_GAP;
  }
  let x = side;
  for (const [number, column] of columns.entries()) {
    result.columns.push({ name: column, x, w: widths[number] });
    x += widths[number] + CELL_GAP;
  }
  result.width = x - CELL_GAP;
  result.height = y - CELL_GAP;
  return result;
}

/** Pods that wait, in a lane above the machines: one tile each, or one for each workload if there are many. */
function waitingLane(model, result, widths, top, line) {
  const pods = model.pods.get("") || [];
  if (!pods.length) return 0;
  const name = result.narrow ? line : 0;
  const width = widths.reduce((sum, each) => sum + each + CELL_GAP, -CELL_GAP);
  const tiles = pods.length > MOST_TILES ? workloadTiles(pods) : pods.map(([key, pod]) => ({ key, keys: [key], pod }));
  const size = pods.length > MOST_TILES ? { w: Math.min(width - 8, line * 14), h: line * 1.3 } : { w: 14, h: 14 };
  const many = Math.max(1, Math.floor((width - 8) / (size.w + 2)));
  const at = top + name;
  result.waiting = {
    x: result.side, y: at, w: width, h: Math.ceil(tiles.length / many) * (size.h + 2) + 8,
    tiles: tiles.map((tile, number) => ({
      ...tile, ...size, x: result.side + 4 + (number % many) * (size.w + 2), y: at + 4 + Math.floor(number / many) * (size.h + 2),
    })),
  };
  return result.waiting.h + CELL_GAP + name;
}

function workloadTiles(pods) {
  const groups = new Map();
  for (const [key, pod] of pods) {
    const tile = groups.get(pod[0]);
    if (tile) tile.keys.push(key);
    else groups.set(pod[0], { key, keys: [key], pod, text: "" });
  }
  const tiles = [...groups.values()].sort((a, b) => b.keys.length - a.keys.length);
  for (const tile of tiles) tile.text = `${tile.pod[0]} × ${tile.keys.length.toLocaleString("en-US")}`;
  if (tiles.length <= MOST_BOXES) return tiles;
  const rest = tiles.slice(MOST_BOXES - 1), keys = rest.flatMap((tile) => tile.keys);
  const text = `${rest.length} more workloads × ${keys.length.toLocaleString("en-US")}`;
  return [...tiles.slice(0, MOST_BOXES - 1), { key: keys[0], keys, pod: rest[0].pod, text }];
}

function wished(members, stretch) {
  const area = members.reduce((sum, each) => sum + (each.w + GAP) * (each.h + GAP), 0);
  return Math.max(Math.sqrt(area * stretch) * 1.1, ...members.map((each) => each.w)) + 2 * PAD;
}

/** Put machines on shelves, the largest first; returns the height. */
function shelves(members, width) {
  members.sort((a, b) => b.w - a.w || (a.machine.name < b.machine.name ? -1 : 1));
  let x = PAD, y = PAD + 12, shelf = 0;
  for (const each of members) {
    if (x > PAD && x + each.w > width - PAD) {
      x = PAD;
      y += shelf + GAP;
      shelf = 0;
    }
    each.x = x;
    each.y = y;
    x += each.w + GAP;
    shelf = Math.max(shelf, each.h);
  }
  return y + shelf + PAD;
}

/** Tiles of the pods of a machine, relative to it: their area is the share of the resource that is scarcer. */
export function layoutPods(machine, pods, w, h) {
  if (!pods || !pods.length) return [];
  let cpu = 0, memory = 0;
  for (const [, pod] of pods) { cpu += pod[2]; memory += pod[3]; }
  const byCpu = (cpu / (machine.cpu || 1)) >= (memory / (machine.memory || 1));
  const head = h * 0.2, pad = 1.5;
  const room = { x: pad, y: head, w: w - 2 * pad, h: h - head - pad };
  const whole = byCpu ? machine.cpu || 1 : machine.memory || 1;
  const items = pods.map(([key, pod]) => ({ key, pod, share: Math.max((byCpu ? pod[2] : pod[3]) / whole, 0.008) }));
  const total = items.reduce((sum, each) => sum + each.share, 0);
  const filled = Math.min(1, total);
  items.sort((a, b) => (a.pod[0] < b.pod[0] ? -1 : a.pod[0] > b.pod[0] ? 1 : b.share - a.share || (a.key < b.key ? -1 : 1)));
  const rect = { x: room.x, y: room.y + room.h * (1 - filled), w: room.w, h: room.h * filled };
  strips(items, rect, total);
  return items;
}

/** A strip treemap: pods stay in order, so those of one workload stay together. */
function strips(items, rect, total) {
  const scale = (rect.w * rect.h) / total;
  let start = 0, y = rect.y + rect.h;
  while (start < items.length) {
    let end = start, sum = 0, worst = Infinity;
    while (end < items.length) {
      const next = sum + items[end].share * scale;
      const height = next / rect.w;
      const width = (items[end].share * scale) / height;
      const ratio = Math.max(width / height, height / width);
      if (end > start && ratio > worst) break;
      worst = ratio;
      sum = next;
      end += 1;
    }
    const height = sum / rect.w;
    y -= height;
    let x = rect.x;
    for (const item of items.slice(start, end)) {
      item.w = (item.share * scale) / height;
      item.h = height;
      item.x = x;
      item.y = y;
      x += item.w;
    }
    start = end;
  }
}

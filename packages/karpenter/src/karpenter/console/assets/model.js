// The cluster as the page holds it: a snapshot, the frames after it, and the moment that is shown.

const KEYFRAME = 50;
const MOST_FRAMES = 3000;

// Okabe and Ito's palette, which people with any colour vision tell apart: https://jfly.uni-koeln.de/color/
export const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];
export const DAEMON = "#8a93a0";
export const HOURS_A_MONTH = 730;

/** A text of the cluster without what does not print, or turns the direction of what follows. */
export const plain = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, " ");

const toMap = (plain) => new Map(Object.entries(plain || {}));

function applied(state, frame) {
  for (const kind of ["machines", "pods", "pools"]) {
    for (const name of (frame.gone && frame.gone[kind]) || []) state[kind].delete(name);
    for (const [name, value] of Object.entries(frame[kind] || {})) state[kind].set(name, value);
  }
}

const copied = (state) => ({
  machines: new Map(state.machines), pods: new Map(state.pods), pools: new Map(state.pools),
});

export class Model {
  constructor(doc) {
    this.doc = doc;
    this.decisions = [];
    this.decided = 0;
    for (const row of doc.decisions || []) this.decide(row);
    this.plans = doc.plans || [];
    this.base = {
      machines: toMap(doc.snapshot.machines), pods: toMap(doc.snapshot.pods), pools: toMap(doc.snapshot.pools),
    };
    this.times = [Date.parse(doc.at)];
    this.bills = [billOf(this.base)];
    this.frames = [];
    this.keyframes = new Map([[0, copied(this.base)]]);
    this.workloads = new Map();
    this.index = 0;
    this.state = copied(this.base);
    this.listeners = [];
    this.grouped = null;
    this.rank(this.state.pods);
    for (const frame of doc.frames || []) this.append(frame);
  }

  get live() { return this.doc.mode === "live"; }
  get last() { return this.frames.length; }
  get time() { return this.times[this.index]; }
  get bill() { return this.bills[this.index]; }

  /** Give workloads their colours: the largest first, and those that come later after them. */
  rank(pods) {
    const counts = new Map();
    for (const pod of pods.values()) {
      if (!this.workloads.has(pod[0])) counts.set(pod[0], (counts.get(pod[0]) || 0) + 1);
      if (pod[5]) this.workloads.set(pod[0], -1);
    }
    const fresh = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    for (const [name] of fresh) {
      if (!this.workloads.has(name)) {
        this.workloads.set(name, [...this.workloads.values()].filter((each) => each >= 0).length);
      }
    }
  }

  /** Take in a row of the timeline: one with a known id is in the place of the row before it. */
  decide(row) {
    this.decided += 1;
    row.time = Date.parse(row.at);
    if (row.id) {
      const known = this.decisions.findIndex((each) => each.id === row.id);
      if (known >= 0) this.decisions.splice(known, 1);
    }
    let place = this.decisions.length;
    while (place && this.decisions[place - 1].time > row.time) place -= 1;
    this.decisions.splice(place, 0, row);
  }

  append(frame) {
    this.frames.push(frame);
    this.times.push(Date.parse(frame.at));
    this.bills.push(frame.bill);
    if (frame.pods) this.rank(new Map(Object.entries(frame.pods)));
  }

  /** Take in a frame of a live cluster; a page that shows the newest moment goes on to it. */
  push(frame) {
    const following = this.index === this.last;
    this.append(frame);
    if (this.frames.length > MOST_FRAMES) this.forget(following);
    if (following) this.go(this.last);
    else this.changed("more");
  }

  forget() {
    const many = MOST_FRAMES / 2;
    for (const frame of this.frames.slice(0, many)) applied(this.base, frame);
    this.frames = this.frames.slice(many);
    this.times = this.times.slice(many);
    this.bills = this.bills.slice(many);
    this.keyframes = new Map([[0, copied(this.base)]]);
    this.index = Math.max(0, this.index - many);
  }

  go(index) {
    const wanted = Math.max(0, Math.min(index, this.last));
    if (wanted < this.index) {
      let from = wanted;
      while (!this.keyframes.has(from)) from -= 1;
      this.state = copied(this.keyframes.get(from));
      this.index = from;
    }
    while (this.index < wanted) {
      applied(this.state, this.frames[this.index]);
      this.index += 1;
      if (this.index % KEYFRAME === 0 && !this.keyframes.has(this.index)) {
        this.keyframes.set(this.index, copied(this.state));
      }
    }
    this.changed("state");
  }

  /** Go to the first moment at or after a time. */
  goTo(time) {
    let index = this.times.findIndex((each) => each >= time);
    if (index < 0) index = this.last;
    this.go(index);
  }

  changed(what) {
    if (what === "state") this.grouped = null;
    for (const listener of this.listeners) listener(what);
  }

  /** Pods by machine; those that wait are under "". */
  get pods() {
    if (!this.grouped) {
      this.grouped = new Map();
      for (const [key, pod] of this.state.pods) {
        const list = this.grouped.get(pod[1]);
        if (list) list.push([key, pod]);
        else this.grouped.set(pod[1], [[key, pod]]);
      }
    }
    return this.grouped;
  }

  color(workload) {
    const rank = this.workloads.get(workload);
    return rank === undefined || rank < 0 ? DAEMON : PALETTE[rank % PALETTE.length];
  }

  /** Workloads beyond the palette have a mark beside their colour: 0 none, 1 a stripe, 2 a corner. */
  mark(workload) {
    const rank = this.workloads.get(workload);
    return rank === undefined || rank < 0 ? 0 : Math.floor(rank / PALETTE.length) % 3;
  }

  /** The newest plan that was made no later than the moment that is shown. */
  get plan() {
    let found = null;
    for (const plan of this.plans) if (Date.parse(plan.at) <= this.time + 1 || this.live) found = plan;
    return found || this.plans[0] || null;
  }

  /** The shares of cpu and memory of all machines that pods request. */
  get used() {
    let cpu = 0, memory = 0, cores = 0, room = 0;
    for (const pod of this.state.pods.values()) if (pod[1]) { cpu += pod[2]; memory += pod[3]; }
    for (const each of this.state.machines.values()) { cores += each.cpu || 0; room += each.memory || 0; }
    return { cpu: cores ? cpu / cores : 0, memory: room ? memory / room : 0 };
  }

  use(machine) {
    let cpu = 0, memory = 0;
    for (const [, pod] of this.pods.get(machine.name) || []) { cpu += pod[2]; memory += pod[3]; }
    return { cpu: machine.cpu ? cpu / machine.cpu : 0, memory: machine.memory ? memory / machine.memory : 0 };
  }
}

function billOf(state) {
  let hourly = 0, spot = 0, waiting = 0;
  for (const each of state.machines.values()) {
    hourly += each.price || 0;
    if (each.capacityType === "spot") spot += each.price || 0;
  }
  for (const pod of state.pods.values()) if (!pod[1]) waiting += 1;
  return { hourly, spot, machines: state.machines.size, running: state.pods.size - waiting, waiting };
}

export const dollars = (amount) =>
  amount.toLocaleString("en-US", { style: "currency", currency: "USD", minimumFractionDigits: 2, maximumFractionDigits: 2 });
export const hourly = (amount) => `$${amount < 1 ? amount.toFixed(4) : amount.toFixed(2)}`;
export const clock = (time) => new Date(time).toISOString().slice(0, 19).replace("T", " ") + " Z";
export const cores = (milli) => (milli % 1000 ? (milli / 1000).toFixed(1) : String(milli / 1000));
export const gib = (mib) => `${(mib / 1024).toFixed(mib < 10240 ? 1 : 0)} GiB`;

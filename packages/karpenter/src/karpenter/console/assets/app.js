// The page: reads the document, follows a live cluster, and connects the views with pointer and keys.

import { ClusterMap } from "./map.js";
import { HOURS_A_MONTH, Model, clock, dollars, hourly, plain } from "./model.js";
import { Money } from "./money.js";
import { Detail, make, showDecisions, showFeed, showWhatIf } from "./views.js";

const $ = (id) => document.getElementById(id);
const VIEWS = ["map", "decisions", "whatif", "money"];
const TOLD = {
  cpu: "requested by pods, of what all machines have", memory: "requested by pods, of what all machines have", spot: "of the bill",
  "gap to bound": "how far the bill is above what any plan must cost, at most",
};
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

class App {
  constructor(doc) {
    this.model = new Model(doc);
    this.map = new ClusterMap($("map"), this.model, (found) => this.select(found));
    this.detail = new Detail($("detail"), this);
    this.money = new Money($("view-money"), this);
    this.view = "map";
    this.model.listeners.push((what) => this.changed(what));
    $("title").textContent = plain(doc.title);
    document.title = `${plain(doc.title)} · karpenter`;
    $("loading").hidden = true;
    $("tab-whatif").hidden = !this.can("whatif");
    this.remarks(doc);
    this.bind();
    // A plan opens on what it comes to, a live cluster on what is now, a record on its beginning.
    if (this.model.last && doc.mode !== "record") this.model.go(this.model.last);
    else this.changed("state", false);
  }

  can(what) { return Boolean(this.model.doc.features[what]); }
  status(text) { $("status").textContent = text; }

  /** Say whether the cluster is shown as it is now; asOf is when it answered last, if it does not now. */
  fresh(told) {
    clearInterval(this.ageing);
    this.freshness = told;
    $("status").title = told.problem;
    $("status").classList.toggle("stale", Boolean(told.asOf));
    if (!told.asOf) { this.status("live"); return; }
    const tell = () => this.status(`not live: as of ${Math.round((Date.now() - Date.parse(told.asOf)) / 1000)} s ago`);
    tell();
    this.ageing = setInterval(tell, 1000);
  }

  // Those of a live cluster are short, and change to "live" once it answers.
  remarks(doc) {
    const told = doc.remarks || [], listed = doc.mode === "plan" && told.length > 0;
    this.status(told.length && !listed ? told.join(" ") : doc.mode);
    $("remarks").replaceChildren(...told.map((text) => make("li", {}, text)));
    $("remarks").hidden = !listed;
  }

  // What the server is asked

  get at() { return this.model.live ? "" : new Date(this.model.time).toISOString(); }

  async why(target) {
    const known = this.model.doc.answers[target];
    if (known) return known;
    if (!this.can("why")) return { error: `This page was saved; ask with: karpenter why ${target}` };
    return fetched(`why?object=${encodeURIComponent(target)}&at=${encodeURIComponent(this.at)}`);
  }

  async poolDetails(name) {
    const known = this.model.doc.poolDetails[name];
    if (known) return known;
    if (!this.can("why")) return { error: "This page was saved without it." };
    return fetched(`pool?name=${encodeURIComponent(name)}&at=${encodeURIComponent(this.at)}`);
  }

  /** What workloads cost at the moment that is shown; of a saved page, at the nearest moment that is in it. */
  async costs() {
    const { model } = this, saved = Object.keys(model.doc.costs).map(Number);
    if (!saved.length && !this.can("why")) return { error: "This page was saved without costs." };
    if (!saved.length) return fetched(`costs?at=${model.live && model.index === model.last ? "" : encodeURIComponent(new Date(model.time).toISOString())}`);
    const near = saved.sort((a, b) => Math.abs(a - model.index) - Math.abs(b - model.index))[0];
    return { ...model.doc.costs[near], frames: near };
  }

  async tryWhatIf() {
    const place = $("whatif-answer");
    place.replaceChildren(make("p", { class: "quiet" }, "planning…"));
    const found = await fetched(`whatif?at=${encodeURIComponent(this.at)}`, {
      method: "POST", headers: { "Content-Type": "application/yaml" }, body: $("manifest").value,
    });
    showWhatIf(place, found);
  }

  async edit(name) {
    if (this.view !== "whatif") this.show("whatif");
    this.fillPools();
    if (name) $("whatif-pool").value = name;
    const details = await this.poolDetails($("whatif-pool").value);
    if (!details.error) $("manifest").value = details.manifest;
  }

  fillPools() {
    const names = [...this.model.state.pools.keys()].sort();
    const select = $("whatif-pool"), chosen = select.value;
    select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    if (names.includes(chosen)) select.value = chosen;
  }

  // What changes

  changed(what, animate = true) {
    if (what === "state") {
      this.map.update(animate);
      this.figures();
      this.legend();
      if (this.detail.shown && this.detail.shown.kind === "machine" && !this.model.live) this.detail.show(this.detail.shown);
    }
    this.timeBar();
    this.refresh();
  }

  refresh() {
    const { model } = this;
    if (this.view === "money") return this.money.show();
    // Rows stay as they are while nothing of them changes, so that they keep the focus and can be selected.
    const shown = `${this.view}/${model.decided}/${model.live && model.index === model.last ? "now" : model.index}/${$("filter-kind").value}/${$("filter-text").value}`;
    if (shown === this.shownRows) return undefined;
    this.shownRows = shown;
    if (this.view === "map") showFeed($("feed-list"), model, (row) => this.chose(row));
    else if (this.view === "decisions") showDecisions($("view-decisions"), model, (row) => this.chose(row));
    return undefined;
  }

  figures() {
    const { bill, plan, used } = this.model;
    const gap = plan && plan.bound ? `${((plan.hourly / plan.bound - 1) * 100).toFixed(1)} %` : "";
    const pairs = [
      ["bill", `${hourly(bill.hourly)}/h · ${dollars(bill.hourly * HOURS_A_MONTH)}/month`], ["machines", bill.machines.toLocaleString("en-US")],
      ["pods", bill.running.toLocaleString("en-US")], ["waiting", bill.waiting.toLocaleString("en-US")],
      ["cpu", bill.machines ? `${Math.round(used.cpu * 100)} %` : ""], ["memory", bill.machines ? `${Math.round(used.memory * 100)} %` : ""],
      ["spot", bill.hourly ? `${Math.round((bill.spot / bill.hourly) * 100)} %` : "0 %"], ["gap to bound", gap],
    ];
    const key = JSON.stringify(pairs);
    if (key === this.figuresKey) return;
    this.figuresKey = key;
    $("figures").replaceChildren(...pairs.filter(([, value]) => value).map(([name, value]) =>
      make("div", { class: name === "bill" ? "first" : "", title: TOLD[name] }, make("dt", {}, name), make("dd", { class: name === "waiting" && bill.waiting ? "bad" : "" }, value))));
  }

  legend() {
    const counts = new Map();
    for (const pod of this.model.state.pods.values()) counts.set(pod[0], (counts.get(pod[0]) || 0) + 1);
    const shown = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 14);
    const key = JSON.stringify([shown, this.map.workload]);
    if (key === this.legendKey) return;
    this.legendKey = key;
    $("legend").replaceChildren(...shown.map(([name, count]) => {
      const chip = make("canvas", { width: 12, height: 12, "aria-hidden": "true" });
      this.swatch(chip.getContext("2d"), name);
      return make("button", {
        type: "button", "aria-pressed": this.map.workload === name ? "true" : "false",
        onclick: () => { this.map.workload = this.map.workload === name ? "" : name; this.legend(); this.map.redraw(); },
      }, chip, `${name} ${count}`);
    }));
  }

  swatch(pen, name) {
    pen.fillStyle = this.model.color(name);
    pen.fillRect(0, 0, 12, 12);
    pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--back");
    const mark = this.model.mark(name);
    if (mark === 1) pen.fillRect(5, 0, 3, 12);
    if (mark === 2) pen.fillRect(0, 0, 5, 5);
  }

  timeBar() {
    const { model } = this;
    $("time").hidden = model.last < 1;
    $("slider").max = String(model.last);
    $("slider").value = String(model.index);
    const frame = model.frames[model.index - 1];
    const title = (frame && frame.title) || (model.doc.mode === "plan" && !model.index ? "as it is" : clock(model.time));
    $("moment").textContent = plain(title);
    $("slider").setAttribute("aria-valuetext", plain(title));
    const key = `${model.last}/${model.decisions.length}`;
    if (key !== this.marksKey) this.marks(key);
  }

  marks(key) {
    this.marksKey = key;
    const { model } = this;
    if (model.doc.mode === "plan" || !model.last) return;
    const place = (time) => {
      let index = model.times.findIndex((each) => each >= time);
      if (index < 0) index = model.last;
      return `${(index / model.last) * 100}%`;
    };
    const rows = model.decisions.filter((row) => row.kind !== "event").slice(-600);
    $("marks").replaceChildren(...rows.map((row) => {
      const mark = make("i", { class: row.kind, title: row.title });
      mark.style.left = place(Date.parse(row.at));
      return mark;
    }));
  }

  // What people do

  select(found) {
    this.map.marked = null;
    if (!found) {
      this.detail.close();
      this.map.selected = null;
    } else {
      if (found.kind === "machine") this.map.choose(found.name);
      this.detail.show(found);
    }
    $("feed").hidden = Boolean(found);
    this.map.request();
  }

  chose(row) {
    if (this.model.doc.mode !== "plan" && !this.model.live) this.model.goTo(Date.parse(row.at));
    const names = new Set(row.machines || []);
    for (const pod of row.pods || []) {
      const known = this.model.state.pods.get(pod);
      if (known && known[1]) names.add(known[1]);
    }
    this.map.marked = [...names].map((name) => this.nodeOf(name));
    if (this.view !== "map") this.enter("map");
    this.map.request();
  }

  nodeOf(name) {
    if (this.model.state.machines.has(name)) return name;
    for (const each of this.model.state.machines.values()) if (each.node === name) return each.name;
    return name;
  }

  open(name) {
    this.show(name);
    if (name === "whatif" && !$("manifest").value) this.edit("");
  }

  /** Show a view, and have the keys go there. */
  enter(name) {
    if ($(`tab-${name}`).hidden) return;
    this.open(name);
    const place = { map: $("map"), decisions: document.querySelector("#decisions tbody tr") }[name] || $(`view-${name}`);
    place.focus({ preventScroll: true });
  }

  show(name) {
    this.view = name;
    for (const each of VIEWS) {
      $(`view-${each}`).hidden = each !== name;
      $(`tab-${each}`).setAttribute("aria-selected", each === name ? "true" : "false");
      $(`tab-${each}`).tabIndex = each === name ? 0 : -1;
    }
    if (name === "map") this.map.resize();
    if (name === "whatif") this.fillPools();
    this.refresh();
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) {
      this.map.matches = null;
      return this.map.redraw();
    }
    const machines = new Set(), workloads = new Set();
    for (const each of this.model.state.machines.values()) {
      if (`${each.name} ${each.node} ${each.type} ${each.zone} ${each.pool} ${each.capacityType} ${each.state}`.toLowerCase().includes(wanted)) machines.add(each.name);
    }
    for (const [key, pod] of this.model.state.pods) {
      if (key.toLowerCase().includes(wanted) || pod[0].toLowerCase().includes(wanted)) {
        workloads.add(pod[0]);
        if (pod[1] && key.toLowerCase().includes(wanted)) machines.add(pod[1]);
      }
    }
    this.map.matches = { machines, workloads };
    $("announce").textContent = `${machines.size} machines`;
    return this.map.redraw();
  }

  found() {
    const wanted = $("search").value.trim().toLowerCase();
    if (this.model.state.pools.has(wanted)) return { kind: "pool", name: wanted };
    for (const key of this.model.state.pods.keys()) if (key.toLowerCase() === wanted || key.split("/")[1] === wanted) return { kind: "pod", name: key };
    const first = this.map.matches && [...this.map.matches.machines][0];
    return first ? { kind: "machine", name: first } : null;
  }

  theme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    this.map.restyle();
    this.legendKey = "";
    this.legend();
  }

  play() {
    if (this.playing) return this.stop();
    if (this.model.index === this.model.last) this.model.go(0);
    $("play").textContent = "■";
    $("play").setAttribute("aria-label", "Stop");
    const step = () => {
      if (this.model.index >= this.model.last) return this.stop();
      this.model.go(this.model.index + 1);
      this.playing = setTimeout(step, this.pause());
      return undefined;
    };
    this.playing = setTimeout(step, 50);
    return undefined;
  }

  /** How long a frame stays: as long as it took, within what people want to wait. */
  pause() {
    const { times, index } = this.model;
    const gap = index < this.model.last ? times[index + 1] - times[index] : 1000;
    return Math.max(250, Math.min(3000, gap / 8)) / Number($("speed").value) + 60;
  }

  stop() {
    clearTimeout(this.playing);
    this.playing = null;
    $("play").textContent = "▶";
    $("play").setAttribute("aria-label", "Play");
  }

  bind() {
    for (const name of VIEWS) $(`tab-${name}`).addEventListener("click", () => this.open(name));
    document.querySelector("nav").addEventListener("keydown", (event) => this.tabKey(event));
    $("theme").addEventListener("click", () => this.theme());
    $("help").addEventListener("click", () => this.help());
    $("search").addEventListener("input", (event) => this.search(event.target.value));
    $("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter") { this.open("map"); const found = this.found(); if (found) this.select(found); }
    });
    $("slider").addEventListener("input", (event) => { this.stop(); this.model.go(Number(event.target.value)); });
    $("play").addEventListener("click", () => this.play());
    $("filter").addEventListener("input", () => this.refresh());
    $("filter").addEventListener("submit", (event) => event.preventDefault());
    $("whatif-pool").addEventListener("change", (event) => this.edit(event.target.value));
    $("whatif").addEventListener("submit", (event) => { event.preventDefault(); this.tryWhatIf(); });
    $("manifest").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.tryWhatIf(); });
    $("map").addEventListener("keydown", (event) => this.mapKey(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.map.restyle());
    document.addEventListener("keydown", (event) => this.key(event));
  }

  help() {
    $("keys").hidden = !$("keys").hidden;
    $("help").setAttribute("aria-expanded", $("keys").hidden ? "false" : "true");
  }

  tabKey(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.target.getAttribute("role") !== "tab") return;
    const names = VIEWS.filter((name) => !$(`tab-${name}`).hidden);
    const next = names[(names.indexOf(this.view) + by + names.length) % names.length];
    this.open(next);
    $(`tab-${next}`).focus();
  }

  mapKey(event) {
    const arrow = ARROWS[event.key];
    if (arrow) {
      event.preventDefault();
      if (event.shiftKey) this.map.pan(-arrow[0] * 60, -arrow[1] * 60);
      else $("announce").textContent = this.map.step(...arrow) || $("announce").textContent;
    } else if (event.key === "Enter" && this.map.selected) {
      this.select({ kind: "machine", name: this.map.selected });
    }
  }

  key(event) {
    if (event.key === "Escape") return this.escape(event);
    if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    const actions = {
      "/": () => $("search").focus(), "+": () => this.map.zoom(1.3), "=": () => this.map.zoom(1.3), "-": () => this.map.zoom(1 / 1.3),
      0: () => this.map.fit(), ",": () => { this.stop(); this.model.go(this.model.index - 1); }, ".": () => { this.stop(); this.model.go(this.model.index + 1); },
      t: () => this.theme(), "?": () => this.help(),
      e: () => { if (this.view === "whatif") $("manifest").focus(); },
    };
    VIEWS.forEach((name, number) => { actions[number + 1] = () => this.enter(name); });
    if (event.target === document.body && this.view === "map") this.mapKey(event);
    if (event.target.tagName !== "BUTTON" && this.model.last) actions[" "] = () => this.play();
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
    return undefined;
  }

  escape(event) {
    if (!$("keys").hidden) return this.help();
    if (event.target.id === "search") {
      $("search").value = "";
      this.search("");
    } else if (isTyping(event.target)) {
      return this.enter(this.view);
    }
    if (isTyping(event.target)) this.enter(this.view);
    return this.select(null);
  }
}

const isTyping = (target) => /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && target.type !== "range";

async function fetched(path, options = {}) {
  try {
    const response = await fetch(path, options);
    return await response.json();
  } catch {
    return { error: "The server does not answer any more: karpenter console has ended." };
  }
}

function follow(app) {
  const source = new EventSource(`events?since=${app.model.doc.revision}`);
  source.addEventListener("frame", (event) => app.model.push(JSON.parse(event.data)));
  source.addEventListener("decision", (event) => { app.model.decide(JSON.parse(event.data)); app.model.changed("more"); });
  source.addEventListener("plan", (event) => {
    app.model.plans.push(JSON.parse(event.data));
    app.model.plans.sort((a, b) => (a.at < b.at ? -1 : 1));
    if (app.model.live && app.model.plans.length > 500) app.model.plans.shift();
    app.figures();
    app.refresh();
  });
  source.addEventListener("again", () => location.reload());
  source.addEventListener("error", () => app.status("The server does not answer."));
  source.addEventListener("freshness", (event) => app.fresh(JSON.parse(event.data)));
  source.addEventListener("open", () => { if (app.model.live) app.fresh(app.freshness || app.model.doc.freshness); });
}

async function begin() {
  const saved = $("document");
  const doc = saved ? JSON.parse(saved.textContent) : await fetched("document");
  if (doc.error) {
    $("loading").textContent = doc.error;
    return;
  }
  const app = new App(doc);
  globalThis.karpenterConsole = app;
  if (!saved) follow(app);
  $("map").focus();
}

begin();

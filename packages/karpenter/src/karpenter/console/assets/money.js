// The money: who pays for the bill, how it went, and what it is made of.

import { HOURS_A_MONTH, cores, dollars, gib, hourly } from "./model.js";
import { make, table } from "./views.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 220;
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE,
  HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY, 28 * DAY];
const SHOWN_SHARES = 100;
const TABLES = [["namespaces", "Namespace"], ["workloads", "Workload"], ["teams", "Label"]];
const RULE = "The price of a machine is divided among its cpu, memory and GPUs, and each part among its pods by what they request. "
  + "Overhead is what DaemonSets request, idle what no pod requests. Shares, overhead and idle add up to the bill.";

const percent = (share) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;

export class Money {
  constructor(place, app) {
    this.app = app;
    this.place = place;
    this.by = "namespaces";
    this.asked = 0;
    this.cards = make("div", { class: "cards" });
    this.choices = make("div", { class: "choices", role: "group", "aria-label": "Costs by" }, ...TABLES.map(([name, label]) =>
      make("button", { type: "button", id: `by-${name}`, onclick: () => { this.by = name; this.showCosts(); } }, label)));
    this.shares = make("div", { id: "costs" });
    this.curve = make("div", { id: "curve" });
    this.parts = make("div", { class: "split" });
    place.replaceChildren(this.cards,
      make("div", { class: "heading" }, make("h2", {}, "Cost by"), this.choices), this.shares, make("p", { class: "quiet rule" }, RULE),
      make("h2", {}, "Bill over time"), this.curve, this.parts);
    new ResizeObserver(() => this.showCurve()).observe(this.curve);
  }

  show() {
    this.showCards();
    this.showCurve();
    this.showParts();
    this.ask();
  }

  /** Ask for the costs of the moment that is shown: one question at a time, and of a live cluster no more than one a second. */
  async ask() {
    const { model } = this.app;
    const wanted = `${model.index}/${model.last}/${model.time}`;
    if (this.asking || wanted === this.answered) return;
    this.asking = true;
    const found = await this.app.costs();
    if (found.error) this.shares.replaceChildren(make("p", { class: "quiet" }, found.error));
    else {
      this.found = found;
      this.showCosts();
      this.showCards();
    }
    this.answered = wanted;
    setTimeout(() => {
      this.asking = false;
      if (this.app.view === "money") this.ask();
    }, model.live ? 1000 : 0);
  }

  showCards() {
    const { model } = this.app, { bill, plan } = model, costs = this.found;
    const planned = model.doc.mode === "plan";
    const taken = model.decisions.filter((row) => row.realized && row.time <= model.time + 1).reduce((sum, row) => sum - row.hourly, 0);
    const saves = [...model.state.machines.values()].reduce((sum, each) => sum + (each.spotSaves || 0), 0);
    const share = (amount) => (bill.hourly ? `, ${percent(amount / bill.hourly)}` : "");
    const card = (name, value, ...text) => make("div", { class: "card" }, make("span", {}, name), make("b", {}, value), make("span", {}, ...text));
    this.cards.replaceChildren(
      card("Bill", dollars(bill.hourly * HOURS_A_MONTH), `a month · ${hourly(bill.hourly)} an hour`),
      card("Idle", costs ? dollars(costs.idle.monthly) : "…", `a month that no pod requests${costs ? share(costs.idle.hourly) : ""}`),
      card("Overhead", costs ? dollars(costs.overhead.monthly) : "…", `a month for DaemonSets${costs ? share(costs.overhead.hourly) : ""}`),
      card("Next saving", plan ? dollars(plan.saving * HOURS_A_MONTH) : "not known", "a month, by the next decision"),
      card("Least possible", plan && plan.bound != null ? dollars(plan.bound * HOURS_A_MONTH) : "not known",
        plan && plan.bound ? `a month; the bill is ${percent(plan.hourly / plan.bound - 1)} above it at most` : "a month that any plan must cost"),
      card("Spot", bill.hourly ? percent(bill.spot / bill.hourly) : percent(0), `of the bill; saves ${dollars(saves * HOURS_A_MONTH)} a month`),
      planned ? "" : card("Saved", dollars(taken * HOURS_A_MONTH), "a month, by decisions that were carried out"));
  }

  showCosts() {
    const costs = this.found;
    if (!costs) return;
    const { model } = this.app;
    for (const [name, label] of TABLES) {
      const button = this.choices.querySelector(`#by-${name}`);
      button.setAttribute("aria-pressed", this.by === name ? "true" : "false");
      button.textContent = name === "teams" ? `${label} ${costs.teamLabel}` : label;
    }
    const all = costs.total.monthly || 1, rows = costs[this.by];
    const unnamed = this.by === "teams" ? `without the label ${costs.teamLabel}` : "none";
    const most = Math.max(...rows.map((each) => each.monthly), costs.idle.monthly, costs.overhead.monthly, 0.01);
    const line = (name, amount, kind, pods = "", cpu = "", memory = "") => [
      make("span", { class: kind }, name), bar(amount / most, kind), dollars(amount), percent(amount / all), pods, cpu, memory];
    const named = (each) => line(each.name || unnamed, each.monthly, each.name ? "" : "quiet",
      each.pods.toLocaleString("en-US"), `${cores(each.cpu)}${each.gpus ? ` + ${each.gpus} GPU` : ""}`, gib(each.memory));
    const shown = rows.slice(0, SHOWN_SHARES), rest = rows.slice(SHOWN_SHARES);
    const left = rest.reduce((sum, each) => sum + each.monthly, 0);
    const nothing = this.by === "teams" && rows.every((each) => !each.name);
    this.shares.replaceChildren(
      nothing ? make("p", { class: "quiet" }, `No pod and no namespace has the label ${costs.teamLabel}; karpenter console --team-label names another.`) : "",
      table([this.choices.querySelector("[aria-pressed=true]").textContent, "", "a month", "of the bill", "pods", "cpu", "memory"], [
        ...shown.map(named),
        ...(rest.length ? [line(`${rest.length} more`, left, "quiet")] : []),
        line("idle", costs.idle.monthly, "idle"), line("overhead: DaemonSets", costs.overhead.monthly, "overhead"),
        [make("b", {}, "bill"), "", make("b", {}, dollars(costs.total.monthly)), "100 %", "", "", ""],
      ], 5, [1, 4, 5, 6]),
      costs.unpriced ? make("p", { class: "quiet" }, `${costs.unpriced} machines have no known price and are not in it.`) : "",
      costs.frames !== undefined && costs.frames !== model.index ? make("p", { class: "quiet" }, `As of ${time(model.times[costs.frames], DAY)} ${time(model.times[costs.frames], SECOND)} UTC, the nearest moment that was saved.`) : "");
  }

  showCurve() {
    const { model } = this.app;
    if (model.doc.mode === "plan") return this.curve.replaceChildren(planned(model));
    const width = Math.round(this.curve.clientWidth);
    if (width) this.curve.replaceChildren(curve(model, width));
    return undefined;
  }

  showParts() {
    const { model } = this.app;
    const part = (title, keyOf) => make("div", {}, make("h2", {}, title), machineShares(model, keyOf));
    this.parts.replaceChildren(part("By NodePool", (each) => each.pool || "none"), part("By zone", (each) => each.zone || "not known"),
      part("By instance type", (each) => each.type || "not known"), part("By capacity type", (each) => each.capacityType || "not known"));
  }
}

function bar(share, kind) {
  const filled = make("i", { class: kind });
  filled.style.width = `${Math.max(0, Math.min(100, share * 100)).toFixed(1)}%`;
  return make("div", { class: "bar", "aria-hidden": "true" }, filled);
}

function machineShares(model, keyOf) {
  const groups = new Map();
  for (const each of model.state.machines.values()) {
    const group = groups.get(keyOf(each)) || { count: 0, price: 0, spot: 0, saves: 0 };
    group.count += 1;
    group.price += each.price || 0;
    if (each.capacityType === "spot") group.spot += each.price || 0;
    group.saves += each.spotSaves || 0;
    groups.set(keyOf(each), group);
  }
  const all = model.bill.hourly || 1, spot = model.bill.spot || 1;
  const rows = [...groups].sort((a, b) => b[1].price - a[1].price).slice(0, 15).map(([name, group]) =>
    [name, String(group.count), dollars(group.price * HOURS_A_MONTH), percent(group.price / all), percent(group.spot / spot), dollars(group.saves * HOURS_A_MONTH)]);
  return table(["", "machines", "a month", "of the bill", "of spot", "spot saves"], rows, 5, [4, 5]);
}

/** The bill of each moment of a plan, which has no time between them. */
function planned(model) {
  const names = ["as it is", ...model.frames.map((frame) => frame.title)];
  const most = Math.max(...model.bills.map((each) => each.hourly), 0.0001);
  return table(["", "", "machines", "a month", "an hour"], model.bills.map((bill, place) =>
    [names[place], bar(bill.hourly / most, ""), String(bill.machines), dollars(bill.hourly * HOURS_A_MONTH), hourly(bill.hourly)]), 3);
}

// The curve

function svg(tag, facts, text = "") {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(facts)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  return node;
}

/** A moment as precise as its step: the day, hours and minutes, or seconds too. In UTC, as everywhere on the page. */
function time(moment, step) {
  const text = new Date(moment).toISOString();
  return step >= DAY ? text.slice(5, 10) : step >= MINUTE ? text.slice(11, 16) : text.slice(11, 19);
}

function rounded(most) {
  const unit = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 2.5, 5, 10].map((each) => each * unit).find((each) => each >= most / 4);
}

function curve(model, width) {
  const left = 58, right = 14, bottom = 36, top = 10;
  const first = model.times[0], last = Math.max(model.times[model.last], first + SECOND);
  const most = Math.max(...model.bills.map((each) => each.hourly), ...model.plans.map((each) => each.hourly), 0.001) * 1.05;
  const x = (at) => left + ((at - first) / (last - first)) * (width - left - right);
  const y = (amount) => top + (1 - amount / most) * (HEIGHT - top - bottom);
  const frame = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `Bill over time, in dollars an hour; now ${hourly(model.bill.hourly)}` });
  const unit = rounded(most);
  for (let amount = 0; amount <= most; amount += unit) {
    frame.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: y(amount), y2: y(amount) }),
      svg("text", { x: left - 6, y: y(amount) + 4, "text-anchor": "end" }, `$${amount.toFixed(unit < 0.1 ? 3 : 2)}`));
  }
  const step = STEPS.find((each) => ((width - left - right) * each) / (last - first) >= 76) || STEPS[STEPS.length - 1];
  let day = "";
  for (let at = Math.ceil(first / step) * step; at <= last; at += step) {
    frame.append(svg("line", { class: "tick", x1: x(at), x2: x(at), y1: HEIGHT - bottom, y2: HEIGHT - bottom + 5 }),
      svg("text", { x: x(at), y: HEIGHT - bottom + 16, "text-anchor": "middle" }, time(at, step)));
    if (step < DAY && day !== time(at, DAY)) {
      day = time(at, DAY);
      frame.append(svg("text", { x: x(at), y: HEIGHT - bottom + 30, "text-anchor": "middle" }, `${day} UTC`));
    }
  }
  for (const row of model.decisions) {
    if (row.kind === "fault" && row.time >= first && row.time <= last) {
      const line = svg("line", { class: "mark-fault", x1: x(row.time), x2: x(row.time), y1: top, y2: HEIGHT - bottom });
      line.append(svg("title", {}, row.title));
      frame.append(line);
    }
  }
  const steps = (key) => model.times.map((at, i) => `${i ? `H${x(at)}V` : `M${x(at)} `}${y(model.bills[i][key])}`).join("") + `H${x(last)}`;
  const area = (key) => `${steps(key)}V${y(0)}H${x(first)}Z`;
  frame.append(svg("path", { class: "area-bill", d: area("hourly") }), svg("path", { class: "area-spot", d: area("spot") }), svg("path", { class: "line-bill", d: steps("hourly") }));
  const bounds = model.plans.filter((each) => each.bound != null).map((each) => [Math.max(first, Math.min(Date.parse(each.at), last)), each.bound]);
  if (model.live && bounds.length > 1) frame.append(svg("path", { class: "line-bound", d: bounds.map(([at, least], i) => `${i ? "L" : "M"}${x(at)} ${y(least)}`).join("") }));
  for (const [at, least] of model.live ? bounds.slice(-1) : bounds) {
    const dot = svg("circle", { class: "dot-bound", cx: x(at), cy: y(least), r: 3.5 });
    dot.append(svg("title", {}, `no plan can cost less than ${hourly(least)} an hour`));
    frame.append(dot);
  }
  frame.append(svg("line", { class: "now", x1: x(model.time), x2: x(model.time), y1: top, y2: HEIGHT - bottom }));
  const key = (name, text) => make("span", {}, make("i", { class: name }), text);
  return make("figure", {}, make("figcaption", {}, key("key-bill", "dollars an hour"), key("key-spot", "the part that is spot"),
    bounds.length ? key("key-bound", "no plan can cost less") : ""), frame);
}

// The views beside the map: details with the answer of `karpenter why`, decisions, what-if, and the money.

import { HOURS_A_MONTH, clock, cores, dollars, gib, hourly } from "./model.js";

const SHOWN_ROWS = 500;
const SYMBOLS = { provision: "+", disrupt: "−", event: "·", fault: "▼" };
const SVG = "http://www.w3.org/2000/svg";

export function make(tag, facts = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((each) => each !== null && each !== undefined && each !== ""));
  return node;
}

function svg(tag, facts, text = "") {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(facts)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  return node;
}

const facts = (pairs) => make("dl", { class: "facts" }, ...pairs.filter(([, value]) => value !== "" && value != null)
  .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

const list = (items) => (items && items.length ? make("ul", {}, ...items.map((each) => make("li", {}, each))) : "");

function meter(share, label) {
  const bar = make("div");
  bar.style.width = `${Math.min(100, Math.round(share * 100))}%`;
  return make("div", { class: "meter", role: "meter", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(share * 100), "aria-label": label }, bar);
}

// Details

export class Detail {
  constructor(panel, app) {
    this.panel = panel;
    this.app = app;
    this.shown = null;
  }

  close() {
    this.shown = null;
    this.panel.hidden = true;
    this.panel.replaceChildren();
  }

  show(found) {
    this.shown = found;
    this.panel.hidden = false;
    const { model } = this.app;
    const close = make("button", { class: "close", type: "button", "aria-label": "Close", onclick: () => this.app.select(null) }, "×");
    const answer = make("div", { class: "why", "aria-live": "polite" });
    if (found.kind === "machine") this.machine(model.state.machines.get(found.name), close, answer);
    else if (found.kind === "pod") this.pod(found.name, model.state.pods.get(found.name), close, answer);
    else this.pool(found.name, close, answer);
    this.panel.parentElement.scrollTop = 0;
  }

  machine(machine, close, answer) {
    if (!machine) return this.panel.replaceChildren(close, make("p", {}, "It is not there at this moment."));
    const { model } = this.app;
    const pods = model.pods.get(machine.name) || [];
    const use = model.use(machine);
    this.panel.replaceChildren(close, make("h2", {}, machine.node || machine.name), facts([
      ["instance type", machine.type], ["zone", machine.zone], ["capacity type", machine.capacityType],
      ["NodePool", machine.pool ? make("button", { type: "button", onclick: () => this.app.select({ kind: "pool", name: machine.pool }) }, machine.pool) : ""],
      ["state", machine.state],
      ["price", machine.price == null ? "not known" : `${hourly(machine.price)} an hour, ${dollars(machine.price * HOURS_A_MONTH)} a month`],
      ["bought for", machine.requested], ["disrupted because", machine.reason],
      ["created", machine.created ? clock(Date.parse(machine.created)) : ""],
    ]), make("h3", {}, `cpu ${Math.round(use.cpu * 100)} % of ${cores(machine.cpu)}`), meter(use.cpu, "cpu"),
    make("h3", {}, `memory ${Math.round(use.memory * 100)} % of ${gib(machine.memory)}`), meter(use.memory, "memory"),
    make("h3", {}, "Why"), answer, make("h3", {}, `${pods.length} pods`), this.podList(pods));
    if (machine.state === "planned") return this.planned(answer, machine.name);
    return this.ask(answer, machine.node ? `node/${machine.node}` : `nodeclaim/${machine.claim}`);
  }

  nodeOf(name) {
    const machine = this.app.model.state.machines.get(name);
    return (machine && machine.node) || name;
  }

  planned(answer, name) {
    const row = this.app.model.decisions.find((each) => (each.machines || []).includes(name));
    answer.replaceChildren(make("p", { class: "answer" }, row ? `${row.title}: ${row.because}` : "The plan launches it."));
  }

  podList(pods) {
    const box = make("div", { class: "pods" });
    for (const [key, pod] of pods.slice(0, 200)) {
      const button = make("button", { type: "button", onclick: () => this.app.select({ kind: "pod", name: key }) },
        `${key} · ${cores(pod[2])} cpu · ${gib(pod[3])}${pod[4] === "running" ? "" : ` · ${pod[4]}`}`);
      button.style.borderLeftColor = this.app.model.color(pod[0]);
      box.append(button);
    }
    return box;
  }

  pod(key, pod, close, answer) {
    if (!pod) return this.panel.replaceChildren(close, make("p", {}, "It is not there at this moment."));
    this.panel.replaceChildren(close, make("h2", {}, `pod ${key}`), facts([
      ["workload", pod[0]], ["state", pod[4]], ["requests", `${cores(pod[2])} cpu, ${gib(pod[3])}`],
      ["node", pod[1] ? make("button", { type: "button", onclick: () => this.app.select({ kind: "machine", name: pod[1] }) }, this.nodeOf(pod[1])) : "none yet"],
    ]), make("h3", {}, "Why"), answer);
    return this.ask(answer, `pod/${key}`);
  }

  async pool(name, close, answer) {
    const limits = make("div");
    this.panel.replaceChildren(close, make("h2", {}, `NodePool ${name}`), make("h3", {}, "Why"), answer, limits);
    this.ask(answer, `nodepool/${name}`);
    const found = this.shown;
    const details = await this.app.poolDetails(name);
    if (this.shown !== found) return;
    if (details.error) return limits.replaceChildren(make("p", { class: "quiet" }, details.error));
    limits.replaceChildren(
      make("h3", {}, "Limits"), Object.keys(details.limits).length ? facts(Object.entries(details.limits)) : make("p", { class: "quiet" }, "It has none."),
      make("h3", {}, "Budgets"), list(details.budgets) || make("p", { class: "quiet" }, "It has none."),
      facts(Object.entries(details.allowed).map(([reason, count]) => [`may go now, ${reason}`, String(count)])),
      details.opens ? make("p", {}, `The budgets let a machine go next at ${details.opens}.`) : "",
      make("h3", {}, `It may buy ${details.types} instance types in ${details.offerings} offerings`),
      table(["type", "zone", "cpu, memory", "$ an hour"], details.cheapest.map((each) =>
        [each.type, `${each.zone} ${each.capacityType}`, `${each.cpu}, ${each.memory}`, hourly(each.price)])),
      this.app.can("whatif") ? make("p", {}, make("button", { type: "button", onclick: () => this.app.edit(name) }, "What if it were different?")) : "");
  }

  async ask(place, target) {
    const found = this.shown;
    place.replaceChildren(make("p", { class: "quiet" }, "asking…"));
    const answer = await this.app.why(target);
    if (this.shown === found) place.replaceChildren(...explained(answer));
  }
}

export function explained(answer) {
  if (answer.error) return [make("p", { class: "quiet" }, answer.error)];
  const misses = (answer.nodePools || []).map((miss) =>
    `NodePool ${miss.nodePool}: ${miss.message}${miss.nearest ? ` (${miss.nearest})` : ""}`);
  const changes = (answer.changes || []).map((each) => `${each.change}: it would go to ${each.result}`);
  return [
    make("p", { class: "answer" }, answer.answer), list(answer.because), list(misses),
    changes.length ? make("p", {}, "One of these changes would let it in:") : "", list(changes),
    !answer.placed && !changes.length && answer.object.startsWith("pod/") ? make("p", {}, "No single change that was tried would let it in.") : "",
  ].filter((each) => each);
}

function table(head, rows, numbers = 1) {
  const count = head.length;
  const cell = (tag, value, place) => make(tag, place >= count - numbers ? { class: "number" } : {}, value);
  return make("table", {}, make("thead", {}, make("tr", {}, ...head.map((each, place) => cell("th", each, place)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((each, place) => cell("td", each, place))))));
}

// Decisions

export function monthly(row) {
  if (!row.hourly) return "";
  const amount = row.hourly * HOURS_A_MONTH;
  return `${amount > 0 ? "+" : "−"}${dollars(Math.abs(amount))}`;
}

export function showFeed(place, model, choose) {
  const until = model.live && model.index === model.last ? Infinity : model.time + 1;
  const rows = model.decisions.filter((each) => Date.parse(each.at) <= until).slice(-40).reverse();
  const items = rows.map((row) => make("li", {}, make("button", { type: "button", onclick: () => choose(row) },
    make("span", { class: "at" }, clock(Date.parse(row.at)).slice(11, 19)),
    make("span", { class: `kind ${row.kind}`, "aria-label": row.kind }, SYMBOLS[row.kind]), ` ${row.title} `,
    make("span", { class: row.hourly < 0 ? "good" : "" }, monthly(row)),
    make("span", { class: "why" }, row.because || ""))));
  place.replaceChildren(...(items.length ? items : [make("li", { class: "quiet" }, "None yet.")]));
}

export function showDecisions(view, model, choose) {
  const kind = view.querySelector("#filter-kind").value;
  const text = view.querySelector("#filter-text").value.toLowerCase();
  const fits = (row) => (!kind || row.kind === kind)
    && (!text || `${row.title} ${row.because} ${(row.machines || []).join(" ")} ${(row.pods || []).join(" ")}`.toLowerCase().includes(text));
  const rows = model.decisions.filter(fits);
  const shown = rows.slice(-SHOWN_ROWS).reverse();
  view.querySelector("#filter-count").textContent = rows.length > shown.length ? `the last ${shown.length} of ${rows.length}` : `${rows.length}`;
  view.querySelector("tbody").replaceChildren(...shown.map((row) => {
    const details = [...(row.details || [])];
    if (row.machines && row.machines.length) details.push(`machines: ${row.machines.slice(0, 8).join(", ")}`);
    const go = () => choose(row);
    return make("tr", {
      tabindex: 0, onclick: go, onkeydown: (event) => { if (event.key === "Enter") go(); },
      "aria-current": Date.parse(row.at) === model.time ? "true" : false,
    },
    make("td", {}, clock(Date.parse(row.at))),
    make("td", {}, make("span", { class: `kind ${row.kind}`, "aria-label": row.kind }, SYMBOLS[row.kind]), ` ${row.title}`),
    make("td", {}, row.because || "", details.length ? make("div", { class: "quiet" }, details.slice(0, 6).join("; ")) : ""),
    make("td", { class: `number ${row.hourly < 0 ? "good" : ""}` }, monthly(row)),
    make("td", { class: "number" }, row.moved ? String(row.moved) : ""));
  }));
}

// What if

export function showWhatIf(place, found) {
  if (found.error) return place.replaceChildren(make("p", { class: "bad" }, found.error));
  if (found.problems.length) {
    return place.replaceChildren(make("h2", {}, "It cannot be used"), make("ul", {}, ...found.problems.map((each) => make("li", { class: "bad" }, each))));
  }
  const { before, after } = found;
  const row = (name, key, render = String) => {
    const by = after[key] - before[key];
    return [name, render(before[key]), render(after[key]), by ? `${by > 0 ? "+" : "−"}${render(Math.abs(by))}` : "="];
  };
  const by = after.monthly - before.monthly;
  const sentence = by ? `${dollars(Math.abs(by))} a month ${by < 0 ? "less" : "more"}` : "The same bill";
  return place.replaceChildren(
    make("h2", {}, `With ${found.pools.length > 1 ? "these NodePools" : `this NodePool ${found.pools[0]}`}`),
    make("p", { class: `answer ${by < 0 ? "good" : by > 0 ? "bad" : ""}` }, `${sentence}.`),
    table(["once the next decision is carried out", "as it is", "with it", "difference"], [
      row("machines", "machines"), row("launched", "launched"), row("removed", "removed"),
      row("dollars an hour", "hourly", hourly), row("dollars a month", "monthly", dollars),
      row("evictions", "evictions"), row("pods without a place", "unscheduled"),
    ], 3),
    found.machines.length ? make("h3", {}, "Machines") : "",
    found.machines.length ? table(["NodePool", "type", "zone", "", "as it is", "with it"],
      found.machines.map((each) => [each.pool, each.type, each.zone, each.capacityType, String(each.before), String(each.after)]), 2)
      : make("p", { class: "quiet" }, "The same machines."),
    found.commands.length ? make("h3", {}, "What disruption would do") : "", list(found.commands),
    found.refusals.length ? make("h3", {}, "Pods that would lose their place") : "", list(found.refusals));
}

// The money

export function showMoney(place, model) {
  const bill = model.bill, plan = model.plan;
  const until = model.time + 1;
  const taken = model.decisions.filter((row) => row.realized && Date.parse(row.at) <= until).reduce((sum, row) => sum - row.hourly, 0);
  const gap = plan && plan.bound ? plan.hourly / plan.bound - 1 : null;
  const card = (value, text) => make("div", { class: "card" }, make("b", {}, value), make("span", {}, text));
  const planned = model.doc.mode === "plan";
  place.replaceChildren(
    make("div", { class: "cards" },
      card(dollars(bill.hourly * HOURS_A_MONTH), `a month, ${hourly(bill.hourly)} an hour`),
      card(plan && plan.bound != null ? dollars(plan.bound * HOURS_A_MONTH) : "not known", "a month: no plan can cost less"),
      card(gap == null ? "not known" : `${(gap * 100).toFixed(1)} %`, "above the proven bound at most"),
      planned ? "" : model.live ? card(dollars((bill.hourly - model.bills[0].hourly) * HOURS_A_MONTH), "a month: change since the first moment")
        : card(dollars(taken * HOURS_A_MONTH), "a month: savings taken"),
      card(plan ? dollars(plan.saving * HOURS_A_MONTH) : "not known", "a month: savings of the next decision"),
      card(bill.hourly ? `${Math.round((bill.spot / bill.hourly) * 100)} %` : "0 %", "of the bill is spot"),
      card(dollars([...model.state.machines.values()].reduce((sum, each) => sum + (each.spotSaves || 0), 0) * HOURS_A_MONTH), "a month: what spot costs less than on-demand")),
    make("h2", {}, "Bill over time"), chart(model),
    make("div", { class: "split" },
      make("div", {}, make("h2", {}, "By NodePool"), shares(model, (each) => each.pool || "none")),
      make("div", {}, make("h2", {}, "By zone"), shares(model, (each) => each.zone || "not known")),
      make("div", {}, make("h2", {}, "By instance type"), shares(model, (each) => each.type || "not known"))));
}

function shares(model, keyOf) {
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
    [name, String(group.count), dollars(group.price * HOURS_A_MONTH), `${Math.round((group.price / all) * 100)} %`, `${Math.round((group.spot / spot) * 100)} %`, dollars(group.saves * HOURS_A_MONTH)]);
  return table(["", "machines", "a month", "of the bill", "of spot", "spot saves"], rows, 5);
}

function chart(model) {
  const width = 900, height = 240, left = 60, bottom = 28, top = 12;
  const frame = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "Bill over time, in dollars an hour" });
  const first = model.times[0], last = Math.max(model.times[model.last], first + 1);
  const most = Math.max(...model.bills.map((each) => each.hourly), ...model.plans.map((each) => each.hourly), 0.0001) * 1.08;
  const x = (time) => left + ((time - first) / (last - first)) * (width - left - 12);
  const y = (amount) => top + (1 - amount / most) * (height - top - bottom);
  for (const part of [0, 0.5, 1]) {
    frame.append(svg("line", { class: "axis", x1: left, x2: width - 12, y1: y(most * part), y2: y(most * part) }),
      svg("text", { x: 6, y: y(most * part) + 4 }, hourly(most * part)));
  }
  for (const [time, anchor] of [[first, "start"], [last, "end"]]) {
    frame.append(svg("text", { x: x(time), y: height - 8, "text-anchor": anchor }, clock(time)));
  }
  for (const row of model.decisions) {
    const at = Date.parse(row.at);
    if (row.kind === "fault" && at >= first && at <= last) {
      const line = svg("line", { class: "mark-fault", x1: x(at), x2: x(at), y1: top, y2: height - bottom });
      line.append(svg("title", {}, row.title));
      frame.append(line);
    }
  }
  const steps = (key) => model.times.map((time, i) => `${i ? `H${x(time)}V` : `M${x(time)} `}${y(model.bills[i][key])}`).join("") + `H${x(last)}`;
  frame.append(svg("path", { class: "area-spot", d: `${steps("spot")}V${y(0)}H${x(first)}Z` }), svg("path", { class: "line-bill", d: steps("hourly") }));
  const bounds = model.plans.filter((each) => each.bound != null).map((each) => [Math.max(first, Math.min(Date.parse(each.at), last)), each.bound]);
  if (model.live && bounds.length > 1) frame.append(svg("path", { class: "line-bound", d: bounds.map(([time, least], i) => `${i ? "L" : "M"}${x(time)} ${y(least)}`).join("") }));
  for (const [time, least] of bounds) {
    const dot = svg("circle", { class: "dot-bound", cx: x(time), cy: y(least), r: 4 });
    dot.append(svg("title", {}, `no plan can cost less than ${hourly(least)} an hour`));
    frame.append(dot);
  }
  frame.append(svg("line", { class: "now", x1: x(model.time), x2: x(model.time), y1: top, y2: height - bottom }));
  return frame;
}

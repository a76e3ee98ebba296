// The views beside the map: details with the answer of `karpenter why`, decisions, and what-if.

import { HOURS_A_MONTH, clock, cores, dollars, gib, hourly, plain } from "./model.js";

const SHOWN_ROWS = 500;
const SYMBOLS = { provision: "+", refused: "!", disrupt: "−", event: "·", fault: "▼" };

export function make(tag, facts = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value === true ? "" : plain(value));
  }
  const shown = children.filter((each) => each !== null && each !== undefined && each !== "");
  node.append(...shown.map((each) => (each instanceof Node ? each : plain(each))));
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
    const others = pod[1] ? 0 : (this.app.model.pods.get("") || []).filter(([, each]) => each[0] === pod[0]).length - 1;
    this.panel.replaceChildren(close, make("h2", {}, `pod ${key}`), facts([
      ["waits too", others ? `${others.toLocaleString("en-US")} more of ${pod[0]}` : ""],
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

/** A table whose last columns are numbers; those in `minor` give way on a narrow screen. */
export function table(head, rows, numbers = 1, minor = []) {
  const count = head.length;
  const kind = (place) => [place >= count - numbers ? "number" : "", minor.includes(place) ? "minor" : ""].join(" ").trim();
  const cell = (tag, value, place) => make(tag, { class: kind(place) }, value);
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
  const rows = model.decisions.filter((each) => each.time <= until).slice(-40).reverse();
  const items = rows.map((row) => make("li", {}, make("button", { type: "button", onclick: () => choose(row) },
    make("span", { class: "at" }, clock(row.time).slice(11, 19)),
    make("span", { class: `kind ${row.kind}`, "aria-label": row.kind }, SYMBOLS[row.kind]), ` ${row.title} `,
    make("span", { class: row.hourly < 0 ? "amount good" : "amount" }, monthly(row)),
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
  const body = view.querySelector("tbody");
  const focused = [...body.children].indexOf(document.activeElement);
  body.replaceChildren(...shown.map((row) => decisionRow(row, model, choose)));
  if (focused >= 0) (body.children[focused] || body.lastElementChild || view).focus();
}

function decisionRow(row, model, choose) {
  const details = [...(row.details || [])];
  if (row.machines && row.machines.length) details.push(`machines: ${row.machines.slice(0, 8).join(", ")}`);
  const beside = (by) => (event) => {
    event.preventDefault();
    const next = by < 0 ? event.currentTarget.previousElementSibling : event.currentTarget.nextElementSibling;
    if (next) next.focus();
  };
  const keys = { Enter: () => choose(row), ArrowUp: beside(-1), ArrowDown: beside(1) };
  return make("tr", {
    tabindex: 0, onclick: () => choose(row), onkeydown: (event) => { if (keys[event.key]) keys[event.key](event); },
    "aria-current": row.time === model.time ? "true" : false,
  },
  make("td", { class: "at" }, clock(row.time)),
  make("td", {}, make("span", { class: `kind ${row.kind}`, "aria-label": row.kind }, SYMBOLS[row.kind]), ` ${row.title}`),
  make("td", {}, row.because || "", details.length ? make("div", { class: "quiet" }, details.slice(0, 6).join("; ")) : ""),
  make("td", { class: `number ${row.hourly < 0 ? "good" : ""}`, "data-unit": row.hourly ? "a month" : false }, monthly(row) || "–"),
  make("td", { class: "number", "data-unit": row.moved ? (row.moved === 1 ? "pod" : "pods") : false }, row.moved ? row.moved.toLocaleString("en-US") : "–"));
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

// The sections on what there is: summary, nodes, pending pods, NodeClaims in flight, disruptions, NodePools.

/** The color of a node's state. */
const PHASES = {
  Ready: "good",
  NotReady: "bad",
  Initializing: "notice",
  Cordoned: "notice",
  Disrupted: "notice",
  Draining: "notice",
  Terminating: "bad",
};

const text = (value) => value ?? "–";

/** Figures of the whole fleet. */
function summarySection() {
  const tiles = element("dl", { class: "tiles" });
  const chart = element("div");
  const root = element("section", { class: "panel summary wide", "aria-label": "Summary" }, tiles, chart);
  byId("main").append(root);
  const tile = (name, value, unit, note, extra = null) =>
    element("div", { class: "tile" }, element("dt", {}, name), element("dd", {}, value, unit ? element("small", {}, unit) : null), element("p", {}, note), extra);
  const useTile = (name, key, totals) => {
    const row = resource(totals.resources, key);
    const note = row ? `${quantity(key, row.used)} of ${quantity(key, row.allocatable)} requested` : "";
    return tile(name, row ? percent(share(row)) : "–", "", note, row ? bar(share(row)) : null);
  };
  return ({ fleet, costs }) => {
    const { totals } = fleet;
    const starting = totals.nodesNotReady > 0 ? `${count(totals.nodesNotReady)} not ready` : "all ready";
    const leaving = totals.nodesDisrupting > 0 ? `, ${count(totals.nodesDisrupting)} leaving` : "";
    const unpriced = totals.nodesWithoutPrice > 0 ? `${counted(totals.nodesWithoutPrice, "node")} without a price` : "list prices";
    tiles.replaceChildren(
      tile("Cost", hourly(totals.hourly), " per hour", unpriced),
      tile("Cost", monthly(totals.hourly), " per month", totals.spotShare === null ? "" : `${percent(totals.spotShare)} of it spot`),
      tile("Nodes", count(totals.nodes), "", starting + leaving),
      useTile("CPU", "cpu", totals),
      useTile("Memory", "memory", totals),
      tile("Pods", count(totals.pods), " running", totals.nodeClaims > 0 ? `${counted(totals.nodeClaims, "NodeClaim")} in flight` : "no NodeClaim in flight"),
      tile(
        "Pending",
        count(totals.podsPending),
        totals.podsPending === 1 ? " pod" : " pods",
        totals.podsUnschedulable > 0 ? element("span", { class: "tag bad" }, `${count(totals.podsUnschedulable)} unschedulable`) : "none unschedulable",
      ),
    );
    chart.replaceChildren(...[costChart(costs)].filter(Boolean));
  };
}

function nodesSection() {
  const filter = element("input", { type: "search", placeholder: "Filter by any column", "aria-label": "Filter nodes by name, type, zone, NodePool or state" });
  const cpu = (node) => resource(node.resources, "cpu");
  const memory = (node) => resource(node.resources, "memory");
  const grid = new Grid(
    [
      { title: "Node", cell: (node) => element("span", { class: "strong", title: node.name }, node.name), value: (node) => node.name },
      { title: "NodePool", cell: (node) => text(node.nodePool), value: (node) => node.nodePool, width: "9%", drop: 1000 },
      { title: "Type", cell: (node) => text(node.instanceType), value: (node) => node.instanceType, width: "11%", drop: 560 },
      { title: "Zone", cell: (node) => text(node.zone), value: (node) => node.zone, width: "9%", drop: 1000 },
      { title: "Capacity", cell: (node) => text(node.capacityType), value: (node) => node.capacityType, width: "104px", drop: 760 },
      { title: "CPU", cell: (node) => use(cpu(node)), value: (node) => share(cpu(node)), width: "13%", bars: true },
      { title: "Memory", cell: (node) => use(memory(node)), value: (node) => share(memory(node)), width: "13%", drop: 560 },
      { title: "Pods", cell: (node) => count(node.pods), value: (node) => node.pods, figure: true, width: "60px", drop: 760 },
      { title: `${sign()}/h`, cell: (node) => hourly(node.price), value: (node) => number(node.price) ?? -1, figure: true, width: "84px" },
      { title: "Age", cell: (node) => age(node.created, page.data.fleet.takenAt), value: (node) => -Date.parse(node.created), figure: true, width: "56px", drop: 1000 },
      { title: "State", cell: (node) => tag(node.phase, PHASES[node.phase]), value: (node) => node.phase, width: "118px" },
    ],
    { label: "Nodes", key: (node) => node.name, open: explainNode, sort: [0, false], empty: "No nodes." },
  );
  const section = panel("nodes", "Nodes", { wide: true, tools: [filter] }, grid.root);
  const searched = (node) =>
    [node.name, node.nodePool, node.instanceType, node.zone, node.capacityType, node.nodeClaim, node.phase].join("\n").toLowerCase();
  let all = [];
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    const rows = wanted === "" ? all : all.filter((node) => searched(node).includes(wanted));
    section.count(rows.length, all.length);
    grid.show(rows);
    return rows.length;
  };
  filter.addEventListener("input", () => announce(`${counted(show(), "node")}`));
  return ({ fleet }) => {
    all = fleet.nodes;
    show();
  };
}

/** What each constraint leaves of the instance types. */
function funnelList(funnel) {
  const most = Math.max(1, ...funnel.steps.map((step) => step.left));
  return [
    element(
      "dl",
      { class: "funnel" },
      funnel.steps.flatMap((step) => [
        element("dt", {}, step.constraint),
        element("dd", {}, element("b", {}, count(step.left)), bar(step.left / most, "step")),
      ]),
    ),
    funnel.why ? element("p", { class: "soft" }, funnel.why) : null,
  ];
}

function pendingSection() {
  const grid = new Grid(
    [
      { title: "Pod", cell: (pod) => element("span", { class: "strong", title: pod.pod }, pod.pod), value: (pod) => pod.pod },
      { title: "Reason", cell: (pod) => tag(pod.reason, pod.unschedulable ? "bad" : "notice"), value: (pod) => pod.reason, width: "24%" },
      { title: "Message", cell: (pod) => pod.message, width: "44%", drop: 560 },
      { title: "Age", cell: (pod) => age(pod.created, page.data.fleet.takenAt), value: (pod) => -Date.parse(pod.created), figure: true, width: "64px" },
    ],
    { label: "Pending pods", key: (pod) => pod.pod, open: explainPod, empty: "No pod is pending." },
  );
  const funnels = element("div", { class: "funnels" });
  const section = panel("pending", "Pending pods", { wide: true }, grid.root, funnels);
  return (data) => {
    section.count(data.fleet.pending.length);
    grid.show(data.fleet.pending);
    funnels.hidden = data.funnels.length === 0;
    funnels.replaceChildren(
      ...data.funnels.map((reason) =>
        element(
          "div",
          {},
          element("h3", {}, `Why ${counted(reason.pods, "pod")} such as ${reason.pod} ${reason.pods === 1 ? "has" : "have"} no node: instance types left`),
          element("p", {}, reason.message),
          reason.funnels.map((funnel) => [element("h3", {}, `NodePool ${funnel.nodePool}`), funnelList(funnel)]).flat(2),
        ),
      ),
    );
  };
}

function claimsSection() {
  const grid = new Grid(
    [
      { title: "NodeClaim", cell: (claim) => element("span", { class: "strong", title: claim.name }, claim.name), value: (claim) => claim.name },
      { title: "Phase", cell: (claim) => tag(claim.phase, "notice"), value: (claim) => claim.phase, width: "116px" },
      { title: "Type", cell: (claim) => text(claim.instanceType), value: (claim) => claim.instanceType, width: "18%", drop: 560 },
      { title: "Waits for", cell: (claim) => text(claim.message), width: "32%", drop: 760 },
      { title: "Pods", cell: (claim) => count(claim.pods), value: (claim) => claim.pods, figure: true, width: "60px", drop: 560 },
      { title: "Age", cell: (claim) => age(claim.created, page.data.fleet.takenAt), value: (claim) => -Date.parse(claim.created), figure: true, width: "64px" },
    ],
    { label: "NodeClaims in flight", key: (claim) => claim.name, open: explainClaim, empty: "No NodeClaim is in flight." },
  );
  const section = panel("claims", "NodeClaims in flight", {}, grid.root);
  return ({ fleet }) => {
    section.count(fleet.nodeClaims.length);
    grid.show(fleet.nodeClaims);
  };
}

/** A saving with its sign, which the color repeats. */
function saving(exact) {
  if (exact === null) return "–";
  return element("span", { class: Number(exact) < 0 ? "costs" : "saves" }, hourly(exact));
}

function disruptionsSection() {
  const grid = new Grid(
    [
      { title: "Nodes", cell: (row) => element("span", { class: "strong", title: row.nodes.join(", ") }, row.nodes.join(", ")), value: (row) => row.nodes.join() },
      { title: "Reason", cell: (row) => row.reason, value: (row) => row.reason, width: "22%" },
      { title: "Stage", cell: (row) => tag(row.stage, "notice"), value: (row) => row.stage, width: "116px" },
      { title: "Pods left", cell: (row) => count(row.pods), value: (row) => row.pods, figure: true, width: "76px", drop: 560 },
      { title: `Saves ${sign()}/h`, cell: (row) => saving(row.savingsHourly), value: (row) => number(row.savingsHourly) ?? 0, figure: true, width: "92px" },
    ],
    { label: "Disruptions", key: (row) => row.nodes.join(), open: explainDisruption, empty: "No node is disrupted." },
  );
  const section = panel("disruptions", "Disruptions", {}, grid.root);
  return ({ fleet }) => {
    section.count(fleet.disruptions.length);
    grid.show(fleet.disruptions);
  };
}

function nodePoolsSection() {
  const tightest = (pool) =>
    pool.limits.map((limit) => ({ ...limit, allocatable: limit.limit })).sort((a, b) => share(b) - share(a))[0];
  const budget = (pool, reason) => {
    const row = pool.budgets.find((known) => known.reason === reason);
    if (!row) return "–";
    return row.error ? tag("invalid", "bad") : `${count(row.disrupting)} of ${count(row.allowed)}`;
  };
  const limit = (pool) => {
    const row = tightest(pool);
    return row ? element("div", { class: "use" }, use(row), element("span", { class: "soft" }, row.resource)) : "none";
  };
  const grid = new Grid(
    [
      { title: "NodePool", cell: (pool) => element("span", { class: "strong", title: pool.name }, pool.name), value: (pool) => pool.name },
      { title: "State", cell: (pool) => pool.state, width: "24%", drop: 1000 },
      { title: "Nodes", cell: (pool) => count(pool.nodes), value: (pool) => pool.nodes, figure: true, width: "64px" },
      { title: `${sign()}/h`, cell: (pool) => hourly(pool.hourly), value: (pool) => number(pool.hourly) ?? -1, figure: true, width: "92px" },
      { title: "Tightest limit", cell: limit, value: (pool) => share(tightest(pool)), width: "16%", drop: 760 },
      { title: "Empty", cell: (pool) => budget(pool, "Empty"), figure: true, width: "84px", drop: 760 },
      { title: "Drifted", cell: (pool) => budget(pool, "Drifted"), figure: true, width: "84px", drop: 760 },
      { title: "Underutilized", cell: (pool) => budget(pool, "Underutilized"), figure: true, width: "104px" },
    ],
    { label: "NodePools; the last columns are nodes in disruption of those that the budgets allow", key: (pool) => pool.name, open: explainNodePool, empty: "No NodePools." },
  );
  const section = panel("nodepools", "NodePools", { wide: true }, grid.root);
  return ({ fleet }) => {
    section.count(fleet.nodePools.length);
    grid.show(fleet.nodePools);
  };
}

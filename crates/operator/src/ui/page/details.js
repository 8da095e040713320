// What a row is about: the dialog that Enter or a click opens. Escape closes it and the row has the focus again.

/** Opens the dialog. */
function showDetails(title, ...content) {
  const dialog = byId("details");
  dialog.replaceChildren(
    element(
      "header",
      {},
      element("h2", { id: "details-title" }, title),
      element("button", { type: "button", click: () => dialog.close(), "aria-label": "Close" }, "Close"),
    ),
    element("div", { class: "body" }, content),
  );
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

/** A heading with a list below it; nothing without items. */
function listed(title, items) {
  return items.length === 0 ? [] : [element("h3", {}, title), element("ul", { class: "list" }, items.map((item) => element("li", {}, item)))];
}

/** Resources as bars with figures. */
function resourceFacts(rows) {
  return facts(
    rows.map((row) => [
      row.resource,
      row.allocatable > 0
        ? element(
            "div",
            {},
            use(row),
            element("span", { class: "soft" }, `${quantity(row.resource, row.used)} of ${quantity(row.resource, row.allocatable)} requested`),
          )
        : quantity(row.resource, row.used),
    ]),
  );
}

/** Blockers with owner and end. */
const blockerItems = (blockers) =>
  blockers.map((blocker) => [
    blocker.message,
    element(
      "small",
      {},
      [blocker.type, blocker.owner ? `owner ${blocker.owner}` : null, blocker.until ? `until ${moment(blocker.until)}` : null]
        .filter(Boolean)
        .join(" · "),
    ),
  ]);

/**
 * What else keeps a node, as the controller has said it: budgets of its NodePool that are used up, and refusals that name the node, the newest of each
 * reason. They need a simulation, which this page does not run.
 */
function saidBlockers(node) {
  const pool = page.data.fleet.nodePools.find((known) => known.name === node.nodePool);
  const used = (pool?.budgets ?? []).filter((budget) => budget.error || budget.disrupting >= budget.allowed);
  const budgets = used.map((budget) => [
    `the budgets of NodePool ${pool.name} allow ${count(budget.allowed)} for ${budget.reason}, ${count(budget.disrupting)} in use`,
    element("small", {}, budget.error ?? (budget.until ? `until ${moment(budget.until)}` : "at any time")),
  ]);
  const names = [node.name, node.nodeClaim].filter(Boolean);
  const about = page.decisions.filter(
    (record) => record.kind === "refusal" && record.choice?.of !== "Pod" && (record.choice?.names ?? []).some((name) => names.includes(name)),
  );
  const known = new Map();
  for (const record of about) {
    for (const reason of record.reasons ?? []) {
      if (!known.has(reason.reason)) known.set(reason.reason, [reason.message, element("small", {}, `${reason.reason} · refused ${moment(record.time)} · ${record.id}`)]);
    }
  }
  return [...budgets, ...known.values()];
}

/** The decisions that name an object, the newest first. */
function decisionItems(names) {
  const wanted = new Set(names.filter(Boolean));
  const about = page.decisions.filter((record) => subjects(record).some((name) => wanted.has(name)));
  return about.slice(0, 20).map((record) => [
    `${clock(record.time)}  ${summary(record)}`,
    element("small", {}, [record.id, outcome(record)].filter(Boolean).join(" · ")),
  ]);
}

/** The pods of a node, which the controller is asked for when the node is selected; a report does not have them. */
function podsOf(node) {
  const part = element("div", { "aria-live": "polite" });
  if (byId("data") || node.pods === 0) return part;
  const say = (words) => part.replaceChildren(element("h3", {}, "Pods"), element("p", { class: "soft" }, words));
  say("Reading.");
  readPods(node.name).then(
    (answer) => {
      const items = answer.pods.map((pod) => [
        pod.pod,
        element("small", {}, [pod.owner, ...pod.requests.filter((row) => row.resource !== "pods").map((row) => `${row.resource} ${quantity(row.resource, row.used)}`)].filter(Boolean).join(" · ")),
      ]);
      const rest = answer.total - answer.pods.length;
      part.replaceChildren(...[listed("Pods", rest > 0 ? [...items, `and ${count(rest)} more`] : items)].flat());
    },
    (error) => say(`Reading failed: ${error.message}`),
  );
  return part;
}

async function readPods(name) {
  const response = await fetch(`ui/nodes/${encodeURIComponent(name)}/pods`);
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response.json();
}

function explainNode(node) {
  const { takenAt } = page.data.fleet;
  const blockers = [...blockerItems(node.blockers), ...(node.nodeClaim ? saidBlockers(node) : [])];
  showDetails(
    `Node ${node.name}`,
    facts([
      ["State", tag(node.phase, PHASES[node.phase])],
      ["NodeClaim", node.nodeClaim ?? "none: it is not managed"],
      ["NodePool", node.nodePool],
      ["Instance type", node.instanceType],
      ["Zone", node.zone],
      ["Capacity type", node.capacityType],
      ["List price", node.price === null ? "unknown" : `${hourly(node.price)}/h, ${monthly(node.price)}/month`],
      ["Counts as", node.effectivePrice === node.price || node.effectivePrice === null ? null : `${hourly(node.effectivePrice)}/h in decisions`],
      ["Created", `${moment(node.created)}, ${age(node.created, takenAt)} ago`],
      ["Pods", count(node.pods)],
    ]),
    element("h3", {}, "Requested by pods"),
    resourceFacts(node.resources),
    element("h3", {}, "Disruption is blocked by"),
    blockers.length > 0
      ? element("ul", { class: "list" }, blockers.map((item) => element("li", {}, item)))
      : element("p", { class: "soft" }, node.nodeClaim ? "Nothing that is known." : "It is not managed: it is never disrupted."),
    podsOf(node),
    listed("Decisions", decisionItems([node.name, node.nodeClaim])),
  );
}

function explainPod(pod) {
  const known = page.data.funnels.find((funnels) => funnels.message === pod.message);
  showDetails(
    `Pod ${pod.pod}`,
    facts([
      ["Reason", tag(pod.reason, pod.unschedulable ? "bad" : "notice")],
      ["Message", pod.message],
      ["NodePool", pod.nodePool],
      ["Price of its node", pod.nodePrice ? `${hourly(pod.nodePrice)}/h` : null],
      ["Created", `${moment(pod.created)}, ${age(pod.created, page.data.fleet.takenAt)} ago`],
    ]),
    element("h3", {}, "Requests"),
    resourceFacts(pod.requests),
    known ? known.funnels.flatMap((funnel) => [element("h3", {}, `Instance types of NodePool ${funnel.nodePool}`), funnelList(funnel)]) : [],
    listed("Decisions", decisionItems([pod.pod])),
  );
}

function explainClaim(claim) {
  showDetails(
    `NodeClaim ${claim.name}`,
    facts([
      ["Phase", tag(claim.phase, "notice")],
      ["Waits for", claim.message],
      ["NodePool", claim.nodePool],
      ["Node", claim.node],
      ["Instance type", claim.instanceType],
      ["Zone", claim.zone],
      ["Capacity type", claim.capacityType],
      ["List price", claim.price ? `${hourly(claim.price)}/h` : null],
      ["Pods", count(claim.pods)],
      ["Created", `${moment(claim.created)}, ${age(claim.created, page.data.fleet.takenAt)} ago`],
    ]),
    listed("Decisions", decisionItems([claim.name])),
  );
}

function explainDisruption(row) {
  showDetails(
    `${row.reason}: ${counted(row.nodes.length, "node")}`,
    facts([
      ["Stage", tag(row.stage, "notice")],
      ["Command", row.command ?? "none recorded"],
      ["Since", row.since ? moment(row.since) : null],
      ["Saves", row.savingsHourly === null ? "unknown" : `${hourly(row.savingsHourly)}/h`],
      ["Pods left", count(row.pods)],
    ]),
    listed("Nodes", row.nodes),
    listed("Replacements", row.replacements),
    listed("Decisions", decisionItems([row.command, ...row.nodes])),
  );
}

function explainNodePool(pool) {
  showDetails(
    `NodePool ${pool.name}`,
    facts([
      ["State", pool.state],
      ["Weight", count(pool.weight)],
      ["Nodes", count(pool.nodes)],
      ["Cost", pool.hourly === null ? "unknown" : `${hourly(pool.hourly)}/h, ${monthly(pool.hourly)}/month`],
      ["Without a price", pool.nodesWithoutPrice > 0 ? counted(pool.nodesWithoutPrice, "node") : null],
    ]),
    element("h3", {}, "Limits"),
    pool.limits.length > 0
      ? facts(
          pool.limits.map((limit) => [
            limit.resource,
            element(
              "div",
              {},
              use({ used: limit.used, allocatable: limit.limit }),
              element("span", { class: "soft" }, `${quantity(limit.resource, limit.used)} of ${quantity(limit.resource, limit.limit)}`),
            ),
          ]),
        )
      : element("p", { class: "soft" }, "None."),
    listed(
      "Disruption budgets",
      pool.budgets.map((budget) => [
        `${budget.reason}: ${count(budget.disrupting)} of ${count(budget.allowed)} in use`,
        element("small", {}, budget.error ?? (budget.until ? `until ${moment(budget.until)}` : "at any time")),
      ]),
    ),
  );
}

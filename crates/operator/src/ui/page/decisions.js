// The decisions of the controller, the newest first: a stream of server-sent events, or none in a report.

/** Records that are kept. */
const KEPT_DECISIONS = 2000;

const KINDS = { plan: "Plan", nodeClaim: "NodeClaim", disruption: "Disruption", deletion: "Deletion", refusal: "Refusal", held: "Held" };

/** What was chosen, in one line. */
function summary(record) {
  const choice = record.choice ?? {};
  switch (record.kind) {
    case "plan":
      return `${counted(choice.pods, "pod")}: ${counted(choice.nodeClaims, "new NodeClaim")} for ${count(choice.podsOnNewNodes)}, `
        + `${count(choice.podsOnExistingNodes)} on existing nodes, ${count(choice.unschedulable)} unschedulable; ${hourly(choice.price)}/h`;
    case "nodeClaim":
      return `${choice.nodeClaim}: ${choice.offering.instanceType} in ${choice.offering.zone}, ${choice.offering.capacityType}, `
        + `${hourly(choice.offering.price)}/h, for ${counted(choice.podsTotal, "pod")}`;
    case "disruption":
      return `${choice.reason}: ${choice.action} ${choice.nodesTotal === 1 ? choice.nodes[0].node || choice.nodes[0].nodeClaim : counted(choice.nodesTotal, "node")}`
        + (choice.replacementsTotal > 0 ? ` with ${counted(choice.replacementsTotal, "replacement")}` : "");
    case "deletion":
      return `${choice.cause}: ${choice.of} ${choice.name}${choice.node ? ` (node ${choice.node})` : ""}: ${record.reasons?.[0]?.message ?? ""}`;
    case "refusal":
      return `${choice.total === 1 ? choice.names[0] : `${counted(choice.total, choice.of.toLowerCase())} such as ${choice.names[0]}`}: `
        + (record.reasons?.[0]?.message ?? "no reason recorded");
    case "held":
      return `${choice.act} ${choice.subject}: ${record.reasons?.[0]?.message ?? choice.limit}`;
    default:
      return record.kind;
  }
}

/** The objects that a decision names. */
function subjects(record) {
  const choice = record.choice ?? {};
  const nodes = (choice.nodes ?? []).flatMap((node) => [node.node, node.nodeClaim]);
  return [choice.name, choice.node, choice.nodeClaim, choice.command, choice.subject, ...(choice.names ?? []), ...(choice.pods?.length ? choice.pods : []), ...nodes];
}

const OUTCOMES = { succeeded: "good", started: "notice", decided: "", rejected: "bad", rolledBack: "bad", failed: "bad" };

/** How far a decision is, in words. */
const outcome = (record) =>
  record.outcome ? [record.outcome.status, record.outcome.message].filter(Boolean).join(": ") : "";

function explainDecision(record) {
  const { choice } = record;
  const offering = (row) => [
    `${row.instanceType} in ${row.zone}, ${row.capacityType}`,
    element("small", {}, `${hourly(row.price)}/h, counts as ${hourly(row.effectivePrice)}/h`),
  ];
  showDetails(
    `${KINDS[record.kind] ?? record.kind} ${record.id}`,
    element("p", {}, summary(record)),
    facts([
      ["Decided", moment(record.time)],
      ["Part of", record.parent],
      ["Outcome", record.outcome ? `${outcome(record)}, since ${moment(record.outcome.since)}` : null],
      ["Saves", record.saving ? `${hourly(record.saving.list)}/h: ${hourly(record.saving.before)} → ${hourly(record.saving.after)}` : null],
      ["Decided on", `${counted(record.inputs.nodes, "node")}, ${counted(record.inputs.pods, "pod")} of the batch, ${counted(record.inputs.nodePools, "NodePool")}`],
      ["Digest of inputs", record.inputs.digest],
    ]),
    listed("Reasons", (record.reasons ?? []).map((reason) => [reason.message, element("small", {}, [reason.reason, reason.nodePool].filter(Boolean).join(" · "))])),
    listed("Nodes", (choice.nodes ?? []).map((node) => [`${node.node || node.nodeClaim}`, element("small", {}, `${node.instanceType}, ${node.capacityType}, ${hourly(node.price)}/h, ${counted(node.pods, "pod")} to move`)])),
    listed("Replacements", (choice.replacements ?? []).map((row) => offering(row.offering))),
    listed("Objects", choice.names ?? []),
    listed("Pods", Array.isArray(choice.pods) ? choice.pods : []),
    listed(`Candidates, cheapest first${record.candidatesTotal ? ` (${count(record.candidatesTotal)} instance types)` : ""}`, (record.candidates ?? []).map(offering)),
  );
}

function decisionsSection() {
  const grid = new Grid(
    [
      { title: "Time", cell: (record) => element("span", { class: "when" }, clock(record.time)), width: "76px" },
      { title: "Kind", cell: (record) => KINDS[record.kind] ?? record.kind, width: "92px", drop: 560 },
      { title: "Decision", cell: summary },
      { title: `Saves ${sign()}/h`, cell: (record) => (record.saving ? saving(record.saving.list) : ""), figure: true, width: "84px", drop: 760 },
      { title: "Outcome", cell: (record) => (record.outcome ? tag(record.outcome.status, OUTCOMES[record.outcome.status] ?? "") : ""), width: "100px" },
    ],
    { label: "Decisions", key: (record) => record.id, open: explainDecision, empty: "No decision yet." },
  );
  const section = panel("decisions", "Decisions", { wide: true }, grid.root);
  const show = () => {
    section.count(page.decisions.length);
    grid.show(page.decisions);
  };
  show();
  return show;
}

/** Follows the decisions; the browser connects again after an interruption, from the last event on. */
function followDecisions(show) {
  const known = new Map();
  let pending = false;
  const draw = () => {
    pending = false;
    const number = (record) => Number(record.id.slice(record.id.lastIndexOf("-") + 1));
    page.decisions = [...known.values()].sort((a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : number(b) - number(a)));
    for (const old of page.decisions.splice(KEPT_DECISIONS)) known.delete(old.id);
    show();
  };
  const stream = new EventSource("ui/decisions?watch=true");
  stream.addEventListener("decision", (event) => {
    const record = JSON.parse(event.data);
    known.set(record.id, record);
    if (!pending) setTimeout(draw, 250);
    pending = true;
  });
}

// The sections of a report: what could be saved, what blocks it, and who pays.

/** `now` beside `then`, as bars of one scale. */
function comparison(rows) {
  const most = Math.max(...rows.map((row) => row.price), 1e-9);
  return element(
    "div",
    { class: "compare" },
    rows.flatMap((row) => [element("span", {}, row.name), bar(row.price / most, row.kind), element("span", {}, row.text)]),
  );
}

function savingSection() {
  const body = element("div", { class: "saving" });
  panel("saving", "What could be saved", { wide: true, link: "Saving" }, body);
  return ({ saving: report }) => {
    const { cheapest, waste, proposed } = report;
    const price = (side) => number(side.hourly) ?? 0;
    const side = (name, of, kind) => ({ name, kind, price: price(of), text: `${counted(of.nodes, "node")}, ${hourly(of.hourly)}/h, ${monthly(of.hourly)}/month` });
    const lead = cheapest
      ? [
          element(
            "p",
            { class: "lead" },
            Number(cheapest.savingHourly) > 0
              ? `${monthly(cheapest.savingHourly)} per month less for the same pods`
              : "No cheaper plan for the same pods",
            element("small", {}, cheapest.savingShare > 0 ? `  ${percent(cheapest.savingShare)} of ${monthly(cheapest.now.hourly)}` : ""),
          ),
          comparison([side("Now", cheapest.now, "now"), side("Cheapest plan", cheapest.then, "then")]),
          element(
            "p",
            { class: "soft" },
            `The planner placed ${counted(cheapest.pods, "pod")} on new nodes alone, as if every pod could move at once; ${count(cheapest.unschedulable)} unschedulable. `
              + "Nodes of static NodePools and nodes that are not managed stay.",
          ),
        ]
      : [element("p", { class: "soft" }, "Prices are unknown: no plan can be compared.")];
    body.replaceChildren(
      ...lead,
      element("p", {}, `Unused: ${hourly(waste.hourly)}/h, ${monthly(waste.hourly)} per month, ${percent(waste.share)} of the cost. No pod requests it.`),
      element("div", {}, listed(
        "Disruption would do now",
        proposed.map((row) => [
          `${row.reason}: ${row.nodes.slice(0, 5).join(", ")}${row.nodes.length > 5 ? ` and ${row.nodes.length - 5} more` : ""}`,
          element("small", {}, `${counted(row.replacements, "replacement")}${row.savingsHourly === null ? "" : `, saves ${hourly(row.savingsHourly)}/h`}`),
        ]),
      )),
    );
  };
}

function planSection() {
  const grid = new Grid(
    [
      { title: "Instance type", cell: (row) => element("span", { class: "strong" }, row.instanceType), value: (row) => row.instanceType },
      { title: "NodePool", cell: (row) => row.nodePool, value: (row) => row.nodePool, width: "26%", drop: 560 },
      { title: "Capacity", cell: (row) => row.capacityType, value: (row) => row.capacityType, width: "112px" },
      { title: "Nodes", cell: (row) => count(row.nodes), value: (row) => row.nodes, figure: true, width: "72px" },
      { title: `${sign()}/h`, cell: (row) => hourly(row.hourly), value: (row) => number(row.hourly), figure: true, width: "96px" },
    ],
    { label: "Nodes of the cheapest plan", key: (row) => `${row.nodePool} ${row.instanceType} ${row.capacityType}`, empty: "No new nodes." },
  );
  const section = panel("plan", "Nodes of the cheapest plan", { link: "Plan" }, grid.root);
  return ({ saving: report }) => {
    const rows = report.cheapest?.types ?? [];
    section.count(rows.length);
    grid.show(rows);
  };
}

function explainBlock(row) {
  showDetails(
    row.type,
    facts([
      ["Owner", row.owner ?? "none"],
      ["For example", row.message],
      ["Until", row.until ? moment(row.until) : "without a known end"],
      ["Nodes", count(row.nodes)],
      ["They cost", `${hourly(row.hourly)}/h, ${monthly(row.hourly)}/month`],
      ["Unused of it", `${hourly(row.unusedHourly)}/h, ${monthly(row.unusedHourly)}/month`],
    ]),
  );
}

function blocksSection() {
  const grid = new Grid(
    [
      { title: "Blocker", cell: (row) => element("span", { class: "strong", title: row.type }, row.type), value: (row) => row.type, width: "26%" },
      { title: "Owner", cell: (row) => text(row.owner), value: (row) => row.owner },
      { title: "For example", cell: (row) => row.message, width: "32%", drop: 760 },
      { title: "Nodes", cell: (row) => count(row.nodes), value: (row) => row.nodes, figure: true, width: "64px", drop: 560 },
      { title: `Unused ${sign()}/h`, cell: (row) => hourly(row.unusedHourly), value: (row) => number(row.unusedHourly), figure: true, width: "96px" },
    ],
    { label: "What blocks the saving, by owner", key: (row) => `${row.type} ${row.owner}`, open: explainBlock, empty: "Nothing blocks disruption." },
  );
  const section = panel("blocks", "What blocks the saving", { wide: true, link: "Blocked by" }, grid.root);
  return ({ saving: report }) => {
    section.count(report.blocks.length);
    grid.show(report.blocks);
  };
}

/** Costs by a name. */
function costsSection(id, title, head, link, rowsOf) {
  const hasUnused = id === "by-nodepool";
  const grid = new Grid(
    [
      { title: head, cell: (row) => element("span", { class: "strong", title: row.name }, row.name ?? "none"), value: (row) => row.name ?? "" },
      { title: "Pods", cell: (row) => count(row.pods), value: (row) => row.pods, figure: true, width: "72px", drop: 560 },
      { title: `${sign()}/h`, cell: (row) => hourly(row.hourly), value: (row) => number(row.hourly), figure: true, width: "96px" },
      { title: `${sign()}/month`, cell: (row) => monthly(row.hourly), value: (row) => number(row.hourly), figure: true, width: "104px" },
      ...(hasUnused ? [{ title: `Unused ${sign()}/h`, cell: (row) => hourly(row.unusedHourly), value: (row) => number(row.unusedHourly), figure: true, width: "96px", drop: 560 }] : []),
    ],
    { label: title, key: (row) => row.name ?? "", empty: "No cost is known." },
  );
  const section = panel(id, title, { link }, grid.root);
  return ({ saving: report }) => {
    const rows = rowsOf(report);
    section.count(rows.length);
    grid.show(rows);
  };
}

/** All sections of a report. */
function savingSections({ saving: report }) {
  return [
    savingSection(),
    blocksSection(),
    planSection(),
    costsSection("by-nodepool", "Cost by NodePool, with nodes being deleted and launched NodeClaims", "NodePool", `${sign()} by NodePool`, (of) => of.byNodePool),
    costsSection("by-namespace", "Cost by namespace", "Namespace", `${sign()} by namespace`, (of) => of.byNamespace),
    ...report.byLabel.map((known, index) => costsSection(`by-label-${index}`, `Cost by label ${known.label}`, "Value", `${sign()} by label`, (of) => of.byLabel[index].rows)),
  ];
}

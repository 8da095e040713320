// The page: from the data in this file, or from the controller, which is asked again while the page is visible.

/** What is shown. */
const page = { data: null, decisions: [] };

/** Between two readings at least; more where reading or showing takes long. */
const INTERVAL_MS = 5000;
/** How many times as long as a reading took the page waits. */
const INTERVAL_TIMES = 5;

let sections = null;

/** Shows other data. */
function show(data) {
  page.data = data;
  if (!sections) {
    sections = [summarySection(), ...(data.saving ? savingSections(data) : []), nodesSection(), pendingSection(), claimsSection(), disruptionsSection(), nodePoolsSection()];
  }
  byId("source").textContent = data.source;
  document.title = `Fleetwright: ${data.source}`;
  for (const section of sections) section(data);
}

function state(words, kind = "") {
  const line = byId("state");
  if (line.textContent !== words) line.textContent = words;
  line.className = `state ${kind}`;
}

/** What was assumed or ignored, at the end of a report. */
function notes(fleet) {
  const lines = [
    ...fleet.incomplete.map((gap) => `Incomplete: ${gap}`),
    ...fleet.notes,
    ...fleet.catalogues.map((row) => `Instance types and prices of ${row.nodePools.join(", ")}: ${row.source}`),
  ];
  if (lines.length === 0) return;
  const section = panel("notes", "Notes", { wide: true }, element("ul", { class: "list empty" }, lines.map((line) => element("li", {}, line))));
  section.count(lines.length);
}

/** Reads from the controller until the page is closed. */
async function follow() {
  let started = false;
  for (;;) {
    const begun = performance.now();
    if (!document.hidden) {
      try {
        const response = await fetch("ui/fleet.json");
        if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
        show(await response.json());
        state(`as of ${moment(page.data.fleet.takenAt)}`);
        if (!started) followDecisions(decisionsSection());
        started = true;
      } catch (error) {
        state(`Reading failed, trying again: ${error.message}`, "bad");
      }
    }
    const took = performance.now() - begun;
    await new Promise((wake) => setTimeout(wake, Math.max(INTERVAL_MS, took * INTERVAL_TIMES)));
  }
}

const embedded = byId("data");
if (embedded) {
  const data = JSON.parse(embedded.textContent);
  show(data);
  notes(data.fleet);
  state(`as of ${moment(data.fleet.takenAt)}`);
} else {
  follow();
}

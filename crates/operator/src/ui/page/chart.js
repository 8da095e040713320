// The cost over time, as a line.

const SVG = "http://www.w3.org/2000/svg";
/** Points of a line at most: more are no wider than a pixel. */
const POINTS = 600;

function svg(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}

/** A figure of samples {at, hourly}; null with fewer than two. */
function costChart(samples) {
  if (samples.length < 2) return null;
  const step = Math.ceil(samples.length / POINTS);
  const kept = samples.filter((_, index) => index % step === 0 || index === samples.length - 1);
  const times = kept.map((sample) => Date.parse(sample.at));
  const costs = kept.map((sample) => Number(sample.hourly));
  const [start, end] = [times[0], times[times.length - 1]];
  const all = samples.map((sample) => Number(sample.hourly));
  const highest = all.reduce((a, b) => Math.max(a, b), 0);
  const lowest = all.reduce((a, b) => Math.min(a, b), Infinity);
  const x = (time) => ((time - start) / Math.max(1, end - start)) * 1000;
  const y = (cost) => 80 - (cost / (highest || 1)) * 74;
  // The cost stands until the next sample: steps, not slopes.
  let path = `M0,${y(costs[0]).toFixed(1)}`;
  for (let index = 1; index < kept.length; index += 1) path += `H${x(times[index]).toFixed(1)}V${y(costs[index]).toFixed(1)}`;
  const label = `Cost per hour from ${moment(kept[0].at)} to ${moment(kept[kept.length - 1].at)}: `
    + `${hourly(costs[0])} at first, ${hourly(costs[costs.length - 1])} at last, at least ${hourly(lowest)}, at most ${hourly(highest)}`;
  const drawing = svg("svg", { viewBox: "0 0 1000 84", preserveAspectRatio: "none", role: "img", "aria-label": label });
  drawing.append(
    svg("line", { class: "axis", x1: 0, x2: 1000, y1: 80, y2: 80 }),
    svg("path", { class: "area", d: `${path}V80H0Z` }),
    svg("path", { class: "line", d: path }),
  );
  return element(
    "figure",
    { class: "chart" },
    element(
      "figcaption",
      {},
      element("span", {}, "Cost per hour"),
      element("span", {}, "lowest ", element("b", {}, hourly(lowest)), "  highest ", element("b", {}, hourly(highest))),
    ),
    drawing,
    element("figcaption", {}, element("span", {}, moment(samples[0].at)), element("span", {}, moment(samples[samples.length - 1].at))),
  );
}

// Elements. Text of objects becomes text nodes here and nowhere else: nothing on this page parses markup.

/** An element with attributes and children; strings are text. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "click") made.addEventListener("click", value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined).map(nodeOf));
  return made;
}

const nodeOf = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));
const byId = (id) => document.getElementById(id);

/** A bar; the figure beside it is what screen readers read. */
function bar(used, kind = "") {
  const level = used > 1.0001 ? "over" : used >= 0.8 ? "full" : "";
  const fill = element("i");
  fill.style.width = `${Math.min(100, Math.max(0, used * 100))}%`;
  return element("div", { class: `bar ${kind || level}`, "aria-hidden": "true" }, fill);
}

/** A bar with the percentage. */
const use = (row) =>
  row ? element("div", { class: "use" }, bar(share(row)), element("span", { class: "share" }, percent(share(row)))) : "–";

const tag = (text, kind = "") => element("span", { class: `tag ${kind}`, title: text }, text);

/** A definition list of pairs; pairs without a value are left out. */
function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element("dl", { class: "facts" }, shown.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

/** A section of the page, with a link in the navigation. */
function panel(id, title, { wide = false, tools = [], link = title } = {}, ...children) {
  const amount = element("span", { class: "count" });
  const made = element(
    "section",
    { id, class: `panel${wide ? " wide" : ""}`, "aria-labelledby": `${id}-title` },
    element(
      "header",
      {},
      element("h2", { id: `${id}-title` }, title),
      amount,
      tools.length > 0 ? element("div", { class: "tools" }, tools) : null,
    ),
    ...children,
  );
  const badge = element("b");
  byId("sections").append(element("li", {}, element("a", { href: `#${id}` }, link, badge)));
  byId("main").append(made);
  return {
    root: made,
    /** Says how many rows there are, of how many. */
    count(shown, of = shown) {
      amount.textContent = shown === of ? count(of) : `${count(shown)} of ${count(of)}`;
      badge.textContent = count(of);
    },
  };
}

/** Reads a text to screen readers, once. */
function announce(text) {
  byId("announcement").textContent = text;
}

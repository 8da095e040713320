// Tables of any length: only the rows in view are elements, all of one height.
//
// A table is one stop of the tab order after its headers: arrows, Page Up, Page Down, Home and End move through its rows, Enter explains one.

/** Rows beyond the view on each side. */
const OVERSCAN = 8;
/** Rows of a table that is shorter than this are all elements. */
const ALL_BELOW = 60;

class Grid {
  /**
   * @param columns {title, cell(row), value(row) for sorting, width, figure, bars, drop: the width below which it is not shown}
   * @param options {label, key(row), open(row), sort: [column, descending], empty}
   */
  constructor(columns, options) {
    this.columns = columns;
    this.options = options;
    this.rows = [];
    this.sort = options.sort ?? null;
    this.active = 0;
    this.activeKey = null;
    this.range = null;
    this.body = element("tbody");
    this.heads = columns.map((column, index) => this.head(column, index));
    this.table = element(
      "table",
      { class: "grid", "aria-label": options.label },
      element("colgroup", {}, columns.map((column) => this.col(column))),
      element("thead", {}, element("tr", { "aria-rowindex": 1 }, this.heads)),
      this.body,
    );
    this.scroll = element("div", { class: "scroll" }, this.table);
    this.nothing = element("p", { class: "empty", hidden: true }, options.empty ?? "None.");
    this.root = element("div", {}, this.scroll, this.nothing);
    this.scroll.addEventListener("scroll", () => this.draw(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.press(event));
    this.body.addEventListener("focusin", (event) => this.focused(event.target));
    this.body.addEventListener("click", (event) => this.open(event.target.closest("tr")));
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }

  classes(column) {
    return [column.figure ? "figure" : "", column.drop ? `at-${column.drop}` : ""].join(" ").trim() || null;
  }

  col(column) {
    const made = element("col", { class: [column.drop ? `at-${column.drop}` : "", column.bars ? "bars" : ""].join(" ").trim() || null });
    if (column.width) made.style.width = column.width;
    return made;
  }

  head(column, index) {
    const label = column.value
      ? element("button", { type: "button", click: () => this.sortBy(index) }, column.title)
      : column.title;
    return element("th", { scope: "col", class: this.classes(column) }, label);
  }

  /** Shows other rows; the selected row and the place stay. */
  show(rows) {
    this.all = rows;
    this.rows = this.sorted(rows);
    const key = this.activeKey;
    const place = key === null ? -1 : this.rows.findIndex((row) => this.options.key(row) === key);
    this.active = place >= 0 ? place : Math.min(this.active, Math.max(0, this.rows.length - 1));
    this.nothing.hidden = rows.length > 0;
    this.scroll.hidden = rows.length === 0;
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.range = null;
    this.draw();
  }

  sorted(rows) {
    this.heads.forEach((head, index) => {
      const isIt = this.sort?.[0] === index;
      if (isIt) head.setAttribute("aria-sort", this.sort[1] ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    if (!this.sort) return rows;
    const [index, descending] = this.sort;
    const { value } = this.columns[index];
    const keyed = rows.map((row) => [value(row) ?? "", this.options.key(row), row]);
    const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    keyed.sort((a, b) => (descending ? order(b[0], a[0]) : order(a[0], b[0])) || order(a[1], b[1]));
    return keyed.map(([, , row]) => row);
  }

  sortBy(index) {
    const { figure, title } = this.columns[index];
    const descending = this.sort?.[0] === index ? !this.sort[1] : Boolean(figure);
    this.sort = [index, descending];
    this.show(this.all);
    announce(`Sorted by ${title}, ${descending ? "descending" : "ascending"}`);
  }

  /** The height of a row, as the style has it. */
  get height() {
    return parseFloat(getComputedStyle(this.table).getPropertyValue("--row")) || 34;
  }

  /** Makes elements of the rows in view, if they are others than before. */
  draw() {
    const { length } = this.rows;
    let [first, last] = [0, length];
    if (length > ALL_BELOW) {
      const rows = this.height + 0;
      first = Math.max(0, Math.floor(this.scroll.scrollTop / rows) - OVERSCAN);
      last = Math.min(length, first + Math.ceil(this.scroll.clientHeight / rows) + 2 * OVERSCAN);
    }
    if (this.range && this.range[0] === first && this.range[1] === last) return;
    const hadFocus = this.body.contains(document.activeElement);
    this.range = [first, last];
    const rows = [];
    for (let index = first; index < last; index += 1) rows.push(this.row(index));
    this.body.replaceChildren(this.space(first), ...rows, this.space(length - last));
    if (hadFocus) this.rowAt(this.active)?.focus({ preventScroll: true });
    this.mark();
  }

  /** The height of rows that are no elements. */
  space(rows) {
    // One cell: a span over columns that a narrow window hides would bring them back.
    const cell = element("td");
    cell.style.height = `${rows * this.height}px`;
    return element("tr", { class: "space", "aria-hidden": "true", hidden: rows === 0 }, cell);
  }

  row(index) {
    const row = this.rows[index];
    const cells = this.columns.map((column, place) => {
      const content = column.cell(row);
      const title = typeof content === "string" && content.length > 12 ? content : null;
      const attributes = { class: this.classes(column), title };
      return place === 0 ? element("td", attributes, content) : element("td", attributes, content);
    });
    const tabindex = this.options.open ? (index === this.active ? 0 : -1) : null;
    const made = element("tr", { tabindex, "aria-rowindex": index + 2, "data-index": index }, cells);
    return made;
  }

  rowAt(index) {
    return this.body.querySelector(`tr[data-index="${index}"]`);
  }

  /** One row is in the tab order, also if the active one is out of view. */
  mark() {
    if (!this.options.open) return;
    const rows = [...this.body.querySelectorAll("tr[data-index]")];
    const active = rows.find((row) => Number(row.dataset.index) === this.active) ?? rows[0];
    for (const row of rows) row.tabIndex = row === active ? 0 : -1;
  }

  focused(target) {
    const row = target.closest("tr[data-index]");
    if (!row) return;
    this.active = Number(row.dataset.index);
    this.activeKey = this.options.key(this.rows[this.active]);
    this.mark();
  }

  /** Moves to a row, which is scrolled into view. */
  move(index) {
    this.active = Math.min(Math.max(0, index), this.rows.length - 1);
    const [top, view] = [this.active * this.height, this.scroll.clientHeight - this.height];
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (top + this.height > this.scroll.scrollTop + view) this.scroll.scrollTop = top + this.height - view;
    this.draw();
    this.rowAt(this.active)?.focus({ preventScroll: true });
  }

  press(event) {
    if (!this.options.open || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / this.height) - 2);
    const moves = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + page,
      PageUp: this.active - page,
      Home: 0,
      End: this.rows.length - 1,
    };
    if (event.key in moves) this.move(moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.open(event.target.closest("tr"));
    else return;
    event.preventDefault();
  }

  open(row) {
    if (!row?.dataset.index || !this.options.open) return;
    row.focus({ preventScroll: true });
    this.options.open(this.rows[Number(row.dataset.index)]);
  }
}

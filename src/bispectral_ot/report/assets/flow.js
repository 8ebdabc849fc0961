// Tables with shaded cells: where classes went, and how far they are from each other.

const LONGEST_NAME = 14;  // letters of a name beside the cells

// `cell(i, j)` gives { text, label, shade (0 to 1), kind, press }, or null for an empty cell; `press` makes it a button.
function heatTable({ caption, rows, columns, rowTitle, columnTitle, rowPictures, columnPictures, cell, pressRow, longest = LONGEST_NAME }) {
  const many = Math.max(rows.length, columns.length);
  const size = many <= 12 ? "large" : many <= 30 ? "medium" : "small";
  const letters = Math.min(longest, Math.max(...columns.map((name) => [...name].length)));
  const table = make("table", { class: `heat ${size}${letters > 3 ? " upright" : ""}`, style: { "--columns": columns.length, "--letters": letters, "--names": Math.min(Math.max(longest, 2 * LONGEST_NAME), Math.max(...rows.map((name) => [...name].length))) } });
  table.append(make("caption", {}, caption));
  const header = make("tr", {}, rowTitle ? make("th", { class: "corner", scope: "col" },
    make("span", { class: "axis" }, `${rowTitle} ↓`), make("span", { class: "axis" }, `${columnTitle} →`)) : make("td"));
  columns.forEach((name, j) => header.append(make("th", { scope: "col", title: name }, columnPictures?.[j], make("span", { class: "name" }, shortened(name, longest)))));
  const body = make("tbody");
  rows.forEach((name, i) => {
    const label = make("span", { class: "name" }, shortened(name, size === "large" ? Math.max(longest, 2 * LONGEST_NAME) : longest));
    const inside = pressRow
      ? make("button", { type: "button", class: "row", tabindex: "-1", on: { click: (event) => pressRow(i, event.currentTarget) } }, label, rowPictures?.[i])
      : make("span", { class: "row" }, label, rowPictures?.[i]);
    const line = make("tr", {}, make("th", { scope: "row", title: name }, inside));
    columns.forEach((_, j) => {
      const shown = cell(i, j);
      if (!shown) {
        line.append(make("td"));
        return;
      }
      const { text, label: words, shade, kind, press } = shown;
      const style = { "--shade": `${Math.round(100 * shade)}%` };
      const strong = shade > 0.67 ? " strong" : "";  // where the other text has more contrast, light or dark
      const entry = make("td", { class: `${kind}${strong}`, style, title: words });
      if (press) entry.append(make("button", { type: "button", tabindex: "-1", "aria-label": words, "data-row": i, "data-column": j,
        on: { click: (event) => press(event.currentTarget) } }, size === "small" ? "" : text));
      else entry.append(size === "small" ? "" : text);
      line.append(entry);
    });
    body.append(line);
  });
  table.append(make("thead", {}, header), body);
  walkWithArrows(table);
  return make("div", { class: "scroll heat-box", tabindex: many > 12 ? "0" : null, role: "region", "aria-label": caption }, table);
}

// One stop for the Tab key; arrows go to the next button in their direction.
function walkWithArrows(table) {
  const first = table.querySelector("tbody button");
  if (!first) return;
  first.tabIndex = 0;
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  table.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    const here = event.target.closest("td, th");
    if (!step || !here) return;
    event.preventDefault();
    let [i, j] = [here.parentElement.rowIndex, here.cellIndex];
    let button = null;
    do {
      [i, j] = [i + step[0], j + step[1]];
      button = table.rows[i]?.cells[j]?.querySelector("button");
    } while (!button && table.rows[i]?.cells[j]);
    if (button) button.focus();
  });
  table.addEventListener("focusin", (event) => {
    for (const button of table.querySelectorAll('button[tabindex="0"]')) button.tabIndex = -1;
    event.target.tabIndex = 0;
  });
}

function flowView(panel) {
  const { flow, sources } = panel;
  const gallery = new Gallery(panel);
  const everything = sources.index.map((_, slot) => slot);
  const totals = flow.counts.map((row) => row.reduce((sum, value) => sum + value, 0));
  const all = totals.reduce((sum, value) => sum + value, 0);
  const view = make("div", { class: "flow" });
  let pressed = null;

  function select(button, title, slots, total) {
    pressed?.removeAttribute("aria-pressed");
    pressed = button;
    button?.setAttribute("aria-pressed", "true");
    gallery.show(title, slots, total);
  }

  const showAll = () => select(null, panel.judged ? "All source images" : "Matches", everything, all);
  if (panel.labelled.source || panel.labelled.target) {
    const rows = flow.rows.map((_, i) => panel.rowName(i)), columns = flow.columns.map((_, j) => panel.columnName(j));
    const pictures = (side, classes, draw) => classes.length <= 40
      ? panel.samples(side, classes).map((slot) => (slot < 0 ? null : draw(slot))) : null;
    view.append(heatTable({
      caption: "Share of each source class that is mapped to each target class, in %. Press a cell to see its images.",
      rows, columns, rowTitle: "source", columnTitle: "mapped to",
      rowPictures: pictures(sources, flow.rows, (slot) => panel.sourcePicture(slot, "var(--cell)", true)),
      columnPictures: pictures(panel.targets, flow.columns, (slot) => panel.targetPicture(slot, "var(--cell)", true)),
      pressRow: (i, button) => select(button, `Source class ${rows[i]}`, everything.filter((slot) => sources.label[slot] === i), totals[i]),
      cell(i, j) {
        const number = flow.counts[i][j], share = number / totals[i];
        if (!number) return null;
        const own = !panel.judged || flow.rows[i] === flow.columns[j];
        const words = `${rows[i]} mapped to ${columns[j]}: ${count(number)} of ${count(totals[i])} images, ${percent(share)}`;
        const press = (button) => select(button, `${rows[i]} → ${columns[j]}`,
          everything.filter((slot) => sources.label[slot] === i && sources.mapped[slot] === j), number);
        return { text: share >= 0.005 ? (100 * share).toFixed(0) : "·", label: words, shade: Math.pow(share, 0.7),
          kind: own ? "own" : "other", press };
      },
    }));
    view.append(make("button", { type: "button", class: "reset", on: { click: showAll } }, "Show all images"));
  }
  showAll();
  largestError(view, flow)?.click();
  view.append(gallery.element);
  return view;
}

// The button of the fullest wrong cell: what one wants to see first.
function largestError(view, flow) {
  const number = (button) => flow.counts[button.dataset.row][button.dataset.column];
  return [...view.querySelectorAll("td.other button")].reduce((best, button) => (best && number(best) >= number(button) ? best : button), null);
}

function distanceView(panel) {
  const { means } = panel.distances;
  const known = means.flat().filter((value) => value !== null);
  const lowest = Math.min(...known), highest = Math.max(...known);
  const power = Math.floor(Math.log10(highest || 1));
  const unit = power > 2 || power < 0 ? Number(`1e${power}`) : 1;
  const digits = unit === 1 ? 2 - power : 2;  // three figures of the largest, at most four letters
  const caption = `Mean distance (${panel.facts.settings.metric ?? "given"})${unit === 1 ? "" : `, in units of ${unit}`}: the stronger the colour, the farther.`;
  return heatTable({
    caption, rowTitle: "source", columnTitle: "target",
    rows: panel.flow.rows.map((_, i) => panel.rowName(i)), columns: panel.flow.columns.map((_, j) => panel.columnName(j)),
    cell(i, j) {
      const value = means[i][j];
      const shade = value === null || highest === lowest ? 0 : (value - lowest) / (highest - lowest);
      const words = `${panel.rowName(i)} to ${panel.columnName(j)}: ${figure(value)}`;
      return { text: value === null ? "–" : (value / unit).toFixed(digits), label: words, shade: 0.05 + 0.9 * shade, kind: "plain" };
    },
  });
}

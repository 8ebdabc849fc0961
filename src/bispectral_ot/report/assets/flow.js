// Tables with shaded cells: confusion of classes, and distances between sets.

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
    const label = make("span", { class: "name" }, shortened(name, size === "small" ? longest : Math.max(longest, 3 * LONGEST_NAME)));
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
      const strong = shade > 0.67 ? " strong" : "";  // white or black text, for contrast
      const entry = make("td", { class: `${kind}${strong}`, style, title: words });
      if (press) entry.append(make("button", { type: "button", tabindex: "-1", "aria-label": words, "data-row": i, "data-column": j, "data-number": shown.number,
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

const MOST_CLASSES = 30;  // rows and columns of a confusion matrix

// Confusion matrix of the classes that are chosen, with the images of a cell beside it.
function flowView(panel) {
  const { sources } = panel;
  const gallery = new Gallery(panel);
  const everything = sources.index.map((_, slot) => slot);
  const view = make("div", { class: "flow" });
  let pressed = null;

  function select(button, title, slots, total) {
    pressed?.removeAttribute("aria-pressed");
    pressed = button;
    button?.setAttribute("aria-pressed", "true");
    gallery.show(title, slots, total);
  }

  const showAll = () => select(null, panel.judged ? "All source images" : "Matches", everything, panel.moved);
  if (panel.labelled.source && panel.labelled.target) {
    const box = make("div");
    const errors = panel.rows.map((name, i) => panel.rowTotals[i] - panel.images(i, panel.columns.indexOf(name)));
    const list = new LongList(panel.rows.map((_, i) => i), { what: "a class", first: MOST_CLASSES, name: (i) => panel.rows[i],
      orders: panel.rows.length > MOST_CLASSES ? [["errors", "most errors first", (i, j) => errors[j] - errors[i] || i - j], ["name", "by name", (i, j) => panel.rows[i].localeCompare(panel.rows[j])]] : [["given", "as given", (i, j) => i - j]],
      fill: (rows) => box.replaceChildren(rows.length ? confusionTable(panel, rows.slice(0, 2 * MOST_CLASSES), select, everything) : make("p", { class: "muted" }, "No class has this name.")) });
    view.append(make("div", { class: "table" }, panel.rows.length > MOST_CLASSES ? list.tools : null, box, make("button", { type: "button", class: "reset", on: { click: showAll } }, "Show all images")));
    list.update();
  }
  showAll();
  largestError(view, panel)?.click();
  view.append(gallery.element);
  return view;
}

// Columns are the classes of the rows, and the labels that most of their other images are given.
function confusionTable(panel, rows, select, everything) {
  const wanted = new Set(rows);
  const weight = new Map();
  for (const [i, j, images] of panel.counts) if (wanted.has(i)) weight.set(j, (weight.get(j) ?? 0) + images);
  const own = rows.map((i) => panel.columns.indexOf(panel.rows[i])).filter((j) => j >= 0);
  const others = panel.columns.map((_, j) => j).filter((j) => !own.includes(j) && (weight.has(j) || panel.columns.length <= MOST_CLASSES)).sort((one, other) => (weight.get(other) ?? 0) - (weight.get(one) ?? 0));
  const columns = [...own, ...others.slice(0, Math.max(0, MOST_CLASSES + 10 - own.length))];
  const names = rows.map((i) => panel.rowName(i)), titles = columns.map((j) => panel.columnName(j));
  const pictures = (side, labels, draw) => (labels.length <= 40 ? panel.samples(side, labels).map((slot) => (slot < 0 ? null : draw(slot))) : null);
  const { sources } = panel;
  return heatTable({
    caption: "Labels assigned to the sources of each class, in % of the class. Press a cell to see its images.",
    rows: names, columns: titles, rowTitle: "class", columnTitle: "label",
    rowPictures: pictures(sources, rows, (slot) => panel.sourcePicture(slot, "var(--cell)", true)),
    columnPictures: pictures(panel.targets, columns, (slot) => panel.targetPicture(slot, "var(--cell)", true)),
    pressRow: (i, button) => select(button, `Source class ${names[i]}`, everything.filter((slot) => sources.label[slot] === rows[i]), panel.rowTotals[rows[i]]),
    cell(i, j) {
      const number = panel.images(rows[i], columns[j]), share = number / panel.rowTotals[rows[i]];
      if (!number) return null;
      const words = `${names[i]} labelled ${titles[j]}: ${count(number)} of ${count(panel.rowTotals[rows[i]])} images, ${percent(share)}`;
      const slots = everything.filter((slot) => sources.label[slot] === rows[i] && sources.given[slot] === columns[j]);
      const press = (button) => select(button, `${names[i]} → ${titles[j]}`, slots, number);
      return { text: share >= 0.005 ? (100 * share).toFixed(0) : "·", label: words, shade: Math.pow(share, 0.7), kind: !panel.judged || names[i] === titles[j] ? "own" : "other", press, number: slots.length && number };
    },
  });
}

// The button of the fullest wrong cell that has images in the page.
function largestError(view, panel) {
  const number = (button) => Number(button.dataset.number);
  return [...view.querySelectorAll("td.other button")].reduce((best, button) => (best && number(best) >= number(button) ? best : button), null);
}

// One bar for each class: assigned labels, the estimated proportion with its interval, and the proportion in the target.
function classBars(panel) {
  const { facts } = panel;
  const target = facts.proportions;
  const items = panel.columns.map((name, j) => {
    const found = target?.[name];
    return { name, j, given: panel.columnTotals[j] / (panel.moved || 1), images: panel.columnTotals[j], found };
  });
  // one very wide interval must not hide all bars
  const longest = Math.max(1e-9, ...items.map(({ given, found }) => Math.max(given, found?.target ?? 0)));
  const widest = Math.min(4 * longest, Math.max(longest, ...items.map(({ found }) => found?.high ?? 0)));
  const body = make("tbody");
  const gallery = panel.labelled.source ? null : new Gallery(panel);
  const slots = panel.sources.index.map((_, slot) => slot);
  const place = (share) => `${(100 * share / widest).toFixed(2)}%`;
  const row = ({ name, j, given, images, found }) => {
    const words = [`${percent(given)} (${count(images)})`, found ? `estimated ${percent(found.low)} to ${percent(found.high)}` : null, found ? `target ${percent(found.target)}` : null].filter(Boolean).join(" · ");
    const press = () => gallery.show(`Label ${name}`, slots.filter((slot) => panel.sources.given[slot] === j), images);
    const title = make("span", { class: "name" }, shortened(name, 60));
    return make("tr", {}, make("th", { scope: "row", title: name }, gallery ? make("button", { type: "button", class: "link", on: { click: press } }, title) : title),
      make("td", { class: "track" }, make("span", { class: "bar-box", "aria-hidden": "true" }, make("span", { class: "fill", style: { width: place(given) } }),
        found ? make("span", { class: "whisker", style: { left: place(found.low), width: place(Math.max(0, Math.min(found.high, widest) - found.low)) } }) : null,
        found ? make("span", { class: "tick", style: { left: place(found.target) } }) : null)),
      make("td", { class: "words" }, words));
  };
  const difference = ({ given, found }) => Math.abs((found?.source ?? given) - (found?.target ?? given));
  const list = new LongList(items, { what: "a class", first: 15, name: ({ name }) => name, fill: (rows) => body.replaceChildren(...rows.map(row)),
    orders: [["images", "most images first", (one, other) => other.images - one.images || one.j - other.j], ["name", "by name", (one, other) => one.name.localeCompare(other.name, "en", { numeric: true })],
      ...(target ? [["difference", "largest difference first", (one, other) => difference(other) - difference(one)]] : [])] });
  list.update();
  const legend = target ? make("p", { class: "muted" }, "Bar: assigned labels. ", make("span", { class: "key whisker-key" }), " 90% interval of the estimated proportion in the source. ", make("span", { class: "key tick-key" }), " proportion in the target.") : null;
  return make("div", { class: "class-bars" }, list.tools, legend, make("table", { class: "class-table" }, make("caption", {}, "Labels assigned to the sources"), body), list.more, gallery?.element);
}

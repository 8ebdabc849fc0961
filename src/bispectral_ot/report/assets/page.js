// The page: a header with the facts, and a section for each question.

const data = JSON.parse(document.getElementById("data").textContent);
const charts = new Set();

function section(id, title, text, ...children) {
  const link = make("li", {}, make("a", { href: `#${id}` }, title));
  document.getElementById("sections").append(link);
  return make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), text ? make("p", { class: "lead" }, text) : null, ...children);
}

// The same view of each match, side by side.
function pair(panels, view) {
  return make("div", { class: panels.length > 1 ? "pair" : "single" }, ...panels.map((panel) => make("article", { "aria-label": panel.title },
    panels.length > 1 ? make("h3", {}, panel.title, panel.facts.accuracy == null ? null : make("small", {}, `${tenths(panel.facts.accuracy)} keep their class`)) : null, view(panel))));
}

function chart(view) {
  charts.add(view);
  return view.element;
}

const size = ({ images, shape }) => `${plural(images, "image")} of ${shape.join(" × ")}`;

function headline(panel, several) {
  const { facts } = panel;
  // What a reader wants to know first: how many are right, or else which labels to trust, or else the distance.
  const [part, words] = facts.accuracy != null ? [facts.accuracy, "keep their class"] : facts.doubtful != null ? [1 - facts.doubtful / facts.n, "of the labels are not doubtful"] : [null, "distance"];
  const lacking = facts.accuracy == null && facts.unmatched ? `${plural(facts.unmatched.sources, "source")} of ${count(facts.n)} without counterpart` : null;
  return make("div", { class: "headline" }, several ? make("h3", {}, panel.title) : null,
    make("p", { class: "number" }, make("strong", {}, part == null ? figure(facts.distance) : tenths(part)), " ", words),
    facts.majority == null || facts.accuracy == null ? null : make("p", { class: "muted" }, `${tenths(facts.majority)} if all were given the largest class`),
    lacking ? make("p", { class: "muted" }, lacking) : null,
    part == null ? null : make("div", { class: "gauge", "aria-hidden": "true", style: { "--share": part } }),
    make("p", {}, part == null ? null : `distance ${figure(facts.distance)} · `,
      make("span", { class: facts.converged ? "good" : "bad" }, facts.converged ? "✓ converged" : "✗ NOT converged"),
      " ", make("span", { class: "nowrap" }, `(error ${facts.marginal_error.toExponential(1)})`)));
}

function factsTable(panels) {
  const stages = [...new Set(panels.flatMap(({ facts }) => Object.keys(facts.seconds)))];
  const table = make("table", { class: "facts" }, make("caption", {}, "What was compared, and how"));
  if (panels.length > 1) table.append(make("thead", {}, make("tr", {}, make("td"), ...panels.map(({ title }) => make("th", { scope: "col" }, title)))));
  const body = make("tbody");
  const row = (name, value) => {
    const texts = panels.map(({ facts }) => value(facts) ?? "–");
    if (texts.every((text) => text === "–")) return;
    const same = texts.every((text) => text === texts[0]);
    body.append(make("tr", {}, make("th", { scope: "row" }, name), ...(same ? [make("td", { colspan: panels.length }, texts[0])] : texts.map((text) => make("td", {}, text)))));
  };
  const side = (facts, name) => `${facts[name].name}: ${size(facts[name])}, ${facts[name].classes ? plural(facts[name].classes.length, "class", "classes") : "no labels"}`;
  row("Source", (facts) => side(facts, "source"));
  row("Target", (facts) => side(facts, "target"));
  row("Changed first", ({ settings }) => [settings.split_halves && "disjoint halves of one set", settings.rotate_source && "source turned at random", settings.center && "contents centred", settings.resize && `resized to ${settings.resize}`,
    settings.limit && `at most ${count(settings.limit)} of each side`, settings.normalize && "pixels brought to mean 0, deviation 1"].filter(Boolean).join("; ") || null);
  row("Symmetry", ({ settings }) => settings.symmetry);
  row("Features", ({ settings }) => settings.features && `${settings.features}${settings.columns ? `, ${plural(settings.columns, "column")}` : ""}`);
  row("Components", ({ settings }) => settings.pca && `${settings.columns} principal components keep ${percent(settings.kept_variance)} of the variance`);
  row("Metric", ({ settings }) => settings.metric);
  row("Regularisation", ({ reg }) => (reg == null ? "none (exact transport)" : `${reg} of the largest distance`));
  row("Shares of classes", ({ settings, mass, shares }) => settings.marginals && [settings.marginals, mass == null ? null : `${percent(mass)} of the source's mass finds a target`,
    shares && Object.entries(shares).map(([name, each]) => `${name} ${percent(each.source)} (target ${percent(each.target)})`).slice(0, 12).join(", ")].filter(Boolean).join("; "));
  row("Without counterpart", ({ unmatched }) => unmatched && `${plural(unmatched.sources, "source")} and ${plural(unmatched.targets, "target")}; of those that have one, ${percent(unmatched.share)} are expected`);
  row("Doubtful labels", ({ doubtful }) => doubtful == null ? null : count(doubtful));
  row("Solver", ({ settings }) => settings.solver);
  row("Distance", ({ distance }) => figure(distance, 6));
  row("Class preservation", ({ accuracy, majority }) => accuracy == null ? null : `${(100 * accuracy).toFixed(2)} % of the source images${majority == null ? "" : ` (${tenths(majority)} if all were given the largest class)`}`);
  row("Targets per source", ({ targets_per_source }) => targets_per_source == null ? null : `${figure(targets_per_source, 3)} (effective number)`);
  row("Converged", (facts) => `${facts.converged ? "yes" : "NO"}: measured marginal error ${facts.marginal_error.toExponential(2)}, ${facts.tol} asked for, ${plural(facts.iterations, "pass", "passes")}`);
  row("Distances kept as", ({ settings }) => settings.storage && `${settings.storage}${settings.storage_error ? `, rounded by at most ${settings.storage_error.toExponential(1)} of the largest` : ""}`);
  for (const stage of stages) row(`Stage: ${stage}`, ({ seconds: spent, memory }) => spent[stage] == null ? null : seconds(spent[stage]) + (memory?.[stage] ? `, peak memory so far ${bytes(memory[stage])}` : ""));
  row("Total time", ({ seconds: spent }) => seconds(Object.values(spent).reduce((sum, value) => sum + value, 0)));
  table.append(body);
  return make("details", { open: innerWidth > 800 }, make("summary", {}, "Settings, convergence, time and memory"), make("div", { class: "scroll" }, table));
}

// Of the images on the map, which are a fair sample, the row that is right as often as the whole set.
function fairExamples(panels, slots, length) {
  const order = panels[0].map ? panels[0].map.sources.map(([slot]) => panels[0].sources.index[slot]) : panels[0].sources.index;
  const common = order.filter((index) => slots.every((map, i) => panels[i].sources.matches[map.get(index)]?.length));  // no mass, no match
  let chosen = common.slice(0, length), least = Infinity;
  for (let start = 0; panels[0].judged && start + length <= common.length; start += length) {
    const row = common.slice(start, start + length);
    const misfit = panels.reduce((sum, panel, i) => {
      const hits = row.filter((index) => panel.sameClass(slots[i].get(index), panel.sources.matches[slots[i].get(index)][0]));
      return sum + Math.abs(hits.length / length - panel.facts.accuracy);
    }, 0);
    if (misfit < least) [chosen, least] = [row, misfit];
  }
  return chosen;
}

// The same source images with the best target of each match.
function examples(panels) {
  const number = (panel) => new Map(panel.sources.index.map((index, slot) => [index, slot]));
  const slots = panels.map(number);
  const common = fairExamples(panels, slots, 12);
  const line = (name, cells) => make("tr", {}, make("th", { scope: "row" }, name), ...cells.map((cell) => make("td", {}, cell)));
  const words = `The same source images, and the best target of each${panels[0].judged ? " (✓ same class, ✗ another), right about as often as in the whole set" : ""}`;
  const table = make("table", { class: "examples" }, make("caption", {}, words));
  table.append(line("source", common.map((index) => panels[0].sourcePicture(slots[0].get(index), "3.25rem"))));
  panels.forEach((panel, i) => table.append(line(panel.title, common.map((index) => {
    const slot = slots[i].get(index), target = panel.sources.matches[slot][0], same = panel.sameClass(slot, target);
    return make("span", { class: `framed ${verdictClass(same)}` }, panel.targetPicture(target, "3.25rem"), make("small", {}, verdictMark(same)));
  }))));
  return make("div", {}, make("p", { class: "muted", "aria-hidden": "true" }, words), make("div", { class: "scroll" }, table));
}

const distanceWords = ({ facts, distances }) => `${count(distances.sources)} of ${count(facts.n)} source images to ${count(distances.targets)} of ${count(facts.m)} target images`;

function sampledWords(panels) {
  const { facts, labelled, sources, targets, map, distances } = panels[0];
  const all = sources.index.length === facts.n;
  return [
    `Counts, shares, distance and class preservation are of all ${count(facts.n)} source and ${count(facts.m)} target images.`,
    all ? "All source images can be looked at." : `Pictures: a random sample of ${count(sources.index.length)} source images (cell by cell, so that rare errors are among them) and ${count(targets.index.length)} target images (their best matches, and those on the map).`,
    map ? `Map: ${count(map.sources.length)} source and ${count(map.targets.length)} target images, by ${map.method}; the features and the metric are those of the match.` : "",
    distances && labelled.source && labelled.target ? `Mean distances between classes: ${distanceWords(panels[0])}.` : "",
  ].filter(Boolean).join(" ");
}

function showPanels(main, panels, group) {
  charts.clear();
  document.getElementById("sections").replaceChildren();
  const several = panels.length > 1;
  const { labelled } = panels[0];
  main.replaceChildren(...chooser(main, panels, group));
  main.append(section("overview", "Overview", null,
    make("div", { class: "headlines" }, ...panels.map((panel) => headline(panel, several))), several ? examples(panels) : null, factsTable(panels)));
  if (data.tables.length) main.append(tablesSection());
  const flowTitle = labelled.source || labelled.target ? "Class flow" : "Matches";
  main.append(section("flow", flowTitle, panels[0].judged ? "Blue cells are right, orange ones are wrong." : labelled.source || labelled.target ? "Which classes correspond." : "Each source image with its best targets.", pair(panels, flowView)));
  if (panels.every(({ map }) => map))
    main.append(section("map", "Map", `By ${panels[0].map.method}. Press a dot for its matches, or select an area to see what is there.`, pair(panels, (panel) => chart(new MapView(panel, data.class_colours)))));
  if (labelled.source && labelled.target && panels.every(({ distances }) => distances))
    main.append(section("distances", "Distances between classes", `From ${distanceWords(panels[0])}.`, pair(panels, distanceView)));
  if (panels.some(({ history }) => history.length))
    main.append(section("convergence", "Convergence", null, pair(panels.filter(({ history }) => history.length), (panel) => chart(new ConvergenceView(panel)))));
  main.append(section("sample", "What is shown", sampledWords(panels)));
  drawCharts();
}

function chooser(main, panels, group) {
  const tools = make("div", { class: "tools chooser" });
  if (data.groups.length > 1)
    tools.append(dropdown("Sets", data.groups.map(({ title }, i) => [i, title]), data.groups.indexOf(group), (i) => showGroup(main, data.groups[i])));
  if (group.panels.length > 2)
    panels.forEach((panel, place) => tools.append(dropdown(place ? "Right" : "Left", group.panels.map(({ title }, i) => [i, title]), group.panels.indexOf(panel),
      (i) => showPanels(main, panels.map((old, j) => (j === place ? group.panels[i] : old)), group))));
  return tools.children.length ? [tools] : [];
}

function showGroup(main, group) {
  const { panels } = group;
  const choice = ({ facts }) => facts.settings;
  const others = panels.filter((panel) => choice(panel).features !== choice(panels[0]).features);
  const other = others.find((panel) => choice(panel).metric === choice(panels[0]).metric) ?? others[0];
  showPanels(main, panels.length > 2 ? [panels[0], other ?? panels.at(-1)] : panels, group);
}

function tablesSection() {
  const block = ({ kind, text, header, rows }) => kind !== "table" ? make(kind === "heading" ? "h3" : "p", {}, text)
    : make("div", { class: "scroll" }, make("table", { class: "facts" }, make("thead", {}, make("tr", {}, ...header.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell, i) => make(i ? "td" : "th", i ? {} : { scope: "row" }, cell)))))));
  return section("tables", "Tables", null, ...data.tables.map(({ blocks }) => make("div", {}, ...blocks.map(block))));
}

function figuresSection() {
  const left = data.figures_left_out.length ? `Left out, to keep the page small: ${data.figures_left_out.join(", ")}.` : null;
  return section("figures", "Figures", left, ...data.figures.map(({ name, png }) => make("figure", { class: "static" }, make("img", { src: `data:image/png;base64,${png}`, alt: name }), make("figcaption", {}, name))));
}

function drawCharts() {
  for (const view of charts) view.draw();
}

function start() {
  const main = document.getElementById("main");
  const subtitle = data.groups.length ? `${data.groups[0].panels[0].facts.source.name} → ${data.groups[0].panels[0].facts.target.name}` : "";
  document.getElementById("top").append(...[make("p", { class: "kicker" }, "bispectral-ot"), make("h1", {}, data.title), data.groups.length === 1 ? make("p", { class: "lead" }, subtitle) : null,
    ...data.warnings.map((text) => make("p", { class: "warning", role: "note" }, `Warning: ${text}`))].filter(Boolean));
  document.getElementById("about-page").append(make("p", {}, data.about));
  main.replaceChildren();
  data.groups.forEach((group, number) => {
    const sheet = new Sheet(group.sheet, number);
    group.panels = group.panels.map((content) => new Panel(content, sheet));
  });
  const sheet = data.comparison && new Sheet(data.comparison.sheet, "sets");
  if (data.comparison) showComparison(main, new Sets(data.comparison, sheet));
  else if (data.groups.length) showGroup(main, data.groups[0]);
  else if (data.tables.length) main.append(tablesSection());
  if (data.figures.length) main.append(figuresSection());
  Promise.all([sheet?.ready, ...data.groups.flatMap(({ panels }) => panels[0].sheet.ready)]).then(() => document.documentElement.setAttribute("data-ready", ""));
  addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
  let waiting = null;
  new ResizeObserver(() => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { for (const view of charts) view.resize(); }, 120);
  }).observe(main);
}

start();

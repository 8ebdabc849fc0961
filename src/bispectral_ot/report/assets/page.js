// The page: answers first, then the evidence, then the settings.

const data = JSON.parse(document.getElementById("data").textContent);
const charts = new Set();

function section(id, title, text, ...children) {
  document.getElementById("sections").append(make("li", {}, make("a", { href: `#${id}` }, title)));
  return make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), text ? make("p", { class: "lead" }, text) : null, ...children);
}

// The same view of each match, side by side.
function pair(panels, view) {
  return make("div", { class: panels.length > 1 ? "pair" : "single" }, ...panels.map((panel) => make("article", { "aria-label": panel.title },
    panels.length > 1 ? make("h3", {}, panel.title, panel.facts.accuracy == null ? null : make("small", {}, `accuracy ${tenths(panel.facts.accuracy)}`)) : null, view(panel))));
}

// Charts are drawn when they come into view.
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) drawChart([...charts].find((view) => view.element === target));
}, { rootMargin: "300px" });

function chart(view) {
  charts.add(view);
  seen.observe(view.element);
  return view.element;
}

function drawChart(view) {
  if (!view || view.drawn) return;
  view.drawn = true;
  view.draw();
}

function redrawCharts() {
  for (const view of charts) if (view.drawn) view.draw();
}

const size = ({ images, shape }) => `${plural(images, "image")}${shape.length ? ` of ${shape.join(" × ")}` : ""}`;

function answer(title, number, share, ...words) {
  return make("div", { class: "answer" }, make("h3", {}, title), make("p", { class: "number" }, make("strong", {}, number)),
    share == null ? null : make("div", { class: "gauge", "aria-hidden": "true", style: { "--share": share } }), ...words.filter(Boolean).map((text) => make("p", { class: "muted" }, text)));
}

// The first answers: how many labels are right, whether the sets differ by more than the symmetry, which images do not belong.
function answers(panel, several) {
  const { facts } = panel;
  const expected = facts.expected_accuracy, found = [];
  const majority = facts.majority == null ? null : `${tenths(facts.majority)} if all had the label of the largest class`;
  if (expected != null) found.push(answer("Expected accuracy", tenths(expected), expected, `90% interval ${tenths(facts.expected_accuracy_low)} to ${tenths(facts.expected_accuracy_high)}`, facts.shift?.differs ? "not reliable: see shift" : null));
  if (facts.accuracy != null) found.push(answer("Accuracy", tenths(facts.accuracy), facts.accuracy, "of the sources get the label of their own class", majority));
  else if (expected == null && panel.labelled.target) found.push(answer("Expected accuracy", "unknown", null, "it needs two target classes of two images or more, and with balanced marginals, metric learning"), answer("Labels", count(facts.n), null, `from ${plural(facts.m, "target")} of ${plural(panel.columns.length, "class", "classes")}`));
  if (facts.shift) {
    const { differs, p_value, words } = facts.shift;
    const [kind, verdict] = differs ? ["bad", "Shifted"] : p_value == null ? ["muted", "Not tested"] : ["good", p_value < 0.01 ? "Small" : "None found"];
    found.push(make("div", { class: "answer" }, make("h3", {}, "Shift"), make("p", { class: "number" }, make("strong", { class: kind }, verdict)), make("p", { class: differs ? "bad" : "muted" }, words.replace(/^(not tested|none found|small): /, ""))));
  }
  if (facts.to_check != null) found.push(answer("To check", count(facts.to_check), null, facts.to_check ? "labels, least certain first, for an accuracy of 95%" : "an accuracy of 95% is expected without any check"));
  if (facts.outliers && facts.m * facts.outliers.level >= 1) found.push(answer("Outliers", count(facts.outliers.sources), null, `of ${plural(facts.n, "source")} are unlike the targets (${count(Math.round(facts.outliers.level * facts.n))} expected by chance)`));
  if (facts.poses) found.push(answer("Poses", count(facts.poses.certain), null, `of ${plural(facts.poses.sources, "source")} have a certain pose`));
  if (!found.length) found.push(answer("Distance", figure(facts.distance), null, `${plural(facts.n, "source")} and ${plural(facts.m, "target")}, no labels`));
  return make("div", { class: "answers-box" }, several ? make("h3", { class: "panel-title" }, panel.title) : null,
    facts.converged ? null : make("p", { class: "warning" }, `✗ NOT converged: marginal error ${facts.marginal_error.toExponential(1)}, tolerance ${facts.tol}. The results are not reliable.`),
    make("div", { class: "answer-grid" }, ...found));
}

function factsTable(panels) {
  const stages = [...new Set(panels.flatMap(({ facts }) => Object.keys(facts.seconds)))];
  const table = make("table", { class: "facts" }, make("caption", {}, "Sets and settings"));
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
  row("Prepared", ({ settings }) => [settings.split_halves && "disjoint halves of one set", settings.rotate_source && "source rotated at random", settings.center && "centred", settings.resize && `resized to ${settings.resize}`,
    settings.limit && `at most ${count(settings.limit)} of each set`, settings.normalize && "pixels normalized to mean 0, deviation 1"].filter(Boolean).join("; ") || null);
  row("Symmetry", ({ settings }) => settings.symmetry);
  row("Features", ({ settings }) => settings.features && `${settings.features}${settings.columns ? `, ${plural(settings.columns, "column")}` : ""}`);
  row("Principal components", ({ settings }) => settings.pca && `${settings.columns} keep ${percent(settings.kept_variance)} of the variance`);
  row("Metric", ({ settings }) => settings.metric);
  row("Regularization", ({ reg }) => (reg == null ? "none (exact transport)" : `${reg} of the largest distance`));
  row("Marginals", ({ settings, mass }) => settings.marginals && [settings.marginals, mass == null || mass > 0.9995 ? null : `transported mass ${percent(mass)}`].filter(Boolean).join("; "));
  row("Solver", ({ settings }) => settings.solver);
  row("Distance", ({ distance }) => figure(distance, 6));
  row("Targets per source", ({ targets_per_source }) => (targets_per_source == null ? null : `${figure(targets_per_source, 3)} (effective number)`));
  row("Converged", (facts) => `${facts.converged ? "yes" : "NO"}: measured marginal error ${facts.marginal_error.toExponential(2)}, tolerance ${facts.tol}, ${plural(facts.iterations, "iteration")}`);
  row("Cost stored as", ({ settings }) => settings.storage && `${settings.storage}${settings.storage_error ? `, rounded by at most ${settings.storage_error.toExponential(1)} of the largest` : ""}`);
  for (const stage of stages) row(`Time: ${stage}`, ({ seconds: spent, memory }) => (spent[stage] == null ? null : seconds(spent[stage]) + (memory?.[stage] ? `, peak memory so far ${bytes(memory[stage])}` : "")));
  row("Total time", ({ seconds: spent }) => seconds(Object.values(spent).reduce((sum, value) => sum + value, 0)));
  table.append(body);
  return make("div", { class: "scroll" }, table);
}

// Of the images on the map, a random sample, the row whose accuracy is that of the whole set.
function fairExamples(panels, slots, length) {
  const order = panels[0].map ? panels[0].map.sources.map((slot) => panels[0].sources.index[slot]) : panels[0].sources.index;
  const common = order.filter((index) => slots.every((map, i) => panels[i].sources.matches[map.get(index)]?.length));
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
  const slots = panels.map((panel) => new Map(panel.sources.index.map((index, slot) => [index, slot])));
  const common = fairExamples(panels, slots, 12);
  const line = (name, cells) => make("tr", {}, make("th", { scope: "row" }, name), ...cells.map((cell) => make("td", {}, cell)));
  const words = `The same source images, and the best target of each${panels[0].judged ? " (✓ same class, ✗ another); the accuracy is about that of the whole set" : ""}`;
  const table = make("table", { class: "examples" }, make("caption", {}, words));
  table.append(line("source", common.map((index) => panels[0].sourcePicture(slots[0].get(index), "3.25rem"))));
  panels.forEach((panel, i) => table.append(line(panel.title, common.map((index) => {
    const slot = slots[i].get(index), target = panel.sources.matches[slot][0], same = panel.sameClass(slot, target);
    return make("span", { class: `framed ${verdictClass(same)}` }, panel.targetPicture(target, "3.25rem"), make("small", {}, verdictMark(same)));
  }))));
  return make("div", {}, make("p", { class: "muted", "aria-hidden": "true" }, words), make("div", { class: "scroll" }, table));
}

function sampledWords(panels) {
  const { facts, sources, targets, map } = panels[0];
  const all = sources.index.length === facts.n;
  return [
    `All counts and percentages are of all ${count(facts.n)} source and ${count(facts.m)} target images.`,
    all ? "All source images are in the page." : `Pictures: ${count(sources.index.length)} source images (the least certain labels, outliers, and a random sample${panels[0].labelled.source ? " of every cell of the confusion matrix" : ""}) and ${count(targets.index.length)} target images (their best matches, and those on the map).`,
    map ? `Map: t-SNE (perplexity 30) of ${count(map.sources.length)} source and ${count(map.targets.length)} target images by the distances of the match, reduced to ${map.vectors[0].length} dimensions.` : "",
  ].filter(Boolean).join(" ");
}

function showPanels(main, panels) {
  for (const view of charts) seen.unobserve(view.element);
  charts.clear();
  document.getElementById("sections").replaceChildren();
  const several = panels.length > 1;
  const { labelled } = panels[0];
  main.replaceChildren(...chooser(main, panels));
  main.append(section("overview", "Overview", null, make("div", { class: several ? "pair" : "single" }, ...panels.map((panel) => answers(panel, several))), several ? examples(panels) : null));
  const [first] = panels;
  if (labelled.target && first.check.length)
    main.append(section("check", "Check first", `The least certain labels${several ? ` of ${first.title}` : ""}. Press a label, or a number key, to correct or confirm it.`, new CheckView(first).element));
  if (panels.some(({ outliers }) => outliers.some((side) => side.length)))
    main.append(section("outliers", "Outliers", "Images that are unlike the other set, the most distant first.", ...panels.filter(({ facts }) => facts.outliers).map(outlierView)));
  if (labelled.target)
    main.append(section("classes", first.facts.proportions ? "Class proportions" : "Assigned labels", null, pair(panels, classBars)));
  if (labelled.source || !labelled.target) {
    const titles = labelled.source && labelled.target ? ["Confusion matrix", panels[0].judged ? "Blue cells are right, orange ones are wrong." : "The two sets have no class name in common."] : ["Matches", "Source images with their best targets."];
    main.append(section("flow", ...titles, pair(panels, flowView)));
  }
  if (panels.every(({ map }) => map))
    main.append(section("map", "Map", "Neighbours are similar images. Press a dot for its matches, or select an area.", pair(panels, (panel) => chart(new MapView(panel, data.class_colours)))));
  const curves = panels.filter(({ history }) => history.length);
  const details = make("details", {}, make("summary", {}, "Settings, convergence and times"), factsTable(panels), curves.length ? pair(curves, (panel) => chart(new ConvergenceView(panel))) : null);
  details.addEventListener("toggle", () => { for (const view of charts) if (details.contains(view.element)) details.open && drawChart(view); });
  main.append(section("about", "How it was computed", sampledWords(panels), details));
}

// Of more than two matches, which two are shown.
function chooser(main, panels) {
  if (data.panels.length < 3) return [];
  const choices = data.panels.map(({ title }, i) => [i, title]);
  return [make("div", { class: "tools chooser" }, ...panels.map((panel, place) => dropdown(place ? "Right" : "Left", choices, data.panels.indexOf(panel),
    (i) => showPanels(main, panels.map((old, j) => (j === place ? data.panels[i] : old))))))];
}

function start() {
  const main = document.getElementById("main");
  const [{ facts } = {}] = data.panels;
  const subtitle = facts ? `${facts.source.name} → ${facts.target.name}` : null;
  const warnings = data.warnings.map((text) => make("p", { class: "warning", role: "note" }, `Warning: ${text}`));
  const folded = warnings.length > 1 ? [make("details", { class: "warnings" }, make("summary", {}, `${count(warnings.length)} warnings`), ...warnings)] : warnings;
  document.getElementById("top").append(...[make("p", { class: "kicker" }, "bispectral-ot"), make("h1", {}, data.title), subtitle ? make("p", { class: "lead" }, subtitle) : null, ...folded].filter(Boolean));
  document.getElementById("about-page").append(make("p", {}, data.about));
  main.replaceChildren();
  data.panels = data.panels.map((content, i) => new Panel(content, i));
  const sheet = data.comparison && new Sheet(data.comparison.sheet, "sets");
  if (data.comparison) showComparison(main, new Sets(data.comparison, sheet));
  else showPanels(main, data.panels.slice(0, 2));
  Promise.all([sheet?.ready, ...data.panels.map((panel) => panel.sheet.ready)]).then(() => document.documentElement.setAttribute("data-ready", ""));
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
    for (const view of charts) drawChart(view);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
  let waiting = null, width = main.clientWidth;
  new ResizeObserver(() => {
    if (main.clientWidth === width) return;  // only the height has changed
    width = main.clientWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => { for (const view of charts) if (view.drawn) view.resize(); }, 120);
  }).observe(main);
}

start();

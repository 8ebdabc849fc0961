// A comparison: all pairs as a shaded table and as a list; the address stores the choices.

// What the cells of the table show: a text, a shade from 0 to 1, and the words above.
function quantities(sets) {
  const largest = (value) => Math.max(...sets.pairs.map(value).filter(Number.isFinite), 1e-12);
  const farthest = largest(({ distance }) => distance), ratio = Math.max(1.5, largest(({ ratio }) => ratio));
  // shades begin at the nearest pair, but nearly equal distances stay nearly equal
  const length = ({ distance }) => Math.sqrt(Math.max(0, distance)), longest = Math.sqrt(farthest);
  const start = Math.min(longest / 1.5, ...sets.pairs.map(length));
  const unit = unitOf(farthest);
  const strength = (value, end) => 0.03 + 0.92 * Math.min(1, Math.max(0, value / end));
  const found = [["distance", { title: "Distance", caption: `Distance${unit.words}: stronger colours are larger distances.`,
    text: (pair) => unit.text(pair.distance), shade: (pair) => strength(length(pair) - start, longest - start) }]];
  if (sets.pairs.some((pair) => pair.ratio !== null))
    found.push(["ratio", { title: "Ratio", caption: "Distance divided by its reference, the distance expected between two samples of one population.",
      text: (pair) => (pair.ratio === null ? "–" : short(pair.ratio)), shade: (pair) => strength(Math.log(Math.max(1, pair.ratio)), Math.log(ratio)) }]);
  if (sets.tested)
    found.push(["p", { title: "p-value", caption: "p-value of the permutation test: stronger colours are smaller p-values.",
      text: (pair) => (pair.p_value === null ? "–" : figure(pair.p_value, 2).replace(/^0\./, ".")), shade: (pair) => (pair.p_value === null ? 0 : strength(Math.log(pair.p_value), Math.log(0.001))) }]);
  return new Map(found);
}

// The comparison's data, the chosen pair, and words for its images.
class Sets {
  constructor(content, sheet) {
    Object.assign(this, content);
    this.sheet = sheet;
    this.level = content.facts.settings.level ?? 0.05;
    this.tested = this.pairs.some((pair) => pair.verdict !== null);
    this.lookup = new Map(this.pairs.map((pair) => [`${pair.source} ${pair.target}`, pair]));
    this.views = [];
    this.chosen = this.farthest = this.pairs.reduce((best, pair) => ((pair.ratio ?? 0) > (best.ratio ?? 0) ? pair : best));
    this.pressed = this.chosen.target;
    this.state = { show: "distance", sort: "", filter: "", verdict: "all" };
  }

  between(one, other) {
    return this.lookup.get(`${Math.min(one, other)} ${Math.max(one, other)}`);
  }

  choose(pair) {
    if (!pair) return;
    this.chosen = pair;
    for (const view of this.views) view.update();
    this.keep();
  }

  // Two sets that are pressed one after the other are a pair.
  press(place) {
    const before = this.pressed;
    this.pressed = place;
    this.choose(this.between(before, place));
  }

  set(name, value) {
    this.state[name] = value;
    this.keep();
  }

  keep() {
    const words = new URLSearchParams({ source: this.names[this.chosen.source], target: this.names[this.chosen.target] });
    for (const [name, value] of Object.entries(this.state)) if (value && !["distance", "all"].includes(value)) words.set(name, value);
    history.replaceState(null, "", `#${words}`);
  }

  // The view named in the address, as far as it exists.
  recall(shown) {
    const words = new URLSearchParams(location.hash.slice(1));
    const pair = this.between(this.names.indexOf(words.get("source")), this.names.indexOf(words.get("target")));
    if (pair) this.chosen = pair;
    this.state = { show: shown.has(words.get("show")) ? words.get("show") : "distance", sort: words.get("sort") ?? "", filter: words.get("filter") ?? "",
      verdict: ["different", "alike"].includes(words.get("verdict")) ? words.get("verdict") : "all" };
  }

  differs(pair) {
    return pair.verdict === "changed" || pair.verdict === "explained";
  }

  verdictMark(pair) {
    const [kind, mark] = this.differs(pair) ? ["bad", "≠ "] : pair.verdict === "same" ? ["good", "≈ "] : ["muted", "? "];
    return pair.verdict === null ? null : make("b", { class: kind, "aria-hidden": "true" }, mark);
  }

  // A contribution as a fraction of the distance, if that is meaningful.
  sharesOf(pair) {
    return pair.distance > pair.error ? (part) => percent(part / pair.distance).replace("-", "−") : (part) => figure(part, 2).replace("-", "−");
  }

  className(slot) {
    const { set, label } = this.images;
    return label[slot] < 0 ? `#${this.images.index[slot]}` : this.classes[set[slot]][label[slot]];
  }

  picture(slot, size, decorative = false) {
    const { set, label, index, file } = this.images;
    const name = label[slot] < 0 ? "" : `${this.className(slot)}, `;
    return this.sheet.picture(slot, size, `${this.names[set[slot]]}: ${name}${file[slot] || `number ${index[slot]}`}`, decorative);
  }

  shownWords(pair) {
    const shown = pair.top.reduce((sum, top) => sum + top.length, 0);
    const few = shown < pair.contributors ? ` The page shows ${shown} of ${pair.contributors} that are known, because there are ${plural(this.pairs.length, "pair")}; contributors.csv has all.` : "";
    return `Below each image: its contribution, as a fraction of the distance.${few}`;
  }
}

class HeatView {
  constructor(sets) {
    this.sets = sets;
    this.shown = quantities(sets);
    this.box = make("div");
    this.summary = make("p", { class: "chosen", "aria-live": "polite" });
    this.tools = make("div", { class: "tools" });
    this.element = make("div", { class: "heat-view" }, this.shown.size > 1 ? this.tools : null, this.box, this.summary);
  }

  resize() {}

  draw() {
    const { sets } = this;
    this.tools.replaceChildren(choiceButtons("Show", [...this.shown].map(([name, { title }]) => [name, title]), sets.state.show, (value) => {
      sets.set("show", value);
      this.drawTable();
    }));
    this.drawTable();
  }

  drawTable() {
    const { sets } = this;
    const { order } = sets;
    const quantity = this.shown.get(sets.state.show);
    const names = order.map((place) => sets.names[place]);
    const pictures = order.map((place) => sets.picture(sets.samples[place][0], "var(--cell)", true));
    const marked = sets.tested ? " A corner marks a difference." : "";
    this.box.replaceChildren(heatTable({
      caption: `${quantity.caption}${marked} Press a cell for its pair.`, rows: names, columns: names, rowPictures: pictures, longest: LONGEST_SET,
      cell: (i, j) => {
        if (i === j) return null;
        const pair = sets.between(order[i], order[j]);
        return { text: quantity.text(pair), label: `${names[i]} and ${names[j]}: ${figure(pair.distance)}. ${pair.sentence}`, shade: quantity.shade(pair), kind: sets.differs(pair) ? "plain differs" : "plain", press: () => sets.choose(pair) };
      },
    }));
    this.update();
  }

  update() {
    const { sets } = this;
    const { source, target } = sets.chosen;
    const places = [sets.order.indexOf(source), sets.order.indexOf(target)];
    for (const button of this.box.querySelectorAll("button[aria-pressed]")) button.removeAttribute("aria-pressed");
    for (const [i, j] of [places, [...places].reverse()]) this.box.querySelector(`button[data-row="${i}"][data-column="${j}"]`)?.setAttribute("aria-pressed", "true");
    this.summary.replaceChildren(make("b", {}, `${sets.names[source]} and ${sets.names[target]}: `), sets.chosen.sentence, " ", make("a", { href: "#pair" }, "Details of the pair"));
  }
}

const COLUMNS = [["name", "sets"], ["ratio", "ratio"], ["p_value", "p-value"], ["distance", "distance"], ["error", "error"], ["reference", "reference"], ["low", "interval"]];

// All pairs, to sort and to filter.
class PairsView {
  constructor(sets) {
    this.sets = sets;
    const known = ([key]) => key === "name" || sets.pairs.some((pair) => pair[key] !== null);
    this.columns = COLUMNS.filter(known);
    this.input = make("input", { type: "search", id: "filter", autocomplete: "off", on: { input: () => {
      sets.set("filter", this.input.value);
      this.fill();
    } } });
    this.tools = make("div", { class: "tools" });
    this.said = make("p", { class: "muted", "aria-live": "polite" });
    this.head = make("tr");
    this.body = make("tbody");
    this.element = make("div", { class: "pairs-view" }, this.tools, this.said, make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "All pairs" },
      make("table", { class: "facts figures" }, make("caption", {}, "All pairs"), make("thead", {}, this.head), this.body)));
  }

  resize() {}

  draw() {
    const { sets } = this;
    this.input.value = sets.state.filter;
    this.tools.replaceChildren(make("span", { class: "dropdown" }, make("label", { for: "filter" }, "Find a set"), " ", this.input));
    if (sets.tested)
      this.tools.append(choiceButtons("Which pairs", [["all", "All"], ["different", "≠ Changed"], ["alike", "≈ No change found"]], sets.state.verdict, (value) => {
        sets.set("verdict", value);
        this.fill();
      }));
    this.head.replaceChildren(...this.columns.map(([key, title]) => make("th", { scope: "col", "data-key": key }, make("button", { type: "button", on: { click: () => this.sort(key) } }, title))));
    this.fill();
  }

  sort(key) {
    this.sets.set("sort", this.sets.state.sort === key ? `-${key}` : key);
    this.fill();
  }

  fill() {
    const { sets } = this;
    const { sort, filter, verdict } = sets.state;
    const wanted = filter.trim().toLowerCase();
    const name = (pair) => `${sets.names[pair.source]} and ${sets.names[pair.target]}`;
    const pairs = sets.pairs.filter((pair) => name(pair).toLowerCase().includes(wanted) && (verdict === "all" || sets.differs(pair) === (verdict === "different")));
    const [key, direction] = sort.startsWith("-") ? [sort.slice(1), -1] : [sort, 1];
    if (key === "name") pairs.sort((one, other) => direction * name(one).localeCompare(name(other)));
    else if (this.columns.some(([column]) => column === key)) pairs.sort((one, other) => (one[key] === null) - (other[key] === null) || direction * (one[key] - other[key]));
    for (const cell of this.head.children) {
      const here = cell.dataset.key === key;
      if (here) cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    }
    const texts = { name, distance: (pair) => figure(pair.distance), error: (pair) => pair.error.toExponential(1), reference: (pair) => figure(pair.reference), ratio: (pair) => figure(pair.ratio, 3),
      p_value: (pair) => figure(pair.p_value, 3), low: (pair) => (pair.low === null ? "–" : `${figure(pair.low, 3)} to ${figure(pair.high, 3)}`) };
    this.rows = new Map();
    this.body.replaceChildren(...pairs.map((pair) => {
      const button = make("button", { type: "button", class: "link", on: { click: () => {
        sets.choose(pair);
        document.getElementById("pair").scrollIntoView();
      } }, title: name(pair) }, sets.verdictMark(pair), [pair.source, pair.target].map((place) => shortened(oneLine(sets.names[place]), LONGEST_SET)).join(" and "));
      const row = make("tr", { class: sets.differs(pair) ? "differs" : null }, make("th", { scope: "row" }, button), ...this.columns.slice(1).map(([column]) => make("td", { "data-key": column }, texts[column](pair))));
      this.rows.set(pair, row);
      return row;
    }));
    this.said.textContent = pairs.length === sets.pairs.length ? `${plural(pairs.length, "pair")}. Press a title to sort by it.` : `${count(pairs.length)} of ${plural(sets.pairs.length, "pair")}.`;
    this.update();
  }

  update() {
    for (const [pair, row] of this.rows) {
      if (pair === this.sets.chosen) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }
}

function setCards(sets) {
  const words = (place) => `${plural(sets.sizes[place], sets.facts.kind === "images" ? "image" : "shape")}${sets.classes[place].length ? `, ${plural(sets.classes[place].length, "class", "classes")}` : ""}`;
  const samples = sets.names.length > 12 ? 5 : 8;
  return make("ul", { class: "set-cards" }, ...sets.names.map((name, place) => make("li", {}, make("h3", {}, name), make("p", { class: "muted" }, words(place)),
    make("div", { class: "strip" }, ...sets.samples[place].slice(0, samples).map((slot) => sets.picture(slot, "2.4rem"))))));
}

function comparisonFacts(sets) {
  const { settings, seconds: spent, scale, shape } = sets.facts;
  const body = make("tbody");
  const row = (name, value) => value && body.append(make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value)));
  row("Distance", "debiased Sinkhorn divergence; 0 between a set and itself, not clipped at 0");
  row("Unit", `${figure(scale)} (${settings.metric ?? "cost"}): the largest cost within a set, without the top 1%`);
  row("Reference", "mean distance between two samples of these sizes from one population, estimated from random halves and quarters of each set");
  row("Images", sets.facts.kind === "images" ? shape.join(" × ") : null);
  row("Prepared", [settings.center && "centred", settings.resize && `resized to ${settings.resize}`, settings.grey && "made grey", settings.limit && `at most ${count(settings.limit)} of each set`, settings.normalize && "pixels normalized to mean 0, deviation 1"].filter(Boolean).join("; "));
  row("Symmetry", settings.symmetry);
  row("Features", settings.features && `${settings.features}${settings.columns ? `, ${plural(settings.columns, "column")}` : ""}`);
  row("Metric", settings.metric);
  row("Labels", settings.labels ? "the distance between classes is added to the cost between their images" : null);
  row("Regularization", settings.reg && `${settings.reg} of the unit`);
  row("Test", settings.permutations ? `${plural(settings.permutations, "permutation")}, at most ${count(settings.test_images)} images of a set` : "none");
  row("Interval", settings.bootstrap ? `bootstrap of ${settings.bootstrap}; unreliable if both sets come from one population` : null);
  row("Converged", sets.pairs.every(({ converged }) => converged) ? "yes, all pairs" : `NO: ${count(sets.pairs.filter(({ converged }) => !converged).length)} of ${plural(sets.pairs.length, "pair")} missed the tolerance`);
  row("Seed", String(settings.seed ?? ""));
  row("Time", Object.entries(spent).map(([stage, time]) => `${stage} ${seconds(time)}`).join(", "));
  return make("details", {}, make("summary", {}, "Settings and times"), make("div", { class: "scroll" }, make("table", { class: "facts" }, make("caption", {}, "How it was computed"), body)));
}

function findings(sets) {
  const { pairs, names } = sets;
  const [tests] = sets.symmetry_tests, [only] = pairs;
  if (pairs.length === 1) {
    if (!tests || only.p_value === null) return null;
    const parts = [["the distance between features", only.p_value], ["all features of the pixels", tests.p_values.nothing], ["the class proportions", tests.p_values.classes]]
      .filter(([, p]) => p != null).map(([what, p]) => `of ${what} (p = ${figure(p, 3)})`);
    return `${parts.length > 2 ? "Three" : "Two"} tests: ${parts.slice(0, -1).join(", ")}, and ${parts.at(-1)}. The verdict takes all of them into account, corrected for their number.`;
  }
  const pairWords = (pair) => `${names[pair.source]} and ${names[pair.target]}`;
  const nearest = pairs.reduce((best, pair) => (pair.distance < best.distance ? pair : best)), farthest = pairs.reduce((best, pair) => (pair.distance > best.distance ? pair : best));
  const different = pairs.filter((pair) => sets.differs(pair)).length;
  const chance = sets.level * pairs.length;
  return [`${pairWords(nearest)} are nearest to each other (${figure(nearest.distance, 3)}), ${pairWords(farthest)} farthest (${figure(farthest.distance, 3)}).`,
    sets.tested ? `${count(different)} of ${plural(pairs.length, "pair")} changed; about ${figure(chance, chance < 10 ? 1 : 2)} would be expected by chance (p ≤ ${sets.level}).` : "Not tested (--permutations 199 tests every pair)."].join(" ");
}

// Verdict of quality control: same, changed or moved, and the distance relative to its reference.
function verdict(sets) {
  const { pairs, names } = sets;
  const changed = pairs.filter((pair) => sets.differs(pair));
  const worst = (changed.length ? changed : pairs).reduce((best, pair) => ((pair.ratio ?? 0) > (best.ratio ?? 0) ? pair : best));
  const moved = sets.symmetry_tests.filter(({ verdict }) => verdict === "explained");
  const words = pairs.length === 1 ? (sets.differs(worst) ? (moved.length ? `Changed: ${moved[0].changes[0].replace("all of these", "several properties")}` : "Changed") : worst.verdict === "undecided" ? "Undecided" : "No change found") : `${count(changed.length)} of ${count(pairs.length)}`;
  const what = pairs.length === 1 ? worst.sentence : `pairs changed at the ${sets.level} level`;
  const grid = [make("div", { class: "answer" }, make("h3", {}, pairs.length === 1 ? `${names[0]} and ${names[1]}` : "Verdict"), make("p", { class: "number" }, make("strong", { class: !sets.tested || worst.verdict === "undecided" ? null : changed.length ? "bad" : "good" }, sets.tested ? words : "Not tested")), make("p", { class: "muted" }, sets.tested ? what : "--permutations 199 tests whether the sets differ"))];
  if (worst.ratio !== null) grid.push(answer("Distance", `${figure(worst.ratio, 3)} ×`, null, `its reference${pairs.length === 1 ? "" : ` (${names[worst.source]} and ${names[worst.target]})`}; for two samples of one population, the ratio is 1 on average`));
  const told = [...sets.symmetry_tests].sort((a, b) => (a.verdict === "same") - (b.verdict === "same")).slice(0, 3); // pairs that changed come first
  if (told.length) grid.push(make("div", { class: "answer" }, make("h3", {}, "What changed"), ...told.map(({ sentence }) => make("p", { class: "verdict-line" }, sentence))));
  return make("div", { class: "answer-grid" }, ...grid);
}

function showComparison(main, sets) {
  const heat = new HeatView(sets), pair = new PairView(sets), list = new PairsView(sets);
  const several = sets.names.length > 2;
  const views = several ? [heat, new TreeView(sets), new PlaneView(sets), pair, list] : [pair];
  main.classList.add("comparison");
  sets.recall(heat.shown);
  sets.views = views;
  main.append(section("overview", "Verdict", findings(sets), verdict(sets)));
  main.append(section("sets", "Sets", null, setCards(sets)));
  if (several) {
    const [, tree, plane] = views;
    main.append(section("distances", "Distances", null, make("div", { class: `overview ${sets.names.length > 12 ? "many" : "few"}` }, heat.element,
      make("div", { class: "charts" },
        make("article", {}, make("h3", {}, "Tree of the sets"), tree.element, make("p", { class: "muted" }, "Joined at the mean square root of their distances.")),
        make("article", {}, make("h3", {}, "Map of the sets"), plane.element,
          make("p", { class: "muted" }, `Multidimensional scaling, stress ${figure(sets.map.stress, 2)}. Circles: the uncertainty of a position due to sampling. Press two sets for their pair.`))))));
  }
  main.append(section("pair", several ? "The chosen pair" : "Details", null, pair.element));
  if (several && sets.symmetry_tests.length) main.append(section("symmetry-tests", "What changed", "P-values of tests that allow for each change. ≠ marks a difference.", symmetryTable(sets.symmetry_tests, sets.level, true)));
  if (several) main.append(section("pairs", "All pairs", null, list.element));
  main.append(section("about", "How it was computed", null, comparisonFacts(sets)));
  for (const view of views) {
    charts.add(view);
    drawChart(view);
  }
  addEventListener("hashchange", () => {
    if (!location.hash.includes("=")) {  // a jump to a section, which has happened
      sets.keep();
      return;
    }
    sets.recall(heat.shown);
    redrawCharts();
  });
}

// One pair of sets: its figures in words, and the contributions of classes and images to its distance.

const MOST_BARS = 12, MOST_IMAGES = 8;

// A button that shows the other elements of a list, or nothing if all are shown.
function moreButton(list, first, words) {
  [...list.children].forEach((child, place) => { child.hidden = place >= first; });
  if (list.children.length <= first) return null;
  const button = make("button", { type: "button", class: "more", on: { click: () => {
    for (const child of list.children) child.hidden = false;
    button.remove();
  } } }, words);
  return button;
}

class PairView {
  constructor(sets) {
    this.sets = sets;
    this.content = make("div", { class: "pair-view" });
    this.tools = make("div", { class: "tools" });
    this.element = make("div", { class: "pair-view" }, sets.names.length > 2 ? this.tools : null, this.content);
  }

  draw() {
    const { sets } = this;
    const pair = sets.chosen;
    const { source, target } = pair;
    const others = (here) => sets.names.map((name, place) => [place, name]).filter(([place]) => place !== here);
    // the selects stay while one of them has the focus: only their options follow
    const focus = document.activeElement?.closest?.("select")?.dataset.side;
    this.tools.replaceChildren(
      dropdown("Set", others(target), source, (place) => sets.choose(sets.between(Number(place), target))),
      dropdown("and", others(source), target, (place) => sets.choose(sets.between(source, Number(place)))));
    this.tools.querySelectorAll("select").forEach((select, side) => { select.dataset.side = side; });
    if (focus !== undefined) this.tools.querySelector(`select[data-side="${focus}"]`)?.focus();
    const parts = [this.figures(pair)];
    if (pair.classes.some(Boolean)) parts.push(this.bars(pair));
    this.content.replaceChildren(...[make("div", { class: "pair" }, ...parts), this.contributors(pair), symmetryTestsOf(sets, pair)].filter(Boolean));
  }

  update() {
    this.draw();
  }

  resize() {}

  figures(pair) {
    const { sets } = this;
    const { settings } = sets.facts;
    const [source, target] = [sets.names[pair.source], sets.names[pair.target]];
    const body = make("tbody");
    const row = (name, ...value) => body.append(make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, ...value)));
    row("Distance", `${figure(pair.distance)} ± ${pair.error.toExponential(1)}`, note("numerical error of the divergence"));
    if (pair.reference !== null) {
      row("Reference", figure(pair.reference), note(`mean distance between two samples of ${count(sets.sizes[pair.source])} and ${count(sets.sizes[pair.target])} images from one population`));
      row("Ratio", figure(pair.ratio, 3), note(`less sampling: ${figure(pair.distance - pair.reference, 3)}`));
    }
    if (pair.p_value === null) row("Test of the distance", "none", note("run again with --permutations 199"));
    else {
      const least = pair.p_value <= 1.0001 / (settings.permutations + 1);
      row("Test of the distance", `p = ${figure(pair.p_value, 3)}`, note(`${plural(settings.permutations, "permutation")}${least ? ", the smallest possible value" : ""}`));
    }
    if (pair.low !== null) row(`${figure(100 * (1 - sets.level), 3)}% interval`, `${figure(pair.low)} to ${figure(pair.high)}`, note(`bootstrap, ${plural(settings.bootstrap, "resampling")}`));
    if (!pair.converged) row("Converged", make("span", { class: "bad" }, "✗ NO"), note("the error above was reached"));
    return make("article", {}, make("h3", {}, `${source} and ${target}`),
      make("p", { class: "sentence" }, sets.verdictMark(pair), pair.sentence),
      make("table", { class: "facts" }, make("caption", {}, "Figures of this pair"), body));
  }

  // Contributions of the classes of both sides, those with the largest sum first.
  bars(pair) {
    const { sets } = this;
    const sides = [pair.source, pair.target];
    const byName = new Map();
    const add = (name, side, part) => {
      if (!byName.has(name)) byName.set(name, [null, null]);
      byName.get(name)[side] = part;
    };
    pair.classes.forEach((found, side) => found?.forEach(([code, part]) => add(sets.classes[sides[side]][code], side, part)));
    const rows = [...byName].sort(([, one], [, other]) => sum(other) - sum(one));
    const widest = Math.max(...rows.flatMap(([, parts]) => parts.map(Math.abs))) || 1;
    const shares = sets.sharesOf(pair);
    const bar = (part) => make("td", { class: part < 0 ? "minus" : null }, part === null ? null : make("span", { class: "bar", "aria-hidden": "true", style: { "--share": Math.abs(part) / widest } }),
      make("span", { class: "amount" }, part === null ? "–" : shares(part)));
    const table = make("table", { class: "bars" }, make("caption", {}, pair.distance > pair.error ? "Fraction of the distance" : "Contribution to the distance"),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "class"), ...sides.map((side) => make("th", { scope: "col", title: sets.names[side] }, shortened(sets.names[side], 20))))));
    const body = make("tbody", {}, ...rows.map(([name, parts]) => make("tr", {}, make("th", { scope: "row", title: name }, shortened(name, 24)), ...parts.map(bar))));
    table.append(body);
    const without = sides.filter((_, side) => !pair.classes[side]).map((place) => sets.names[place]);
    const negative = rows.some(([, parts]) => parts.some((part) => part < 0)) ? " Negative: closer to the other set than to its own." : "";
    return make("article", {}, make("h3", {}, "Classes"), make("p", { class: "muted" }, `${without.length ? `${without[0]} has no labels: its images have the rest of the distance.` : "All classes of both sides sum to the distance."}${negative}`), table, moreButton(body, MOST_BARS, `Show all ${count(rows.length)} classes`));
  }

  contributors(pair) {
    const { sets } = this;
    const shares = sets.sharesOf(pair);
    const names = [pair.source, pair.target].map((place) => sets.names[place]);
    const item = ([slot, part, counterpart]) => make("li", {},
      sets.picture(slot, "4rem"), make("span", { class: "label", title: sets.className(slot) }, shortened(sets.className(slot), LONGEST_NAME)),
      make("span", { class: "share" }, shares(part)), make("span", { class: "arrow", "aria-label": "best counterpart" }, "↓"),
      sets.picture(counterpart, "4rem"), make("span", { class: "label", title: sets.className(counterpart) }, shortened(sets.className(counterpart), LONGEST_NAME)));
    const list = (top, side) => {
      const images = make("ol", { class: "contributors" }, ...top.map(item));
      return make("article", {}, make("h4", {}, names[side]), make("p", { class: "muted" }, `with the best counterpart in ${names[1 - side]}`), images, moreButton(images, MOST_IMAGES, `Show all ${top.length}`));
    };
    if (!pair.top.some((top) => top.length)) return make("p", { class: "muted" }, "No images of this pair are in the page, to keep it small: contributors.csv names them.");
    const sampling = pair.verdict === "same" ? " No change was found: these contributions are mostly sampling." : "";
    return make("div", { class: "images" }, make("h3", {}, "Images that contribute most"), make("p", { class: "muted" }, `${sets.shownWords(pair)}${sampling}`), make("div", { class: "pair" }, ...pair.top.map(list)));
  }
}

const sum = (parts) => parts.reduce((total, part) => total + (part ?? 0), 0);
const note = (text) => make("small", { class: "note" }, text);

// A table of short numbers: thousandths or millionths if that saves zeros.
function unitOf(highest) {
  const [unit, words] = highest >= 10 ? [1, ""] : highest >= 0.003 ? [1e-3, " in thousandths"] : [1e-6, " in millionths"];
  return { words, text: (value) => short(value / unit) };
}

// At most four letters, but for very large numbers.
const short = (value) => (Math.abs(value) < 9.95 ? value.toFixed(1) : value.toFixed(0)).replace("-", "−");

function symmetryTestsOf(sets, pair) {
  const names = [sets.names[pair.source], sets.names[pair.target]];
  const found = sets.symmetry_tests.find(({ source, target }) => names.includes(source) && names.includes(target));
  return found ? make("div", { class: "images" }, make("h3", {}, "What changed"), make("p", { class: "sentence" }, found.sentence), symmetryTable([found], sets.level)) : null;
}

// p-values up to each symmetry; bold if a difference is found.
function symmetryTable(tests, level, sentences = false) {
  const groups = Object.keys(tests[0].p_values);
  const cell = (p, adjusted) => p === undefined ? make("td", {}, "") : make("td", { title: `${figure(adjusted, 3)} after correction for the number of tests` }, make(adjusted <= level ? "b" : "span", {}, adjusted <= level ? `${figure(p, 2)} ≠` : figure(p, 2)));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "p-values of tests that allow for a change" }, make("table", { class: "facts figures" }, make("caption", {}, "p-values of tests that allow for a change"),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "p-value allowing for"), ...groups.map((name) => make("th", { scope: "col" }, name)), sentences ? make("th", { scope: "col" }, "conclusion") : null)),
    make("tbody", {}, ...tests.map((found) => make("tr", {}, make("th", { scope: "row" }, `${found.source} and ${found.target}`), ...groups.map((name) => cell(found.p_values[name], found.adjusted[name])),
      sentences ? make("td", { class: "words" }, found.sentence) : null)))));
}

// Source images with their best targets: a filter, an order, and more on request.

const GALLERY_STEP = 6;
const LEAST_OF_BEST = 0.01;  // targets with less than this part of the best weight are not shown

const verdictClass = (right) => (right === null ? "" : right ? "right" : "wrong");
const verdictMark = (right) => (right === null ? "" : right ? "✓ " : "✗ ");

// A number as words and as a bar: both are the same number.
const probabilityBar = (probability) => make("span", { class: "probability" }, make("span", { class: "bar", "aria-hidden": "true", style: { "--share": probability } }), percent(probability));

// The source in its pose, if poses were estimated: the same picture, mirrored and rotated by the browser.
function uprightFigure(panel, slot) {
  if (!panel.sources.poses) return [];
  const [angle, mirrored, uncertainty, ambiguous] = panel.sources.poses[slot];
  if (angle === null) return [make("figure", { class: "source" }, make("figcaption", {}, make("small", {}, "no pose")))];
  const picture = panel.sourcePicture(slot, "4rem", true);
  picture.style.transform = `rotate(${-angle}deg) scaleX(${mirrored ? -1 : 1})`;
  const doubt = ambiguous ? "ambiguous" : uncertainty === null ? "" : `± ${uncertainty.toFixed(0)}°`;
  return [make("figure", { class: "source upright" }, make("span", { class: "turned" }, picture),
    make("figcaption", {}, make("b", {}, `${mirrored ? "mirrored, " : ""}${angle.toFixed(0)}°`), make("small", {}, doubt)))];
}

function targetList(panel, slot) {
  const { sources } = panel;
  const best = make("ol", { class: "targets" });
  sources.matches[slot].forEach((target, rank) => {
    const weight = sources.weights[slot][rank];
    if (weight < LEAST_OF_BEST * sources.weights[slot][0]) return;
    const same = panel.sameClass(slot, target);
    const label = panel.labelled.target ? panel.columnName(panel.targets.label[target]) : `#${panel.targets.index[target]}`;
    best.append(make("li", { class: verdictClass(same) },
      panel.targetPicture(target, "var(--target-size)"),
      make("span", { class: "label", title: label }, verdictMark(same), shortened(label, LONGEST_NAME)),
      make("span", { class: "share" }, percent(weight)),
      make("span", { class: "bar", "aria-hidden": "true", style: { "--share": weight } })));
  });
  return best;
}

function matchItem(panel, slot) {
  const { sources } = panel;
  const right = panel.right(slot);
  const name = panel.labelled.source ? panel.rowName(sources.label[slot]) : "";
  const picture = panel.sourcePicture(slot, "4rem");
  const shown = panel.checkView ? make("button", { type: "button", class: "open", "aria-label": `Check ${panel.sourceWords(slot)}`, on: { click: () => panel.checkView.open(slot) } }, picture) : picture;
  const item = make("li", { class: `match ${verdictClass(right)}${sources.poses ? " posed" : ""}` },
    make("figure", { class: "source" }, shown, make("figcaption", {}, name ? make("b", { title: name }, shortened(name, 2 * LONGEST_NAME)) : null, make("small", {}, `#${sources.index[slot]}`))),
    ...uprightFigure(panel, slot), make("span", { class: "arrow", "aria-hidden": "true" }, "→"), targetList(panel, slot));
  const said = panel.labelled.target ? [`${verdictMark(right)}label ${panel.columnName(sources.given[slot])}, probability `] : ["best match, weight "];
  item.append(make("p", { class: "verdict" }, ...said, probabilityBar(sources.probability[slot])));
  const files = [sources.file[slot], panel.targets.file[sources.matches[slot][0]]].filter(Boolean);
  if (files.length) item.append(make("p", { class: "file" }, ...files.flatMap((file, i) => [i ? " → " : null, pathText(file)])));
  return item;
}

// `slots` are places in panel.sources; `total` is the number of images in all.
class Gallery {
  constructor(panel) {
    this.panel = panel;
    this.filter = "all";
    this.order = "unsure";
    this.element = make("div", { class: "gallery" });
  }

  show(title, slots, total) {
    Object.assign(this, { title, slots, total, shown: GALLERY_STEP });
    this.draw();
  }

  draw() {
    const { panel } = this;
    const { probability } = panel.sources;
    const wanted = this.slots.filter((slot) => this.filter === "all" || panel.right(slot) === (this.filter === "right"));
    const direction = this.order === "sure" ? -1 : 1;
    wanted.sort((one, other) => direction * (probability[one] - probability[other]));
    const sampled = this.slots.length < this.total ? ` ${count(this.slots.length)} of them are in the page.` : "";
    const list = make("ol", { class: "matches" }, ...wanted.slice(0, this.shown).map((slot) => matchItem(panel, slot)));
    const tools = make("div", { class: "tools" });
    if (panel.judged)
      tools.append(choiceButtons("Which images", [["all", "All"], ["right", "✓ Right"], ["wrong", "✗ Wrong"]], this.filter, (value) => this.change("filter", value)));
    tools.append(choiceButtons("Order", [["unsure", "Least certain first"], ["sure", "Most certain first"]], this.order, (value) => this.change("order", value)));
    const left = wanted.length - this.shown;
    const more = left > 0 ? make("button", { type: "button", class: "more", on: { click: () => this.change("shown", this.shown + 2 * GALLERY_STEP) } }, `Show more (${count(left)} left)`) : null;
    const none = wanted.length ? null : make("p", { class: "muted" }, this.slots.length ? "None of them." : "The page has no image of this cell.");
    this.element.replaceChildren(...[make("h4", { tabindex: "-1" }, this.title), make("p", { class: "muted" }, `${plural(this.total, "image")}.${sampled}`), tools, none, list, more].filter(Boolean));
  }

  change(name, value) {
    const label = document.activeElement?.textContent;
    this[name] = value;
    if (name !== "shown") this.shown = GALLERY_STEP;
    this.draw();
    // the pressed button was redrawn: restore its focus
    [...this.element.querySelectorAll("button")].find((button) => button.textContent === label)?.focus();
  }
}

// Source images with their best targets: a filter, an order, and more on request.

const GALLERY_STEP = 6;
const LEAST_OF_BEST = 0.01;  // less than this part of the best share is not worth a picture

function verdictClass(right) {
  return right === null ? "" : right ? "right" : "wrong";
}

const verdictMark = (right) => (right === null ? "" : right ? "✓ " : "✗ ");

// The source in its pose, if poses were asked for: the same picture, mirrored and turned by the browser.
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

function matchItem(panel, slot) {
  const { sources } = panel;
  const right = panel.right(slot);
  const item = make("li", { class: `match ${verdictClass(right)}${sources.poses ? " posed" : ""}` });
  const name = panel.labelled.source ? panel.rowName(sources.label[slot]) : "";
  item.append(
    make("figure", { class: "source" },
      panel.sourcePicture(slot, "4rem"),
      make("figcaption", {}, make("b", {}, name), make("small", {}, `#${sources.index[slot]}`))),
    ...uprightFigure(panel, slot),
    make("span", { class: "arrow", "aria-label": "best targets" }, "→"));
  const best = make("ul", { class: "targets" });
  sources.matches[slot].forEach((target, rank) => {
    const share = sources.shares[slot][rank];
    if (share < LEAST_OF_BEST * sources.shares[slot][0]) return;
    const same = panel.sameClass(slot, target);
    const label = panel.labelled.target ? panel.columnName(panel.targets.label[target]) : `#${panel.targets.index[target]}`;
    best.append(make("li", { class: verdictClass(same) },
      panel.targetPicture(target, "var(--target-size)"),
      make("span", { class: "label", title: label }, verdictMark(same), shortened(label, LONGEST_NAME)),
      make("span", { class: "share" }, percent(share)),
      make("span", { class: "bar", "aria-hidden": "true", style: { "--share": share } })));
  });
  item.append(best);
  const said = panel.labelled.target
    ? `${verdictMark(right)}mapped to ${panel.columnName(sources.mapped[slot])} with ${percent(sources.share[slot])} of its mass`
    : `best match has ${percent(sources.share[slot])} of its mass`;
  item.append(make("p", { class: "verdict" }, said));
  const files = [sources.file[slot], panel.targets.file[sources.matches[slot][0]]].filter(Boolean);
  if (files.length) item.append(make("p", { class: "file" }, files.join(" → ")));
  return item;
}

// `slots` are places in panel.sources; `total` is how many images there are in all.
class Gallery {
  constructor(panel) {
    this.panel = panel;
    this.filter = "all";
    this.order = "sure";
    this.element = make("div", { class: "gallery" });
  }

  show(title, slots, total) {
    Object.assign(this, { title, slots, total, shown: GALLERY_STEP });
    this.draw();
  }

  draw() {
    const { panel } = this;
    const { share } = panel.sources;
    const wanted = this.slots.filter((slot) => this.filter === "all" || panel.right(slot) === (this.filter === "right"));
    const direction = this.order === "sure" ? -1 : 1;
    wanted.sort((one, other) => direction * (share[one] - share[other]));
    const sampled = this.slots.length < this.total ? ` Shown is a sample of ${count(this.slots.length)}.` : "";
    const heading = make("h4", { tabindex: "-1" }, this.title);
    const list = make("ol", { class: "matches" }, ...wanted.slice(0, this.shown).map((slot) => matchItem(panel, slot)));
    const tools = make("div", { class: "tools" });
    if (panel.judged)
      tools.append(choiceButtons("Which images", [["all", "All"], ["right", "✓ Right"], ["wrong", "✗ Wrong"]], this.filter,
        (value) => this.change("filter", value)));
    tools.append(choiceButtons("Order", [["sure", "Surest first"], ["unsure", "Least sure first"]], this.order,
      (value) => this.change("order", value)));
    const left = wanted.length - this.shown;
    const more = left > 0
      ? make("button", { type: "button", class: "more", on: { click: () => this.change("shown", this.shown + 2 * GALLERY_STEP) } },
          `Show more (${count(left)} left)`)
      : null;
    const none = wanted.length ? null : make("p", { class: "muted" }, this.slots.length ? "None of them." : "No image of this cell is in the sample.");
    this.element.replaceChildren(...[heading, make("p", { class: "muted" }, `${plural(this.total, "image")}.${sampled}`), tools, none, list, more].filter(Boolean));
  }

  change(name, value) {
    const label = document.activeElement?.textContent;
    this[name] = value;
    if (name !== "shown") this.shown = GALLERY_STEP;
    this.draw();
    // the pressed button was drawn anew: give it the focus back
    [...this.element.querySelectorAll("button")].find((button) => button.textContent === label)?.focus();
  }
}

// Labels to check first: one image at a time, large, with the labels that it could have; corrections are exported.

const MOST_CANDIDATES = 9;
const LONGEST_CANDIDATE = 40;  // letters of a name below its picture

class CheckView {
  constructor(panel) {
    this.panel = panel;
    panel.checkView = this;
    this.queue = [...panel.check];
    this.place = 0;
    this.key = `bispectral-ot corrections ${panel.checksum}`;
    this.corrections = new Map(this.recalled());
    this.card = make("div", { class: "check-card" });
    this.strip = make("ol", { class: "check-strip", "aria-label": "Images to check" });
    this.exportButton = make("button", { type: "button", class: "export more", on: { click: () => this.export() } });
    this.said = make("p", { class: "muted", "aria-live": "polite" });
    this.element = make("div", { class: "check", tabindex: "-1" }, this.card, this.strip, make("div", { class: "tools" }, this.exportButton, this.said));
    this.element.addEventListener("keydown", (event) => this.pressed(event));
    document.addEventListener("keydown", (event) => {  // when nothing has the focus, as after opening the page
      const { top, bottom } = this.card.getBoundingClientRect();
      if (event.target === document.body && this.card.isConnected && top >= 0 && bottom <= innerHeight) this.pressed(event);
    });
    this.draw();
  }

  recalled() {
    try {
      return JSON.parse(localStorage.getItem(this.key) ?? "[]").filter(([index, label]) => Number.isInteger(index) && this.panel.columns.includes(label));
    } catch { return []; }
  }

  get slot() {
    return this.queue[this.place];
  }

  // Labels that an image could have, the likeliest first: given, runner-up, and those of its best targets.
  candidates(slot) {
    const { sources, targets } = this.panel;
    const found = [sources.given[slot], ...(sources.runner_up_probability[slot] > 0 ? [sources.runner_up[slot]] : []), ...sources.matches[slot].map((target) => targets.label[target])];
    const chosen = this.corrections.get(sources.index[slot]);
    const labels = [...new Set(found)].slice(0, MOST_CANDIDATES);
    if (chosen !== undefined && !labels.includes(this.panel.columns.indexOf(chosen))) labels.push(this.panel.columns.indexOf(chosen));
    return labels.slice(-MOST_CANDIDATES);
  }

  open(slot) {
    if (!this.queue.includes(slot)) this.queue.splice(this.place, 0, slot);
    this.place = this.queue.indexOf(slot);
    this.draw();
    this.element.scrollIntoView({ block: "nearest" });
    this.element.focus({ preventScroll: true });
  }

  go(step) {
    this.place = Math.min(this.queue.length - 1, Math.max(0, this.place + step));
    this.draw();
    this.element.focus({ preventScroll: true });
  }

  choose(label) {
    const { sources, columns } = this.panel;
    this.corrections.set(sources.index[this.slot], columns[label]);
    try { localStorage.setItem(this.key, JSON.stringify([...this.corrections])); } catch { /* a page without storage */ }
    if (this.place < this.queue.length - 1) this.go(1);
    else this.draw();
  }

  pressed(event) {
    if (event.target.matches("select, input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const label = /^[1-9]$/.test(event.key) ? this.candidates(this.slot)[Number(event.key) - 1] : undefined;
    if (step === undefined && label === undefined) return;
    event.preventDefault();
    if (step !== undefined) this.go(step);
    else this.choose(label);
  }

  draw() {
    const { panel, slot } = this;
    const { sources, targets } = panel;
    const chosen = this.corrections.get(sources.index[slot]);
    const probability = new Map([[sources.runner_up[slot], sources.runner_up_probability[slot]], [sources.given[slot], sources.probability[slot]]]);
    const option = (label, number) => {
      const own = sources.matches[slot].find((each) => targets.label[each] === label) ?? targets.label.indexOf(label);
      const target = own < 0 ? undefined : own;
      const name = panel.columnName(label);
      return make("li", {}, make("button", { type: "button", class: "candidate", "aria-pressed": String(chosen === name), on: { click: () => this.choose(label) } },
        make("kbd", {}, String(number + 1)), target === undefined ? make("span", { class: "no-picture" }) : panel.targetPicture(target, "3rem", true),
        make("span", { class: "label", title: name }, shortened(name, LONGEST_CANDIDATE)), probability.has(label) ? probabilityBar(probability.get(label)) : null));
    };
    const every = panel.columns.map((name, j) => [j, name]).sort(([, one], [, other]) => one.localeCompare(other, "en", { numeric: true }));
    const menu = dropdown("Another label", [["", "…"], ...every], "", (value) => value !== "" && this.choose(Number(value)));
    const right = panel.right(slot);
    this.card.replaceChildren(
      make("figure", { class: "large" }, panel.largePicture(slot, "min(14rem, 60vw)"), make("figcaption", {}, sources.file.length ? pathText(sources.file[slot]) : `image ${sources.index[slot]}`,
        right === null ? null : make("span", { class: verdictClass(right) }, ` ${verdictMark(right)}true class ${panel.rowName(sources.label[slot])}`))),
      make("div", { class: "answers" },
        make("p", {}, make("b", {}, `${this.place + 1} of ${this.queue.length}`), `: is this ${panel.columnName(sources.given[slot])}? `, chosen === undefined ? null : make("span", { class: "good" }, `Your label: ${chosen}.`)),
        make("ol", { class: "candidates" }, ...this.candidates(slot).map(option)),
        make("div", { class: "tools" }, menu,
          make("span", { class: "choices" }, make("button", { type: "button", disabled: this.place === 0, on: { click: () => this.go(-1) } }, "← Previous"),
            make("button", { type: "button", class: "next", disabled: this.place === this.queue.length - 1, on: { click: () => this.go(1) } }, "Next →")))));
    this.strip.replaceChildren(...this.queue.map((each, i) => make("li", {}, make("button", { type: "button", "aria-current": i === this.place ? "true" : null, class: this.corrections.has(sources.index[each]) ? "done" : null,
      "aria-label": `${panel.sourceWords(each)}, label ${panel.columnName(sources.given[each])}`, on: { click: () => { this.place = i; this.draw(); this.element.focus({ preventScroll: true }); } } }, panel.sourcePicture(each, "2.4rem", true)))));
    const current = this.strip.children[this.place];
    this.strip.scrollLeft = Math.max(0, (current?.offsetLeft ?? 0) - this.strip.clientWidth / 2);
    this.exportButton.textContent = `Export corrections.csv (${this.corrections.size})`;
    this.exportButton.disabled = this.corrections.size === 0;
    this.said.textContent = this.corrections.size ? "Then run the same match with --corrections corrections.csv." : "Keys: 1 to 9 choose a label, ← and → show the previous and the next image.";
  }

  // Rows: position and file of the source, the label given by the reader, and the one of the match.
  csv() {
    const { sources, columns } = this.panel;
    const slots = new Map(sources.index.map((index, slot) => [index, slot]));
    const cell = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
    const lines = [...this.corrections].map(([index, label]) => {
      const slot = slots.get(index);
      return [index, sources.file[slot] ?? "", label, slot === undefined ? "" : columns[sources.given[slot]]].map(cell).join(",");
    });
    return ["source,file,label,previous_label", ...lines].join("\n") + "\n";
  }

  export() {
    const link = make("a", { href: URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" })), download: "corrections.csv" });
    document.body.append(link);
    link.click();
    link.remove();
  }
}

// Outliers of both sides, the most distant first.
function outlierView(panel) {
  const counts = panel.facts.outliers;
  const strip = (side, slots, draw) => make("article", {}, make("h3", {}, `${plural(counts[`${side}s`], side)} of ${count(side === "source" ? panel.facts.n : panel.facts.m)}`, make("small", {}, [side === "source" ? `${count(Math.round(counts.level * panel.facts.n))} expected by chance` : "", slots.length < counts[`${side}s`] ? `${count(slots.length)} shown, all in outliers.csv` : ""].filter(Boolean).join(" · "))),
    make("ul", { class: "picks" }, ...slots.map((slot) => make("li", { class: side === "target" ? "target" : null }, draw(slot)))));
  const open = (slot) => (panel.checkView ? make("button", { type: "button", "aria-label": `Check ${panel.sourceWords(slot)}`, on: { click: () => panel.checkView.open(slot) } }, panel.sourcePicture(slot, "3.2rem")) : panel.sourcePicture(slot, "3.2rem"));
  return make("div", { class: "pair" }, strip("source", panel.outliers[0], open), strip("target", panel.outliers[1], (slot) => panel.targetPicture(slot, "3.2rem")));
}

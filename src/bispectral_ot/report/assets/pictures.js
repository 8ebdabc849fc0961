// Thumbnails: all of a group lie on one sheet, and an element shows its part of it.

class Sheet {
  constructor({ columns, width, height, png }, number) {
    Object.assign(this, { columns, width, height, className: `sheet-${number}` });
    const raw = atob(png);
    const content = Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
    this.url = URL.createObjectURL(new Blob([content], { type: "image/png" }));
    document.head.append(make("style", {}, `.${this.className}{background-image:url(${this.url})}`));
    this.image = new Image();
    this.ready = new Promise((resolve) => {
      this.image.onload = this.image.onerror = resolve;
    });
    this.image.src = this.url;
  }

  // Place of a thumbnail on the sheet, in pixels.
  place(slot) {
    return [(slot % this.columns) * this.width, Math.floor(slot / this.columns) * this.height];
  }

  // An element whose longer side is `size`, any CSS length.
  picture(slot, size, label, decorative = false) {
    const longer = Math.max(this.width, this.height);
    const unit = `calc(${size} / ${longer})`;
    const [left, top] = this.place(slot);
    return make("span", {
      class: `picture ${this.className}`,
      role: decorative ? null : "img",
      "aria-label": decorative ? null : label,
      "aria-hidden": decorative ? "true" : null,
      title: label,
      style: {
        "--unit": unit,
        width: `calc(var(--unit) * ${this.width})`,
        height: `calc(var(--unit) * ${this.height})`,
        "background-size": `calc(var(--unit) * ${this.columns * this.width}) auto`,
        "background-position": `calc(var(--unit) * -${left}) calc(var(--unit) * -${top})`,
      },
    });
  }
}

// One match: its data, its sheet, and the words for its elements.
class Panel {
  constructor(content, sheet) {
    Object.assign(this, content);
    this.sheet = sheet;
    this.labelled = content.flow.labelled;
    const common = this.flow.rows.some((name) => this.flow.columns.includes(name));
    this.judged = this.labelled.source && this.labelled.target && common;
  }

  rowName(label) {
    return this.labelled.source ? this.flow.rows[label] : "all source images";
  }

  columnName(label) {
    return this.labelled.target ? this.flow.columns[label] : "all target images";
  }

  // true, false, or null where nobody can tell
  right(source) {
    if (!this.judged) return null;
    return this.flow.rows[this.sources.label[source]] === this.flow.columns[this.sources.mapped[source]];
  }

  sameClass(source, target) {
    if (!this.judged) return null;
    return this.flow.rows[this.sources.label[source]] === this.flow.columns[this.targets.label[target]];
  }

  sourceWords(slot) {
    const name = this.labelled.source ? `${this.rowName(this.sources.label[slot])}, ` : "";
    return `source: ${name}${this.fileOrNumber(this.sources, slot)}`;
  }

  targetWords(slot) {
    const name = this.labelled.target ? `${this.columnName(this.targets.label[slot])}, ` : "";
    return `target: ${name}${this.fileOrNumber(this.targets, slot)}`;
  }

  fileOrNumber(side, slot) {
    return side.file.length ? side.file[slot] : `number ${side.index[slot]}`;
  }

  sourcePicture(slot, size, decorative) {
    return this.sheet.picture(this.sources.picture[slot], size, this.sourceWords(slot), decorative);
  }

  targetPicture(slot, size, decorative) {
    return this.sheet.picture(this.targets.picture[slot], size, this.targetWords(slot), decorative);
  }

  // The first shown image of each class.
  samples(side, classes) {
    return classes.map((_, label) => side.label.indexOf(label));
  }
}

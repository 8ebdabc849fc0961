// Thumbnails: all of a match lie on one sheet, and an element shows its part of it.

class Sheet {
  constructor({ columns, width, height, type, image }, number) {
    Object.assign(this, { columns, width, height, className: `sheet-${number}` });
    const raw = atob(image);
    const content = Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
    this.url = URL.createObjectURL(new Blob([content], { type }));
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
    const unit = `calc(${size} / ${Math.max(this.width, this.height)})`;
    const [left, top] = this.place(slot);
    return make("span", {
      class: `picture ${this.className}${Math.max(this.width, this.height) > 40 ? " fine" : ""}`,
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

// One match: its data, its sheets, and the words for its elements.
class Panel {
  constructor(content, number) {
    Object.assign(this, content);
    this.sheet = new Sheet(content.sheet, number);
    this.largeSheet = content.large && new Sheet(content.large, `${number}-large`);
    this.labelled = { source: content.labelled[0], target: content.labelled[1] };
    this.cells = new Map(content.counts.map(([i, j, images]) => [`${i} ${j}`, images]));
    this.rowTotals = content.rows.map(() => 0);
    this.columnTotals = content.columns.map(() => 0);
    for (const [i, j, images] of content.counts) {
      this.rowTotals[i] += images;
      this.columnTotals[j] += images;
    }
    this.moved = this.rowTotals.reduce((sum, images) => sum + images, 0);
    const known = new Set(this.columns);
    this.judged = this.labelled.source && this.labelled.target && this.rows.some((name) => known.has(name));
  }

  // Images of a source class that are given a label.
  images(row, column) {
    return this.cells.get(`${row} ${column}`) ?? 0;
  }

  rowName(label) {
    return this.labelled.source ? this.rows[label] : "all source images";
  }

  columnName(label) {
    return this.labelled.target ? this.columns[label] : "all target images";
  }

  // true, false, or null if unknown
  right(source) {
    return this.judged ? this.rows[this.sources.label[source]] === this.columns[this.sources.given[source]] : null;
  }

  sameClass(source, target) {
    return this.judged ? this.rows[this.sources.label[source]] === this.columns[this.targets.label[target]] : null;
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
    return this.sheet.picture(slot, size, this.sourceWords(slot), decorative);
  }

  targetPicture(slot, size, decorative) {
    return this.sheet.picture(this.sources.index.length + slot, size, this.targetWords(slot), decorative);
  }

  largePicture(slot, size) {
    const place = this.check.indexOf(slot);
    return this.largeSheet && place >= 0 ? this.largeSheet.picture(place, size, this.sourceWords(slot)) : this.sourcePicture(slot, size);
  }

  // The first shown image of each class.
  samples(side, classes) {
    return classes.map((label) => side.label.indexOf(label));
  }
}

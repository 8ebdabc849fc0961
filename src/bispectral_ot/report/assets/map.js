// The map: both sets on one plane, to hover, to press and to brush.

const MOST_CLASS_COLOURS = 10;
const THUMBNAIL = 24;

class MapView {
  constructor(panel, classColours) {
    this.panel = panel;
    this.classColours = classColours;
    this.thumbnails = false;
    this.names = [...new Set([...(panel.labelled.source ? panel.flow.rows : []), ...(panel.labelled.target ? panel.flow.columns : [])])];
    // every point of the map: side, place in panel.sources or panel.targets, position
    this.points = ["sources", "targets"].flatMap((side) => panel.map[side].map(([slot, x, y]) => ({ side, slot, x, y })));
    this.build();
  }

  build() {
    this.canvas = make("div", { class: "map", tabindex: "0", role: "application",
      "aria-label": "Map of both sets. Arrow keys go from image to image, Enter shows the matches of one." });
    this.list = make("div", { class: "selection", "aria-live": "polite" });
    this.brushing = matchMedia("(pointer: fine)").matches;
    const tools = make("div", { class: "tools" },
      choiceButtons("Draw", [["dots", "Dots"], ["pictures", "Pictures"]], "dots", (value) => {
        this.thumbnails = value === "pictures";
        this.draw();
      }));
    if (this.names.length) {
      const choices = [...(this.names.length <= MOST_CLASS_COLOURS ? [["class", "Class"]] : []), ...(this.panel.judged ? [["verdict", "Right or wrong"]] : []), ["side", "Side"]];
      tools.append(choiceButtons("Colour by", choices, choices[0][0], (value) => {
        this.colouring = value;
        this.draw();
      }));
      this.colouring = choices[0][0];
    } else this.colouring = "side";
    this.brushButton = make("button", { type: "button", class: "brush", "aria-pressed": String(this.brushing), on: { click: () => this.setBrush(!this.brushing) } }, "Select an area");
    this.clearButton = make("button", { type: "button", class: "clear", disabled: true, on: { click: () => this.clear() } }, "Clear");
    this.zoomButton = make("button", { type: "button", class: "zoom", disabled: true, on: { click: () => this.zoom() } }, "Zoom in");
    tools.append(make("div", { class: "choices" }, this.brushButton, this.zoomButton, this.clearButton));
    this.legend = make("ul", { class: "legend", "aria-label": "Classes: press one to select its images" });
    this.element = make("div", { class: "map-view" }, tools, this.legend, this.canvas, this.list);
    walkPoints(this.canvas, this.points, (point) => this.hover(point), (point) => this.press(point));
  }

  // Called once the element is in the page, and again when colours change.
  draw() {
    this.chart?.dispose();
    this.chart = echarts.init(this.canvas, null, { renderer: "canvas" });
    this.chart.setOption(this.option());
    this.chart.on("mouseover", ({ data }) => this.hover(data.point));
    this.chart.on("mouseout", () => card.hide());
    this.chart.on("click", ({ data }) => this.press(data.point));
    this.chart.on("brushSelected", ({ batch }) => {
      if (!batch[0].areas.length) return;
      this.select(batch[0].selected.flatMap(({ seriesIndex, dataIndex }) => dataIndex.map((i) => this.series[seriesIndex][i].point)), "in the selected area");
    });
    this.setBrush(this.brushing);
    this.drawLegend();
  }

  className(point) {
    const { panel } = this;
    if (point.side === "sources") return panel.labelled.source ? panel.flow.rows[panel.sources.label[point.slot]] : null;
    return panel.labelled.target ? panel.flow.columns[panel.targets.label[point.slot]] : null;
  }

  colourOf(point) {
    if (this.colouring === "class") return this.classColours[this.names.indexOf(this.className(point))] ?? colour("muted");
    if (this.colouring === "side") return colour(point.side === "sources" ? "right" : "wrong");
    if (point.side === "targets") return colour("target");
    return colour(this.panel.right(point.slot) ? "right" : "wrong");
  }

  option() {
    const { sheet } = this.panel;
    const large = this.thumbnails ? this.uncrowded() : new Set();
    const size = this.points.length > 600 ? 7 : 10;
    const faded = (point) => (this.lit && !this.lit.has(point) ? { opacity: 0.12 } : {});
    const item = (point) => ({ value: [point.x, point.y], point, itemStyle: { ...this.itemStyle(point, large.has(point)), ...faded(point) },
      symbol: large.has(point) ? "rect" : point.side === "sources" ? "circle" : "triangle",
      symbolSize: large.has(point) ? THUMBNAIL + 2 : this.thumbnails ? size - 2 : point.side === "sources" ? size : size + 1 });
    const groups = [this.points.filter(({ side }) => side === "sources"), this.points.filter(({ side }) => side === "targets")];
    this.series = groups.map((points) => points.map(item));
    const scatter = this.series.map((data) => ({ type: "scatter", data, animation: false, z: 3, cursor: "pointer" }));
    const drawn = [...large];
    const scale = THUMBNAIL / Math.max(sheet.width, sheet.height);
    const pictures = this.thumbnails ? [{ type: "custom", silent: true, animation: false, z: 2, data: drawn.map(({ x, y }) => [x, y]),
      renderItem: (params, api) => {
        const point = drawn[params.dataIndex];
        const [x, y] = api.coord([point.x, point.y]);
        const side = this.panel[point.side];
        const [sx, sy] = sheet.place(side.picture[point.slot]);
        const [width, height] = [sheet.width * scale, sheet.height * scale];
        return { type: "image", silent: true, style: { image: sheet.image, x: x - width / 2, y: y - height / 2, width, height, sx, sy, sWidth: sheet.width, sHeight: sheet.height, ...faded(point) } };
      } }] : [];
    const lines = { type: "lines", coordinateSystem: "cartesian2d", silent: true, animation: false, z: 5, data: this.lines ?? [], lineStyle: { color: colour("ink"), width: 1.5, opacity: 0.8 } };
    return {
      animation: false,
      toolbox: { show: false },
      grid: { left: 4, right: 4, top: 4, bottom: 4 },
      ...this.axes(),
      brush: { toolbox: [], xAxisIndex: "all", yAxisIndex: "all", brushMode: "single", throttleType: "debounce", throttleDelay: 120, transformable: false,
        seriesIndex: [0, 1], outOfBrush: { colorAlpha: 0.15 }, brushStyle: { borderColor: colour("ink"), color: "rgba(128,128,128,.12)", borderWidth: 1.5 } },
      series: [...scatter, ...pictures, lines],
    };
  }

  // What is in view: [left, right, bottom, top], with one scale for both directions.
  window() {
    const [left, right, bottom, top] = this.range ?? [-1.04, 1.04, -1.04, 1.04];
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const scale = Math.max((right - left) / width, (top - bottom) / height);
    const [x, y] = [(left + right) / 2, (bottom + top) / 2];
    return [x - scale * width / 2, x + scale * width / 2, y - scale * height / 2, y + scale * height / 2];
  }

  axes() {
    const [left, right, bottom, top] = this.window();
    return { xAxis: { type: "value", show: false, min: left, max: right }, yAxis: { type: "value", show: false, min: bottom, max: top } };
  }

  resize() {
    this.chart.resize();
    this.chart.setOption(this.axes());
  }

  // Points whose pictures do not cover each other; the others stay dots.
  uncrowded() {
    const [left, right, bottom, top] = this.window();
    const taken = [], kept = new Set();
    for (const point of this.points) {
      const x = (point.x - left) / (right - left) * this.canvas.clientWidth, y = (point.y - bottom) / (top - bottom) * this.canvas.clientHeight;
      if (taken.some(([u, v]) => Math.max(Math.abs(u - x), Math.abs(v - y)) < THUMBNAIL + 3)) continue;
      taken.push([x, y]);
      kept.add(point);
    }
    return kept;
  }

  itemStyle(point, large) {
    const shade = this.colourOf(point);
    if (large) return { color: "rgba(0,0,0,0)", borderColor: shade, borderWidth: 2, borderType: point.side === "targets" ? "dotted" : "solid" };
    if (point.side === "targets") return { color: colour("paper"), borderColor: shade, borderWidth: 1.4 };
    return { color: shade, opacity: 0.85 };
  }

  drawLegend() {
    const mark = (shape, shade) => make("span", { class: `mark ${shape}`, style: { color: shade }, "aria-hidden": "true" });
    const bySide = this.colouring === "side";
    const words = [["source", "circle", "solid", "right"], ["target", "triangle", "dotted", "wrong"]].map(([name, dot, frame, shade]) =>
      make("li", {}, mark(this.thumbnails ? frame : dot, colour(bySide ? shade : "ink")), name));
    if (this.colouring === "verdict")
      words.push(...[["right", "source mapped to its class"], ["wrong", "to another class"], ["target", "target"]].map(([name, text]) => make("li", {}, mark("square", colour(name)), text)));
    const classes = this.names.map((name, i) => make("button", { type: "button", on: { click: () => this.select(this.points.filter((point) => this.className(point) === name), `of class ${name}`, true) } },
      this.colouring === "class" ? mark("square", this.classColours[i]) : null, name));
    if (classes.length <= MOST_CLASS_COLOURS) words.push(...classes.map((button) => make("li", {}, button)));
    else words.push(make("li", {}, make("details", {}, make("summary", {}, `select one of ${classes.length} classes`), make("div", { class: "chips" }, ...classes))));
    this.legend.replaceChildren(...words);
  }

  pointPicture(point, size) {
    return point.side === "sources" ? this.panel.sourcePicture(point.slot, size) : this.panel.targetPicture(point.slot, size);
  }

  hover(point, at) {
    const { panel } = this;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = at ?? this.chart.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, [point.x, point.y]);
    const words = point.side === "sources" ? panel.sourceWords(point.slot) : panel.targetWords(point.slot);
    const lines = [make("p", {}, make("b", {}, words))];
    if (point.side === "sources" && panel.labelled.target) {
      const right = panel.right(point.slot);
      lines.push(make("p", { class: verdictClass(right) }, `${verdictMark(right)}mapped to ${panel.columnName(panel.sources.mapped[point.slot])}, ${percent(panel.sources.share[point.slot])}`));
    }
    card.show([this.pointPicture(point, "5.5rem"), make("div", {}, ...lines)], box.left + x, box.top + y);
  }

  // The matches of one image, with lines to those that are on the map.
  press(point) {
    const { panel } = this;
    const isSource = point.side === "sources";
    const partners = isSource ? panel.sources.matches[point.slot].filter((_, rank) => panel.sources.shares[point.slot][rank] >= 0.01)
      : panel.sources.matches.flatMap((best, slot) => (best.includes(point.slot) ? [slot] : []));
    const there = this.points.filter(({ side, slot }) => side !== point.side && partners.includes(slot));
    this.lit = null;
    this.lines = there.map(({ x, y }) => ({ coords: [[point.x, point.y], [x, y]] }));
    this.chart.setOption({ series: this.option().series });
    const title = isSource ? panel.sourceWords(point.slot) : `Sampled sources that are matched with ${panel.targetWords(point.slot)}`;
    const matches = isSource ? [point.slot] : partners;
    this.list.replaceChildren(make("h4", {}, title),
      matches.length ? make("ol", { class: "matches" }, ...matches.slice(0, 12).map((slot) => matchItem(panel, slot)))
        : make("p", { class: "muted" }, "None of the sampled sources has it among its best targets."));
    this.clearButton.disabled = false;
  }

  // List the points of a brushed area or of a class.
  select(points, where, dim = false) {
    const { panel } = this;
    this.selected = points;
    const shown = points.slice(0, 80);
    const sides = ["sources", "targets"].map((side) => points.filter((point) => point.side === side));
    const tally = new Map();
    for (const point of points) tally.set(this.className(point), (tally.get(this.className(point)) ?? 0) + 1);
    const classes = [...tally].filter(([name]) => name !== null).sort((one, other) => other[1] - one[1]);
    const summary = classes.length < 2 ? "" : classes.slice(0, 8).map(([name, number]) => `${name}: ${count(number)}`).join(" · ") + (classes.length > 8 ? " · …" : "");
    const pictures = make("ul", { class: "picks" }, ...shown.map((point) => make("li", { class: point.side === "targets" ? "target" : null },
      make("button", { type: "button", "aria-label": `Matches of ${point.side === "sources" ? panel.sourceWords(point.slot) : panel.targetWords(point.slot)}`, on: { click: () => this.press(point) } },
        this.pointPicture(point, "2.5rem")))));
    this.list.replaceChildren(...[make("h4", {}, `${plural(sides[0].length, "source image")} and ${plural(sides[1].length, "target image")} ${where}`),
      summary ? make("p", { class: "muted" }, summary) : null, pictures,
      shown.length < points.length ? make("p", { class: "muted" }, `The first ${shown.length} are shown.`) : null].filter(Boolean));
    this.clearButton.disabled = false;
    this.zoomButton.disabled = points.length === 0;
    if (dim) this.highlight(points);
  }

  highlight(points) {
    this.lit = new Set(points);
    this.lines = [];
    this.chart.setOption({ series: this.option().series });
  }

  zoom() {
    const xs = this.selected.map(({ x }) => x), ys = this.selected.map(({ y }) => y);
    const margin = 0.03;
    this.range = [Math.min(...xs) - margin, Math.max(...xs) + margin, Math.min(...ys) - margin, Math.max(...ys) + margin];
    this.lines = [];
    this.draw();
    this.zoomButton.disabled = true;
  }

  clear() {
    this.range = this.lines = this.lit = null;
    this.selected = [];
    this.list.replaceChildren();
    this.clearButton.disabled = this.zoomButton.disabled = true;
    this.draw();
    this.brushButton.focus();
  }

  setBrush(on) {
    this.brushing = on;
    this.brushButton.setAttribute("aria-pressed", String(on));
    this.chart?.dispatchAction({ type: "takeGlobalCursor", key: "brush", brushOption: { brushType: on ? "rect" : false, brushMode: "single" } });
  }
}

// Keys: from point to point by where they lie.
function walkPoints(canvas, points, hover, press) {
  const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  let chosen = null;
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && chosen) press(chosen);
    const direction = step[event.key];
    if (!direction) return;
    event.preventDefault();
    const from = chosen ?? { x: 0, y: 0 };
    let nearest = null, best = Infinity;
    for (const point of points) {
      const [dx, dy] = [point.x - from.x, point.y - from.y];
      const along = dx * direction[0] + dy * direction[1], across = Math.abs(dx * direction[1]) + Math.abs(dy * direction[0]);
      const cost = along + 2 * across;
      if (along > 1e-9 && cost < best) [nearest, best] = [point, cost];
    }
    if (!nearest) return;
    chosen = nearest;
    hover(chosen);
  });
  canvas.addEventListener("blur", () => card.hide());
}

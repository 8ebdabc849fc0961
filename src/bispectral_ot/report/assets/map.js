// The map: both sets on one plane, to hover, to press and to brush.

// t-SNE (van der Maaten and Hinton, 2008) of `vectors`, from their first two coordinates: yields positions now and then.
function* layOut(vectors, { perplexity = 30, steps = 400, exaggeration = 6 } = {}) {
  const n = vectors.length, close = new Float64Array(n * n), force = new Float64Array(n * n);
  const squared = (one, other) => one.reduce((sum, value, k) => sum + (value - other[k]) ** 2, 0);
  const wanted = Math.log(Math.min(perplexity, Math.max(1, (n - 1) / 3)));
  for (let i = 0; i < n; i++) {
    const distances = vectors.map((other) => squared(vectors[i], other));
    let low = 0, high = Infinity, beta = 1 / (distances.reduce((sum, value) => sum + value, 0) / n || 1);
    for (let trial = 0; trial < 40; trial++) {
      let sum = 1e-300, weighted = 0;
      distances.forEach((value, j) => {
        const part = i === j ? 0 : Math.exp(-beta * value);
        close[i * n + j] = part;
        sum += part;
        weighted += part * value;
      });
      const entropy = Math.log(sum) + beta * weighted / sum;
      for (let j = 0; j < n; j++) close[i * n + j] /= sum;
      if (Math.abs(entropy - wanted) < 1e-3) break;
      if (entropy > wanted) [low, beta] = [beta, high === Infinity ? 2 * beta : (beta + high) / 2];
      else [high, beta] = [beta, (beta + low) / 2];
    }
  }
  for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) close[i * n + j] = close[j * n + i] = (close[i * n + j] + close[j * n + i]) / (2 * n);
  const spread = Math.max(1e-9, ...vectors.map(([x, y]) => Math.abs(x) + Math.abs(y)));
  const at = vectors.map(([x, y], i) => [x / spread + 1e-4 * Math.sin(7 * i), y / spread + 1e-4 * Math.cos(5 * i)]);
  const speed = at.map(() => [0, 0]);
  for (let step = 0; step < steps; step++) {
    let total = 0;
    for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) {
      const near = 1 / (1 + (at[i][0] - at[j][0]) ** 2 + (at[i][1] - at[j][1]) ** 2);
      force[i * n + j] = near;
      total += 2 * near;
    }
    const early = step < steps / 4 ? exaggeration : 1, rate = n / 6, momentum = step < steps / 4 ? 0.5 : 0.8;
    const pull = at.map(() => [0, 0]);
    for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) {
      const near = force[i * n + j], part = (early * close[i * n + j] - near / total) * near;
      for (let k = 0; k < 2; k++) {
        const each = 4 * part * (at[i][k] - at[j][k]);
        pull[i][k] += each;
        pull[j][k] -= each;
      }
    }
    at.forEach((point, i) => { for (let k = 0; k < 2; k++) point[k] += speed[i][k] = momentum * speed[i][k] - rate * pull[i][k]; });
    if (step % 5 === 4) yield at;
  }
  return at;
}

// Positions between -1 and 1, centred.
function scaled(at) {
  const ends = [0, 1].map((k) => [Math.min(...at.map((point) => point[k])), Math.max(...at.map((point) => point[k]))]);
  const reach = Math.max(...ends.map(([low, high]) => (high - low) / 2)) || 1;
  return at.map((point) => point.map((value, k) => (value - (ends[k][0] + ends[k][1]) / 2) / reach));
}

const MOST_CLASS_COLOURS = 10;
const THUMBNAIL = 24;

class MapView {
  constructor(panel, classColours) {
    this.panel = panel;
    this.classColours = classColours;
    this.thumbnails = false;
    this.names = [...new Set([...(panel.labelled.source ? panel.rows : []), ...(panel.labelled.target ? panel.columns : [])])];
    // every point of the map: side, place in panel.sources or panel.targets, position
    this.points = ["sources", "targets"].flatMap((side) => panel.map[side].map((slot) => ({ side, slot })));
    this.place(panel.map.vectors.map((vector) => vector.slice(0, 2)));
    this.layout = layOut(panel.map.vectors.map((vector) => vector.map((value) => value / 999)));
    this.build();
  }

  place(at) {
    scaled(at).forEach(([x, y], i) => Object.assign(this.points[i], { x, y }));
  }

  // Improve the layout for some milliseconds of each frame, and draw it when it is done.
  improve() {
    if (!this.layout) return;
    const end = performance.now() + 25;
    let found = this.layout.next();
    while (!found.done && performance.now() < end) found = this.layout.next();
    if (!found.done) {
      setTimeout(() => this.improve());
      return;
    }
    this.layout = null;
    this.place(found.value);
    this.canvas.setAttribute("data-laid-out", "");
    this.draw();
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
    if (this.layout && !this.improving) {
      this.improving = true;
      setTimeout(() => this.improve());
    }
  }

  className(point) {
    const { panel } = this;
    if (point.side === "sources" && !panel.labelled.source && panel.labelled.target) return panel.columns[panel.sources.given[point.slot]];
    if (point.side === "sources") return panel.labelled.source ? panel.rows[panel.sources.label[point.slot]] : null;
    return panel.labelled.target ? panel.columns[panel.targets.label[point.slot]] : null;
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
        const [sx, sy] = sheet.place(point.side === "sources" ? point.slot : this.panel.sources.index.length + point.slot);
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
    this.draw();
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
      words.push(...[["right", "source given its class"], ["wrong", "to another class"], ["target", "target"]].map(([name, text]) => make("li", {}, mark("square", colour(name)), text)));
    const classes = this.names.map((name, i) => make("button", { type: "button", on: { click: () => this.select(this.points.filter((point) => this.className(point) === name), `of class ${name}`, true) } },
      this.colouring === "class" ? mark("square", this.classColours[i]) : null, shortened(name, 24)));
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
      lines.push(make("p", { class: verdictClass(right) }, `${verdictMark(right)}label ${panel.columnName(panel.sources.given[point.slot])}, ${percent(panel.sources.probability[point.slot])}`));
    }
    card.show([this.pointPicture(point, "5.5rem"), make("div", {}, ...lines)], box.left + x, box.top + y);
  }

  // The matches of one image, with lines to those that are on the map.
  press(point) {
    const { panel } = this;
    const isSource = point.side === "sources";
    const partners = isSource ? panel.sources.matches[point.slot].filter((_, rank) => panel.sources.weights[point.slot][rank] >= 0.01)
      : panel.sources.matches.flatMap((best, slot) => (best.includes(point.slot) ? [slot] : []));
    const there = this.points.filter(({ side, slot }) => side !== point.side && partners.includes(slot));
    this.lit = null;
    this.lines = there.map(({ x, y }) => ({ coords: [[point.x, point.y], [x, y]] }));
    this.chart.setOption({ series: this.option().series });
    const title = isSource ? panel.sourceWords(point.slot) : `Sampled sources that are matched with ${panel.targetWords(point.slot)}`;
    const matches = isSource ? [point.slot] : partners;
    this.list.replaceChildren(make("h4", {}, title),
      matches.length ? make("ol", { class: "matches" }, ...matches.slice(0, 12).map((slot) => matchItem(panel, slot)))
        : make("p", { class: "muted" }, "No sampled source has it among its best targets."));
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

// Keys: from point to point by position.
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

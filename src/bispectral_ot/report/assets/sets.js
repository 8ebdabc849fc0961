// The sets as a tree and on a plane.

const LONGEST_SET = 20;  // letters of a name in tables and charts
const oneLine = (text) => text.replace(/\s+/g, " ").trim();

const chartText = () => ({ color: colour("muted"), fontFamily: "inherit" });

// Sets are joined where clusters are at that mean length; the order is that of the table.
class TreeView {
  constructor(sets) {
    this.sets = sets;
    this.element = make("div", { class: "tree", role: "img", style: { "--sets": sets.names.length },
      "aria-label": `Tree of the sets. From the top: ${sets.order.map((place) => sets.names[place]).join(", ")}.` });
  }

  resize() {
    this.chart.resize();
  }

  // Lines of the tree: from the two branches to where they meet, as [length, place] points.
  lines() {
    const { names, order, tree } = this.sets;
    const nodes = names.map((_, leaf) => [0, order.indexOf(leaf)]);
    return tree.map(([one, other, height]) => {
      const [near, far] = [nodes[one], nodes[other]];
      nodes.push([height, (near[1] + far[1]) / 2]);
      return [near, [height, near[1]], [height, far[1]], far];
    });
  }

  draw() {
    const { names, order, tree, chosen } = this.sets;
    const letters = names.length > 16 ? 11 : 12;
    const labels = names.map((name) => shortened(oneLine(name), LONGEST_SET));
    const room = Math.max(...labels.map((label) => measured(label, letters)));
    this.chart?.dispose();
    this.chart = echarts.init(this.element, null, { renderer: "svg" });
    const highest = tree.at(-1)[2] || 1;
    const strong = (place) => chosen.source === order[place] || chosen.target === order[place];
    this.chart.setOption({
      animation: false,
      grid: { left: Math.ceil(room) + 10, right: 12, top: 4, bottom: 24 },
      xAxis: { type: "value", min: 0, max: highest * 1.04,
        axisLine: { show: false }, axisTick: { show: false }, axisLabel: { ...chartText(), showMaxLabel: false, formatter: (value) => figure(value, 3) }, splitLine: { lineStyle: { color: colour("faint"), opacity: 0.5 } } },
      yAxis: { type: "value", min: -0.6, max: names.length - 0.4, inverse: true, interval: 1, axisLine: { show: false }, axisTick: { show: false }, splitLine: { show: false }, axisLabel: { show: false } },
      series: [
        { type: "lines", coordinateSystem: "cartesian2d", polyline: true, silent: true, data: this.lines().map((coords) => ({ coords })), lineStyle: { color: colour("right"), width: 1.6, opacity: 1 } },
        { type: "scatter", symbolSize: 0.1, silent: true, itemStyle: { color: "transparent" }, data: order.map((leaf, place) => ({ value: [0, place],
          label: { show: true, position: "left", distance: 4, color: colour("ink"), fontFamily: "inherit", fontSize: letters, fontWeight: strong(place) ? "bold" : "normal", formatter: () => labels[leaf] } })) },
      ],
    });
  }

  update() {
    this.draw();
  }
}

const pencil = document.createElement("canvas").getContext("2d");

// Width of a text in pixels, in the bold letters of the page.
function measured(text, size) {
  pencil.font = `bold ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pencil.measureText(text).width;
}

// Sets by multidimensional scaling, with circles as wide as sampling alone would move them.
class PlaneView {
  constructor(sets) {
    this.sets = sets;
    this.points = sets.map.positions.map(([x, y], place) => ({ place, x, y }));
    this.element = make("div", { class: "map plane", tabindex: "0", role: "application",
      "aria-label": "Map of the sets. Arrow keys go from set to set; Enter on two of them, one after the other, chooses their pair." });
    walkPoints(this.element, this.points, (point) => this.hover(point), (point) => sets.press(point.place));
  }

  resize() {
    this.draw();
  }

  hover({ place, x, y }) {
    const { sets } = this;
    const box = this.element.getBoundingClientRect();
    const [left, top] = this.chart.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, [x, y]);
    const nearest = sets.pairs.filter(({ source, target }) => source === place || target === place).reduce((best, pair) => (pair.distance < best.distance ? pair : best));
    card.show([sets.picture(sets.samples[place][0], "4rem", true), make("div", {}, make("p", {}, make("b", {}, sets.names[place])),
      make("p", {}, `nearest: ${sets.names[nearest.source === place ? nearest.target : nearest.source]}, ${figure(nearest.distance, 3)}`))], box.left + left, box.top + top);
  }

  // What is in view, with one scale for both directions and room for names at the right.
  window() {
    const { positions, radii } = this.sets.map;
    const { clientWidth: width, clientHeight: height } = this.element;
    const ends = [0, 1].map((axis) => [Math.min(...positions.map((at, i) => at[axis] - (radii[i] ?? 0))), Math.max(...positions.map((at, i) => at[axis] + (radii[i] ?? 0)))]);
    const names = Math.min(110, width / 4);
    const scale = Math.max((ends[0][1] - ends[0][0]) / (width - 2 * 24 - names), (ends[1][1] - ends[1][0]) / (height - 2 * 24)) || 1;
    const middle = ends.map(([low, high]) => (low + high) / 2);
    middle[0] += names / 2 * scale;
    return [middle[0] - scale * width / 2, middle[0] + scale * width / 2, middle[1] - scale * height / 2, middle[1] + scale * height / 2];
  }

  label({ place }) {
    return shortened(oneLine(this.sets.names[place]), LONGEST_SET);
  }

  // On which side of its dot each name stands, the first points first; those that would cover something have none.
  labelSides(points, letters) {
    const [left, right, bottom, top] = this.window();
    const { clientWidth: width, clientHeight: height } = this.element;
    const dots = points.map(({ x, y }) => [(x - left) / (right - left) * width, (top - y) / (top - bottom) * height]);
    const taken = dots.map(([x, y]) => [x - 5, y - 5, x + 5, y + 5]);
    const free = ([l, t, r, b]) => l > 0 && t > 0 && r < width && b < height && taken.every(([l2, t2, r2, b2]) => r < l2 || r2 < l || b < t2 || b2 < t);
    const sides = new Map();
    points.forEach((point, i) => {
      const [x, y] = dots[i], wide = measured(this.label(point), letters), half = 0.6 * letters, gap = 7;
      const boxes = { right: [x + gap, y - half, x + gap + wide, y + half], left: [x - gap - wide, y - half, x - gap, y + half],
        top: [x - wide / 2, y - gap - 2 * half, x + wide / 2, y - gap], bottom: [x - wide / 2, y + gap, x + wide / 2, y + gap + 2 * half] };
      const side = Object.keys(boxes).find((name) => free(boxes[name]));
      if (!side) return;
      sides.set(point, side);
      taken.push(boxes[side]);
    });
    return sides;
  }

  draw() {
    const { sets, points } = this;
    const [left, right, bottom, top] = this.window();
    const { source, target } = sets.chosen;
    const strong = ({ place }) => place === source || place === target;
    const letters = points.length > 16 ? 11 : 12;
    const sides = this.labelSides([...points].sort((one, other) => strong(other) - strong(one)), letters);
    this.chart?.dispose();
    this.chart = echarts.init(this.element, null, { renderer: "svg" });
    const circle = (params, api) => {
      const point = points[params.dataIndex];
      const [x, y] = api.coord([point.x, point.y]);
      const radius = sets.map.radii[point.place];
      return radius === null ? null : { type: "circle", silent: true, shape: { cx: x, cy: y, r: api.size([radius, 0])[0] }, style: points.length > 12 ? { fill: "none", stroke: colour("right"), opacity: 0.3 } : { fill: colour("right"), opacity: 0.12 } };
    };
    this.chart.setOption({
      animation: false,
      grid: { left: 0, right: 0, top: 0, bottom: 0 },
      xAxis: { type: "value", show: false, min: left, max: right },
      yAxis: { type: "value", show: false, min: bottom, max: top },
      series: [
        { type: "custom", silent: true, data: points.map(({ x, y }) => [x, y]), renderItem: circle, z: 1 },
        { type: "lines", coordinateSystem: "cartesian2d", silent: true, z: 2, data: [{ coords: [source, target].map((place) => sets.map.positions[place]) }], lineStyle: { color: colour("wrong"), width: 2, type: "dashed", opacity: 1 } },
        { type: "scatter", z: 3, cursor: "pointer", symbolSize: points.length > 16 ? 8 : 11,
          data: points.map((point) => ({ value: [point.x, point.y], point, itemStyle: { color: colour(strong(point) ? "wrong" : "right") },
            label: { show: sides.has(point), position: sides.get(point), color: colour("ink"), fontFamily: "inherit", fontSize: letters, fontWeight: strong(point) ? "bold" : "normal", formatter: () => this.label(point) } })) },
      ],
    });
    this.chart.on("mouseover", ({ data }) => this.hover(data.point));
    this.chart.on("mouseout", () => card.hide());
    this.chart.on("click", ({ data }) => sets.press(data.point.place));
  }

  update() {
    this.draw();
  }
}

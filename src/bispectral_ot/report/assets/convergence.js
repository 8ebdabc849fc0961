// The marginal error after each pass of the solver.

class ConvergenceView {
  constructor(panel) {
    this.panel = panel;
    const { facts, history } = panel;
    const last = history.length ? history.at(-1)[1] : facts.marginal_error;
    this.element = make("div", { class: "curve", role: "img",
      "aria-label": `Marginal error over ${history.length} passes, ending at ${figure(last, 2)}; tolerance ${facts.tol}.` });
  }

  resize() {
    this.chart.resize();
  }

  draw() {
    const { facts, history } = this.panel;
    this.chart?.dispose();
    this.chart = echarts.init(this.element, null, { renderer: "svg" });
    const text = { color: colour("muted"), fontFamily: "inherit" };
    const line = { lineStyle: { color: colour("faint") } };
    const starts = history.flatMap(([reg], i) => (i === 0 || reg !== history[i - 1][0] ? [[i + 1, reg]] : []));
    const last = Math.max(2, history.length);
    const power = (value) => Number(value.toPrecision(1)).toString();
    this.chart.setOption({
      animation: false,
      grid: { left: 64, right: 16, top: 44, bottom: 44 },
      tooltip: { trigger: "axis", renderMode: "richText", backgroundColor: colour("paper"), borderColor: colour("faint"), textStyle: { color: colour("ink") },
        formatter: ([{ dataIndex }]) => `pass ${dataIndex + 1}: error ${figure(history[dataIndex][1], 2)}, reg ${history[dataIndex][0]}` },
      xAxis: { type: "value", name: "pass over the distances", nameLocation: "middle", nameGap: 28, nameTextStyle: text, min: 1, max: last, minInterval: 1, axisLabel: { ...text, showMaxLabel: false }, axisLine: line, splitLine: { show: false } },
      yAxis: { type: "log", name: "marginal error", nameGap: 24, nameTextStyle: { ...text, align: "left", padding: [0, 0, 0, -56] }, axisLabel: { ...text, formatter: power }, splitLine: line,
        min: (range) => 10 ** Math.floor(Math.log10(Math.min(range.min, facts.tol) * 0.999)) },
      series: [{ type: "line", data: history.map(([, error], i) => [i + 1, Math.max(error, 1e-300)]), symbol: "circle", symbolSize: 5, showSymbol: history.length <= 80,
        lineStyle: { color: colour("right"), width: 2 }, itemStyle: { color: colour("right") },
        markLine: { silent: true, symbol: "none", animation: false, data: starts.map(([pass, reg]) => ({ xAxis: pass, lineStyle: { color: colour("faint"), type: "solid" },
          label: { formatter: `reg ${reg}`, position: "end", rotate: 0, color: colour("muted"), align: "left", verticalAlign: "bottom", distance: 2 } })) } },
        { type: "line", data: [[1, facts.tol], [last, facts.tol]], symbolSize: 0, silent: true, tooltip: { show: false }, lineStyle: { color: colour("wrong"), type: "dashed", width: 1.5 },
          label: { show: true, position: "right", offset: [0, 10], color: colour("wrong"), formatter: ({ dataIndex }) => (dataIndex ? "" : `tolerance ${facts.tol}`) } }],
    });
  }
}

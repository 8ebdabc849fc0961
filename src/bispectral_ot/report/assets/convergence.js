// The marginal error after each pass of the solver.

class ConvergenceView {
  constructor(panel) {
    this.panel = panel;
    const { facts, history } = panel;
    const last = history.length ? history.at(-1)[1] : facts.marginal_error;
    this.element = make("div", { class: "curve", role: "img",
      "aria-label": `Marginal error over ${history.length} passes, ending at ${figure(last, 2)}; tolerance ${facts.tol}.` });
  }

  draw() {
    const { facts, history } = this.panel;
    this.chart?.dispose();
    this.chart = echarts.init(this.element, null, { renderer: "svg" });
    const text = { color: colour("muted"), fontFamily: "inherit" };
    const line = { lineStyle: { color: colour("faint") } };
    const starts = history.flatMap(([reg], i) => (i === 0 || reg !== history[i - 1][0] ? [[i + 1, reg]] : []));
    const power = (value) => Number(value.toPrecision(1)).toString();
    this.chart.setOption({
      animation: false,
      grid: { left: 64, right: 16, top: 24, bottom: 44 },
      tooltip: { trigger: "axis", renderMode: "richText", backgroundColor: colour("paper"), borderColor: colour("faint"), textStyle: { color: colour("ink") },
        formatter: ([{ dataIndex }]) => `pass ${dataIndex + 1}: error ${figure(history[dataIndex][1], 2)}, reg ${history[dataIndex][0]}` },
      xAxis: { type: "value", name: "pass over the distances", nameLocation: "middle", nameGap: 28, nameTextStyle: text, min: 1, max: Math.max(2, history.length), minInterval: 1, axisLabel: text, axisLine: line, splitLine: { show: false } },
      yAxis: { type: "log", name: "marginal error", nameTextStyle: { ...text, align: "left" }, axisLabel: { ...text, formatter: power }, splitLine: line,
        min: (range) => 10 ** Math.floor(Math.log10(Math.min(range.min, facts.tol) * 0.999)) },
      series: [{ type: "line", data: history.map(([, error], i) => [i + 1, Math.max(error, 1e-300)]), symbol: "circle", symbolSize: 5, showSymbol: history.length <= 80,
        lineStyle: { color: colour("right"), width: 2 }, itemStyle: { color: colour("right") },
        markLine: { silent: true, symbol: "none", animation: false, data: [
          { yAxis: facts.tol, lineStyle: { color: colour("wrong"), type: "dashed" }, label: { formatter: `tolerance ${facts.tol}`, position: "insideStartTop", color: colour("wrong") } },
          ...starts.map(([pass, reg]) => ({ xAxis: pass, lineStyle: { color: colour("faint"), type: "solid" }, label: { formatter: `reg ${reg}`, position: "insideEndTop", rotate: 0, color: colour("muted"), align: "left", distance: [4, -14] } })),
        ] } }],
    });
  }
}

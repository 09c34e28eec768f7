// Values of the charts at the pointer, or at the point that the arrow keys select.

for (const chart of document.querySelectorAll("[data-chart]")) {
  const { unit, series } = JSON.parse(chart.dataset.chart);
  const figure = chart.closest("figure");
  const line = chart.querySelector(".pointer");
  const at = figure.querySelector(".at");
  const values = [...figure.querySelectorAll(".entry b")];
  const positions = [...new Set(series.flat().map(([x]) => x))].sort((a, b) => a - b);
  let selected = -1;

  function nearest(points, x) {
    return points.reduce((best, point) => (best === null || Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best), null);
  }

  function show(index) {
    selected = index;
    figure.classList.toggle("pointed", index >= 0);
    if (index < 0) {
      at.textContent = "";
      for (const value of values) value.textContent = "";
      return;
    }
    const x = positions[index];
    const point = nearest(series.flat(), x);
    line.setAttribute("transform", `translate(${x} 0)`);
    at.textContent = `at ${point[2]} ${unit}`;
    series.forEach((points, number) => { values[number].textContent = nearest(points, x)?.[3] ?? ""; });
  }

  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
    const distances = positions.map((position) => Math.abs(position - x));
    show(distances.indexOf(Math.min(...distances)));
  });
  chart.addEventListener("pointerleave", () => show(-1));
  chart.addEventListener("blur", () => show(-1));
  chart.addEventListener("keydown", (event) => {
    const next = { ArrowLeft: Math.max(0, selected - 1), ArrowRight: Math.min(positions.length - 1, selected + 1), Home: 0, End: positions.length - 1, Escape: -1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    show(next);
  });
}

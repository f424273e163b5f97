// Draws the figures in the colors of the page, and again when the color scheme changes.
"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const touch = matchMedia("(pointer: coarse)").matches;  // touch must scroll past a figure

function colors() {
  const style = getComputedStyle(document.documentElement);
  const read = name => style.getPropertyValue(name).trim();
  return {ink: read("--ink"), soft: read("--soft"), grid: read("--grid"), line: read("--line"), card: read("--card"),
          font: getComputedStyle(document.body).fontFamily};
}

function themed(layout, c) {
  const result = {margin: {l: 52, r: 12, t: 16, b: 44}, dragmode: touch ? false : "zoom", ...layout,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
    font: {family: c.font, size: 12.5, color: c.ink},
    modebar: {bgcolor: "rgba(0,0,0,0)", color: c.line, activecolor: c.soft},
    hoverlabel: {bgcolor: c.card, bordercolor: c.line, font: {family: c.font, color: c.ink}}};
  if (!layout.showlegend && innerWidth < 780) result.margin.b = Math.min(result.margin.b, 44);  // nothing beside it to align with
  for (const axis of ["xaxis", "yaxis"]) {
    result[axis] = {gridcolor: c.grid, zerolinecolor: c.soft, linecolor: c.line, tickcolor: c.line,
      tickfont: {color: c.soft}, automargin: true, ...layout[axis]};
    if (result[axis].title) result[axis].title = {font: {color: c.soft, size: 12.5}, standoff: 8, ...result[axis].title};
  }
  return result;
}

function draw() {
  const c = colors();
  for (const [id, figure] of Object.entries(figures)) {
    Plotly.react(id, figure.data, themed(structuredClone(figure.layout), c),
                 {responsive: true, displaylogo: false, displayModeBar: touch ? false : "hover",
                  modeBarButtons: [["toImage", "resetScale2d"]]});
  }
}

for (const [id, figure] of Object.entries(figures)) {
  if (!figure.others) continue;
  const choices = [{...figure}, ...figure.others];
  const select = document.createElement("select");
  select.setAttribute("aria-label", "color by");
  choices.forEach((choice, index) => select.add(new Option(choice.name, index)));
  select.addEventListener("change", () => {
    const {data, layout} = choices[Number(select.value)];
    Object.assign(figure, {data, layout});
    draw();
  });
  document.getElementById(id).closest("figure").querySelector("figcaption").append(select);
}

draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
document.documentElement.dataset.drawn = Object.keys(figures).length;

// What the figures use of Observable Plot; esbuild leaves the rest out.
export { plot, barX, link, dot, text, line, ruleX, ruleY, tickX, rectX, areaY, stackY } from "@observablehq/plot";
export { symbolCircle, symbolSquare, symbolTriangle, symbolDiamond, symbolStar, symbolCross, symbolWye, symbolTimes } from "d3";

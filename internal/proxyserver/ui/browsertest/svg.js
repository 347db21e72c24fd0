// Returns what the window shows as an SVG: a shape for each background, border and chart, and a
// text for each line of text, as wide as the browser has laid it out.
(() => {
  const width = innerWidth, out = [], canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  let bottom = 0;
  const n = (x) => String(Math.round(x * 10) / 10);
  const escape = (s) => s.replace(/[&<>"]/g, (c) => "&#" + c.charCodeAt(0) + ";");
  // colour returns a colour of any notation as SVG attributes; "" if nothing is seen of it.
  const colour = (name, value) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = value;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    if (a === 0 || value === "none") return "";
    const hex = "#" + [r, g, b].map((v) => Math.round(v).toString(16).padStart(2, "0")).join("");
    return ` ${name}="${hex}"` + (a < 255 ? ` ${name}-opacity="${n(a / 255)}"` : "");
  };
  const rect = (x, y, w, h, radius, paint) => {
    if (paint && w > 0 && h > 0) out.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}"${radius ? ` rx="${n(Math.min(radius, w / 2, h / 2))}"` : ""}${paint}/>`);
  };
  const hidden = (style) => style.display === "none" || style.visibility === "hidden" || style.clipPath.startsWith("inset(50%");

  // box draws the background and the borders of an element.
  const box = (element, style) => {
    const r = element.getBoundingClientRect(), radius = parseFloat(style.borderTopLeftRadius) || 0;
    const side = (name) => (style[`border${name}Style`] === "none" ? 0 : parseFloat(style[`border${name}Width`]));
    const back = colour("fill", style.backgroundColor);
    const [top, left, down, right] = ["Top", "Left", "Bottom", "Right"].map(side);
    if (top && left && down && right) {
      rect(r.x + top / 2, r.y + top / 2, r.width - top, r.height - top, radius, (back || ' fill="none"') + colour("stroke", style.borderTopColor) + (top !== 1 ? ` stroke-width="${n(top)}"` : ""));
      return;
    }
    rect(r.x, r.y, r.width, r.height, radius, back);
    if (top) rect(r.x, r.y, r.width, top, 0, colour("fill", style.borderTopColor));
    if (down) rect(r.x, r.bottom - down, r.width, down, 0, colour("fill", style.borderBottomColor));
    if (style.boxShadow.includes("inset")) rect(r.x, r.y, 3, r.height, 0, colour("fill", style.boxShadow.split(/\) /)[0] + ")"));
  };

  // line draws a line of text whose box is r.
  const line = (text, r, style, paint) => {
    if (!text.trim() || r.width < 2) return;
    canvas.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const m = canvas.measureText(text), ascent = m.fontBoundingBoxAscent, height = ascent + m.fontBoundingBoxDescent;
    const baseline = r.y + (r.height - height) / 2 + ascent;
    out.push(`<text x="${n(r.x)}" y="${n(baseline)}" font-size="${n(parseFloat(style.fontSize))}"${+style.fontWeight > 400 ? ` font-weight="${style.fontWeight}"` : ""}` +
      ` textLength="${n(r.width)}" lengthAdjust="spacingAndGlyphs"${paint}>${escape(text.trim())}</text>`);
  };

  // lines draws a text node, line by line.
  const lines = (node, style) => {
    const paint = colour("fill", style.color), range = document.createRange(), rows = [];
    for (let i = 0; i < node.length; i++) {
      range.setStart(node, i);
      range.setEnd(node, i + 1);
      const r = [...range.getClientRects()].pop();
      if (!r || r.width === 0) continue;
      const last = rows[rows.length - 1];
      if (last && Math.abs(last.y - r.y) < 2) {
        last.text += node.data[i];
        if (node.data[i].trim()) last.right = r.right;
      } else if (node.data[i].trim()) {
        rows.push({ text: node.data[i], x: r.x, y: r.y, right: r.right, height: r.height });
      }
    }
    for (const row of rows) line(row.text, { x: row.x, y: row.y, width: row.right - row.x, height: row.height }, style, paint);
  };

  // chart copies an SVG of the page, with its style.
  const chart = (svg) => {
    const copy = svg.cloneNode(true), r = svg.getBoundingClientRect();
    const from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((element, i) => {
      const style = getComputedStyle(element);
      for (const name of [...to[i].attributes].map((a) => a.name)) if (/^(class|aria|role|style|focusable)/.test(name)) to[i].removeAttribute(name);
      if (element === svg) return;
      for (const [name, value] of [["fill", style.fill], ["stroke", style.stroke]]) {
        const paint = colour(name, value).match(/="([^"]*)"(?: [a-z-]*="([^"]*)")?/);
        to[i].setAttribute(name, paint ? paint[1] : "none");
        if (paint && paint[2]) to[i].setAttribute(name + "-opacity", paint[2]);
      }
      if (style.stroke !== "none") for (const name of ["stroke-width", "stroke-dasharray", "vector-effect"]) to[i].setAttribute(name, style.getPropertyValue(name));
    });
    for (const [name, value] of [["x", r.x], ["y", r.y], ["width", r.width], ["height", r.height]]) copy.setAttribute(name, n(value));
    out.push(new XMLSerializer().serializeToString(copy));
  };

  const walk = (element) => {
    const style = getComputedStyle(element);
    if (hidden(style) || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName)) return;
    if (element instanceof SVGSVGElement) return chart(element);
    const r = element.getBoundingClientRect();
    bottom = Math.max(bottom, r.bottom);
    box(element, style);
    if (element.id === "live" && element.className === "on") { // its dot is no element
      rect(r.x, r.y + r.height / 2 - 3.5, 7.5, 7.5, 4, colour("fill", getComputedStyle(element, "::before").backgroundColor));
    }
    if (element.placeholder && !element.value) {
      canvas.font = `${style.fontSize} ${style.fontFamily}`;
      const w = canvas.measureText(element.placeholder).width;
      line(element.placeholder, { x: r.x + parseFloat(style.paddingLeft) + 1, y: r.y, width: w, height: r.height }, style, colour("fill", getComputedStyle(element, "::placeholder").color));
    }
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) lines(child, style);
      else if (child.nodeType === Node.ELEMENT_NODE) walk(child);
    }
  };

  const end = document.querySelector("footer").getBoundingClientRect().y;
  const ground = colour("fill", getComputedStyle(document.body).backgroundColor);
  for (const element of document.body.children) if (element.tagName !== "FOOTER") walk(element);
  const height = Math.round(Math.min(bottom, end) + 18);
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">\n` +
    `<style>text{font-family:${getComputedStyle(document.body).fontFamily.replace(/"/g, "'")};white-space:pre}</style>\n<rect width="${width}" height="${height}" rx="8"${ground}/>\n`;
  const edge = colour("stroke", getComputedStyle(document.querySelector("header")).borderBottomColor); // pages have the same ground
  return head + out.join("\n") + `\n<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8" fill="none"${edge}/>\n</svg>\n`;
})()

// document.js is as much of a document as Observable Plot and compose.js need to make an SVG:
// elements with attributes and children, no layout, no events, no selectors but names.
"use strict";
// Plot makes formatters when it is loaded; the figures have their own.
globalThis.Intl = globalThis.Intl || { NumberFormat: function () { this.format = String; }, DateTimeFormat: function () { this.format = String; } };
globalThis.tareDocument = (function () {
  class Element {
    constructor(name, document) {
      this.tagName = this.nodeName = this.localName = name;
      this.nodeType = 1;
      this.ownerDocument = document;
      this.namespaceURI = "http://www.w3.org/2000/svg";
      this.attributes_ = new Map();
      this.childNodes = [];
      this.parentNode = null;
      this.text_ = "";
      this.style = { setProperty() {}, removeProperty() {} };
    }
    setAttribute(name, value) { this.attributes_.set(name, String(value)); }
    setAttributeNS(_, name, value) { this.attributes_.set(name, String(value)); }
    getAttribute(name) { return this.attributes_.has(name) ? this.attributes_.get(name) : null; }
    hasAttribute(name) { return this.attributes_.has(name); }
    removeAttribute(name) { this.attributes_.delete(name); }
    appendChild(child) { return this.insertBefore(child, null); }
    append(...children) { for (const c of children) this.appendChild(typeof c === "string" ? this.ownerDocument.createTextNode(c) : c); }
    insertBefore(child, next) {
      if (child.parentNode) child.parentNode.removeChild(child);
      const at = next ? this.childNodes.indexOf(next) : -1;
      if (at < 0) this.childNodes.push(child);
      else this.childNodes.splice(at, 0, child);
      child.parentNode = this;
      return child;
    }
    removeChild(child) {
      this.childNodes = this.childNodes.filter((c) => c !== child);
      child.parentNode = null;
      return child;
    }
    remove() { if (this.parentNode) this.parentNode.removeChild(this); }
    get children() { return this.childNodes.filter((c) => c.nodeType === 1); }
    get firstChild() { return this.childNodes[0] || null; }
    get lastChild() { return this.childNodes[this.childNodes.length - 1] || null; }
    get nextSibling() { const all = this.parentNode ? this.parentNode.childNodes : []; return all[all.indexOf(this) + 1] || null; }
    get textContent() { return this.nodeType === 3 ? this.text_ : this.childNodes.map((c) => c.textContent).join(""); }
    set textContent(text) {
      if (this.nodeType === 3) { this.text_ = String(text); return; }
      this.childNodes = [];
      if (text !== "" && text !== null) this.appendChild(this.ownerDocument.createTextNode(text));
    }
    querySelectorAll() { return []; }
    querySelector() { return null; }
    addEventListener() {}
    removeEventListener() {}
    // plain is the element as data, for the program around.
    plain() {
      return { name: this.tagName, attributes: Object.fromEntries(this.attributes_), text: this.childNodes.filter((c) => c.nodeType === 3).map((c) => c.text_).join(""),
        children: this.children.map((c) => c.plain()) };
    }
  }
  const document = {
    nodeType: 9,
    createElementNS: (_, name) => new Element(name, document),
    createElement: (name) => new Element(name, document),
    createTextNode: (text) => { const e = new Element("#text", document); e.nodeType = 3; e.text_ = String(text); return e; },
  };
  document.documentElement = new Element("svg", document);
  document.documentElement.namespaceURI = "http://www.w3.org/1999/xhtml";
  document.defaultView = globalThis;
  return document;
})();

// tareDraw is a figure as a tree of elements: {name, attributes, text, children}; null: the run has no such figure.
globalThis.tareDraw = function (content, id, choices, options) {
  const figure = tareFigures(Plot, { ...content, still: true }).figure(id, choices || {});
  for (const [name, value] of Object.entries(choices || {})) {
    const option = figure && (figure.options || []).find((o) => o.name === name);
    if (figure && !option) throw new Error(`figure ${id} has no choice "${name}"; it has: ${(figure.options || []).map((o) => o.name).join(", ") || "none"}`);
    if (option && option.value !== value) throw new Error(`figure ${id} has no ${name} "${value}"; it has: ${option.values.slice(0, 12).map((v) => v.value).join(", ")}${option.values.length > 12 ? ", …" : ""}`);
  }
  if (!figure || !figure.panels.length) return null;
  return tareCompose(Plot, figure, { ...options, document: tareDocument }).plain();
};

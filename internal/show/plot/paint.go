package plot

import (
	"fmt"
	"image/color"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg"
)

// look has the attributes that an element inherits.
type look struct {
	fill, stroke                    string
	fillOpacity, strokeOpacity, all float64
	strokeWidth, fontSize           float64
	dash, anchor, weight            string
	x, y                            float64 // of the origin, px
}

// painter draws a tree of elements. SVG counts y from the top, the canvas from the bottom.
type painter struct {
	vg.Canvas
	height vg.Length
	fonts  fonts
	err    error
}

// paint draws the whole tree.
func paint(c vg.Canvas, root *element, height vg.Length) error {
	p := &painter{Canvas: c, height: height, fonts: newFonts()}
	p.draw(root, look{fill: "#000000", stroke: "none", fillOpacity: 1, strokeOpacity: 1, all: 1, strokeWidth: 1, fontSize: 12, anchor: "start"})
	return p.err
}

func (p *painter) draw(e *element, l look) {
	l = p.inherit(e, l)
	n := e.number
	switch e.Name {
	case "svg", "g", "tspan":
	case "rect":
		x, y, w, h := n("x", 0), n("y", 0), n("width", 0), n("height", 0)
		var path vg.Path
		path.Move(p.toCanvas(l, x, y))
		path.Line(p.toCanvas(l, x+w, y))
		path.Line(p.toCanvas(l, x+w, y+h))
		path.Line(p.toCanvas(l, x, y+h))
		path.Close()
		p.shape(path, l)
	case "line":
		var path vg.Path
		path.Move(p.toCanvas(l, n("x1", 0), n("y1", 0)))
		path.Line(p.toCanvas(l, n("x2", 0), n("y2", 0)))
		p.outline(path, l)
	case "circle":
		p.shape(p.circle(l, n("cx", 0), n("cy", 0), n("r", 0)), l)
	case "path":
		path, err := p.path(l, e.Attributes["d"])
		if err != nil {
			p.fail("%w", err)
			return
		}
		p.shape(path, l)
	case "text":
		p.text(e, l)
		return
	case "style", "title", "defs":
		return
	default:
		p.fail("unknown element %q", e.Name)
	}
	for i := range e.Children {
		p.draw(&e.Children[i], l)
	}
}

// toCanvas converts a point of an element to the canvas, whose y points up.
func (p *painter) toCanvas(l look, x, y float64) vg.Point {
	return vg.Point{X: vg.Length(l.x+x) * px, Y: p.height - vg.Length(l.y+y)*px}
}

// inherit is the look of an element inside l.
func (p *painter) inherit(e *element, l look) look {
	text := func(name string, to *string) {
		if v, ok := e.Attributes[name]; ok {
			*to = v
		}
	}
	text("fill", &l.fill)
	text("stroke", &l.stroke)
	text("stroke-dasharray", &l.dash)
	text("text-anchor", &l.anchor)
	text("font-weight", &l.weight)
	l.strokeWidth = e.number("stroke-width", l.strokeWidth)
	l.fontSize = e.number("font-size", l.fontSize)
	l.fillOpacity = e.number("fill-opacity", l.fillOpacity)
	l.strokeOpacity = e.number("stroke-opacity", l.strokeOpacity)
	l.all *= e.number("opacity", 1)
	if move := e.Attributes["transform"]; move != "" {
		var x, y float64
		if _, err := fmt.Sscanf(strings.ReplaceAll(move, " ", ""), "translate(%g,%g)", &x, &y); err != nil {
			p.fail("transform %q is no translation", move)
		}
		l.x, l.y = l.x+x, l.y+y
	}
	return l
}

// shape fills and outlines a path.
func (p *painter) shape(path vg.Path, l look) {
	if c, ok := p.color(l.fill, l.fillOpacity*l.all); ok {
		p.SetColor(c)
		p.Fill(path)
	}
	p.outline(path, l)
}

func (p *painter) outline(path vg.Path, l look) {
	c, ok := p.color(l.stroke, l.strokeOpacity*l.all)
	if !ok || l.strokeWidth <= 0 {
		return
	}
	var dash []vg.Length
	for _, s := range strings.FieldsFunc(l.dash, func(r rune) bool { return r == ',' || r == ' ' }) {
		if v, err := strconv.ParseFloat(s, 64); err == nil {
			dash = append(dash, vg.Length(v)*px)
		}
	}
	p.SetColor(c)
	p.SetLineWidth(vg.Length(l.strokeWidth) * px)
	p.SetLineDash(dash, 0)
	p.Stroke(path)
}

// color reads #rrggbb. It is not ok for none.
func (p *painter) color(s string, opacity float64) (color.Color, bool) {
	switch s {
	case "none", "":
		return nil, false
	case "white":
		s = "#ffffff"
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(s, "#"), 16, 32)
	if err != nil || len(s) != 7 || s[0] != '#' {
		p.fail("unknown color %q", s)
		return nil, false
	}
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: uint8(255*opacity + 0.5)}, true
}

func (p *painter) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("draw: "+format, args...)
	}
}

package plot

import (
	"strconv"
	"strings"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/vg"
)

// fonts are Liberation Sans, regular and bold.
type fonts struct{ regular, bold *sfnt.Font }

func newFonts() fonts {
	read := func(ttf []byte) *sfnt.Font {
		f, err := sfnt.Parse(ttf)
		if err != nil {
			panic("Liberation Sans: " + err.Error()) // it is part of the program
		}
		return f
	}
	return fonts{read(liberationsansregular.TTF), read(liberationsansbold.TTF)}
}

// text fills the outlines of an element's text. Its lines are tspans.
func (p *painter) text(e *element, l look) {
	x, y := em(e.Attributes["x"], l.fontSize)+em(e.Attributes["dx"], l.fontSize), em(e.Attributes["y"], l.fontSize)+em(e.Attributes["dy"], l.fontSize)
	p.line(e.Text, x, y, l)
	for i := range e.Children {
		c := &e.Children[i]
		if c.Name == "tspan" {
			y += em(c.Attributes["dy"], l.fontSize)
			p.line(c.Text, x, y, p.inherit(c, l))
		}
	}
}

// em is a length such as "0.71em" or "4", px.
func em(s string, size float64) float64 {
	if v, ok := strings.CutSuffix(s, "em"); ok {
		n, _ := strconv.ParseFloat(v, 64)
		return n * size
	}
	n, _ := strconv.ParseFloat(strings.TrimSuffix(s, "px"), 64)
	return n
}

func (p *painter) line(text string, x, y float64, l look) {
	c, ok := p.color(l.fill, l.fillOpacity*l.all)
	if text == "" || !ok {
		return
	}
	f := p.fonts.forWeight(l.weight)
	// Glyphs are loaded at 1000 units to the em, and scaled.
	const units = 1000
	scale, ppem := l.fontSize/units, fixed.I(units)
	var b sfnt.Buffer
	type placed struct {
		glyph sfnt.GlyphIndex
		x     float64
	}
	var all []placed
	width := 0.0
	for _, r := range text {
		g, err := f.GlyphIndex(&b, r) // 0 is the box for characters that the font lacks
		if err != nil {
			p.fail("%w", err)
			return
		}
		advance, err := f.GlyphAdvance(&b, g, ppem, font.HintingNone)
		if err != nil {
			p.fail("%w", err)
			return
		}
		all = append(all, placed{g, width})
		width += float64(advance) / 64 * scale
	}
	switch l.anchor {
	case "middle":
		x -= width / 2
	case "end":
		x -= width
	}
	p.SetColor(c)
	for _, g := range all {
		segments, err := f.LoadGlyph(&b, g.glyph, ppem, nil)
		if err != nil {
			p.fail("%w", err)
			return
		}
		at := func(q fixed.Point26_6) vg.Point {
			return p.toCanvas(l, x+g.x+float64(q.X)/64*scale, y+float64(q.Y)/64*scale)
		}
		var path vg.Path
		for _, s := range segments {
			switch s.Op {
			case sfnt.SegmentOpMoveTo:
				if len(path) > 0 {
					path.Close()
				}
				path.Move(at(s.Args[0]))
			case sfnt.SegmentOpLineTo:
				path.Line(at(s.Args[0]))
			case sfnt.SegmentOpQuadTo:
				path.QuadTo(at(s.Args[0]), at(s.Args[1]))
			case sfnt.SegmentOpCubeTo:
				path.CubeTo(at(s.Args[0]), at(s.Args[1]), at(s.Args[2]))
			}
		}
		if len(path) > 0 {
			path.Close()
			p.Fill(path)
		}
	}
}

func (f fonts) forWeight(weight string) *sfnt.Font {
	if n, err := strconv.Atoi(weight); weight == "bold" || err == nil && n >= 600 {
		return f.bold
	}
	return f.regular
}

package plot

import (
	"fmt"
	"math"
	"regexp"
	"strconv"

	"gonum.org/v1/plot/vg"
)

// pathToken is a command of an SVG path, or a number.
var pathToken = regexp.MustCompile(`[A-Za-z]|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?`)

// arguments is the number of numbers of each command. D3 makes no others.
var arguments = map[byte]int{'M': 2, 'L': 2, 'H': 1, 'V': 1, 'C': 6, 'Q': 4, 'A': 7, 'Z': 0}

// path reads the commands of an SVG path.
func (p *painter) path(l look, d string) (vg.Path, error) {
	var path vg.Path
	tokens := pathToken.FindAllString(d, -1)
	var x, y, startX, startY float64
	command := byte(0)
	for i := 0; i < len(tokens); {
		if t := tokens[i][0]; t >= 'A' && t <= 'z' && len(tokens[i]) == 1 && (t|0x20) != 'e' {
			command = t
			i++
		}
		upper := command &^ 0x20
		n, ok := arguments[upper]
		if !ok || i+n > len(tokens) {
			return nil, fmt.Errorf("path %.60q: command %q", d, command)
		}
		v := make([]float64, n)
		for j := range v {
			var err error
			if v[j], err = strconv.ParseFloat(tokens[i+j], 64); err != nil {
				return nil, fmt.Errorf("path %.60q: %w", d, err)
			}
		}
		i += n
		if command != upper { // relative to the last point
			relative(upper, v, x, y)
		}
		last := [2]float64{x, y}
		switch upper {
		case 'M':
			x, y = v[0], v[1]
			startX, startY = x, y
			path.Move(p.toCanvas(l, x, y))
			command-- // further points are lines: L, or l
		case 'L':
			x, y = v[0], v[1]
			path.Line(p.toCanvas(l, x, y))
		case 'H':
			x = v[0]
			path.Line(p.toCanvas(l, x, y))
		case 'V':
			y = v[0]
			path.Line(p.toCanvas(l, x, y))
		case 'Q':
			x, y = v[2], v[3]
			path.QuadTo(p.toCanvas(l, v[0], v[1]), p.toCanvas(l, x, y))
		case 'C':
			x, y = v[4], v[5]
			path.CubeTo(p.toCanvas(l, v[0], v[1]), p.toCanvas(l, v[2], v[3]), p.toCanvas(l, x, y))
		case 'A':
			x, y = v[5], v[6]
			p.arc(&path, l, last, v)
		case 'Z':
			x, y = startX, startY
			path.Close()
		}
		if n == 0 && i < len(tokens) && (tokens[i][0] < 'A') {
			return nil, fmt.Errorf("path %.60q: a number after Z", d)
		}
	}
	return path, nil
}

// relative adds the last point to the numbers of a command.
func relative(upper byte, v []float64, x, y float64) {
	switch upper {
	case 'H':
		v[0] += x
	case 'V':
		v[0] += y
	case 'A':
		v[5], v[6] = v[5]+x, v[6]+y
	default:
		for j := range v {
			if j%2 == 0 {
				v[j] += x
			} else {
				v[j] += y
			}
		}
	}
}

// arc is a circular arc from the last point, by the conversion of the SVG specification (F.6.5).
func (p *painter) arc(path *vg.Path, l look, from [2]float64, v []float64) {
	r, large, sweep, x, y := v[0], v[3] != 0, v[4] != 0, v[5], v[6]
	dx, dy := (x-from[0])/2, (y-from[1])/2
	half := math.Hypot(dx, dy)
	if half == 0 {
		return
	}
	r = math.Max(r, half)
	off := math.Sqrt(r*r-half*half) / half
	if large == sweep {
		off = -off
	}
	cx, cy := from[0]+dx-off*dy, from[1]+dy+off*dx
	start, end := math.Atan2(from[1]-cy, from[0]-cx), math.Atan2(y-cy, x-cx)
	angle := end - start
	if sweep && angle <= 0 {
		angle += 2 * math.Pi
	} else if !sweep && angle >= 0 {
		angle -= 2 * math.Pi
	}
	path.Arc(p.toCanvas(l, cx, cy), vg.Length(r)*px, -start, -angle) // y points up on the canvas
}

func (p *painter) circle(l look, cx, cy, r float64) vg.Path {
	var path vg.Path
	path.Move(p.toCanvas(l, cx+r, cy))
	path.Arc(p.toCanvas(l, cx, cy), vg.Length(r)*px, 0, 2*math.Pi)
	path.Close()
	return path
}

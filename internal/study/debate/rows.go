package debate

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

// heading contains the columns after the time, with their quantities.
type heading struct {
	names      []string
	columns    []column
	scales     []scale // as columns
	index      map[column]int
	components []component
	strange    []string // unknown columns
}

// lastHeading is cached, because the files of a sequence usually have the same
// heading.
var lastHeading atomic.Pointer[heading]

// headingOf parses the names of the columns. The error is a duplicate.
func headingOf(names [][]byte) (*heading, error) {
	same := func(a []byte, b string) bool { return string(a) == b }
	if last := lastHeading.Load(); last != nil && slices.EqualFunc(names, last.names, same) {
		return last, nil
	}
	h := &heading{index: make(map[column]int, len(names))}
	for i, name := range names {
		c, q := columnOf(string(name))
		if _, twice := h.index[c]; twice {
			return nil, fmt.Errorf("column %.60q occurs twice", name)
		}
		h.index[c] = i
		h.names, h.columns, h.scales = append(h.names, string(name)), append(h.columns, c), append(h.scales, q)
	}
	h.sort()
	lastHeading.Store(h)
	return h, nil
}

func columnOf(name string) (column, scale) {
	for _, q := range quantities {
		if what, ok := strings.CutSuffix(name, q.ending); ok && what != "" {
			return column{what, q.quantity}, q
		}
	}
	return column{what: name}, scale{}
}

// columnOf returns the index of a column, or -1 if the file has none.
func (h *heading) columnOf(what, quantity string) int {
	if i, ok := h.index[column{what, quantity}]; ok {
		return i
	}
	return -1
}

// room allocates the cells of many rows at once.
type room struct {
	values []float64
	places []*float64
}

// manyRows is the rows of five minutes with a sample per ten seconds, and some
// more. manyCells limits the allocation for wide rows.
const (
	manyRows  = 36
	manyCells = 1 << 14
)

// row returns n cells.
func (r *room) row(n int) ([]float64, []*float64) {
	if len(r.values) < n {
		cells := n * max(1, min(manyRows, manyCells/max(n, 1)))
		r.values, r.places = make([]float64, cells), make([]*float64, cells)
	}
	values, places := r.values[:n:n], r.places[:n:n]
	r.values, r.places = r.values[n:], r.places[n:]
	return values, places
}

// records iterates over the rows of a CSV, including the heading. Cells are
// valid until the next row.
type records interface {
	// next returns io.EOF after the last row, and a [csv.ParseError] for an invalid
	// row.
	next() (line int, cells [][]byte, err error)
}

// recordsOf reads text without quotes, and allocates no string per row. It
// accepts and rejects the same rows as encoding/csv.
func recordsOf(b []byte) records {
	if bytes.IndexByte(b, '"') < 0 {
		return &plainRecords{rest: b}
	}
	r := csv.NewReader(bytes.NewReader(b))
	r.ReuseRecord = true
	return &quotedRecords{csv: r}
}

type plainRecords struct {
	rest  []byte
	line  int
	width int // cells of the first row
	cells [][]byte
}

func (r *plainRecords) next() (int, [][]byte, error) {
	for len(r.rest) > 0 {
		row, rest, _ := bytes.Cut(r.rest, []byte{'\n'})
		r.rest = rest
		r.line++
		if row = bytes.TrimSuffix(row, []byte{'\r'}); len(row) == 0 {
			continue
		}
		r.cells = r.cells[:0]
		for more := true; more; {
			var cell []byte
			cell, row, more = bytes.Cut(row, []byte{','})
			r.cells = append(r.cells, cell)
		}
		if r.width == 0 {
			r.width = len(r.cells)
		}
		if len(r.cells) != r.width {
			return 0, nil, &csv.ParseError{StartLine: r.line, Line: r.line, Column: 1, Err: csv.ErrFieldCount}
		}
		return r.line, r.cells, nil
	}
	return 0, nil, io.EOF
}

type quotedRecords struct {
	csv   *csv.Reader
	cells [][]byte
}

func (r *quotedRecords) next() (int, [][]byte, error) {
	row, err := r.csv.Read()
	if err != nil {
		return 0, nil, err
	}
	line, _ := r.csv.FieldPos(0)
	r.cells = r.cells[:0]
	for _, cell := range row {
		r.cells = append(r.cells, []byte(cell))
	}
	return line, r.cells, nil
}

package debate

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/importer"
)

// table is a CSV of the debate's metrics: a time and cells per row. Cells are
// never NaN, and an absent cell is nil. CPU is in cores, memory in bytes.
type table struct {
	*heading
	path string
	rows []tableRow
	room room
}

type tableRow struct {
	line  int
	at    time.Time // naive local time, read as UTC
	cells []*float64
}

// column is one column after the time: its object and its quantity.
type column struct {
	what     string // e.g. "data-plane", "face app", or a node's name
	quantity string // cpu, mem, allocatable cpu, allocatable mem
}

// scale converts the figures of a kind of column into cores and bytes.
type scale struct {
	ending, quantity string
	scale, most      float64
}

// quantities by the ending of a column's name, the longest first.
var quantities = []scale{
	{" allocatable CPU", "allocatable cpu", 1e-9, importer.MaxCores},
	{" allocatable mem", "allocatable mem", 1, importer.MaxMemory},
	{" CPU", "cpu", 1e-9, importer.MaxCores}, // nanocores
	{" mem", "mem", 1, importer.MaxMemory},   // bytes
}

// parseTable parses the CSV. Its errors contain the line.
func parseTable(path string, b []byte) (*table, error) {
	fail := func(line int, help, format string, args ...any) (*table, error) {
		return nil, &importer.FileError{Path: path, Line: line, Hinted: hint.Hinted{Err: fmt.Errorf(format, args...), Text: help}}
	}
	if len(b) == 0 {
		return fail(0, "the run was stopped before its first sample", "the file is empty")
	}
	r := recordsOf(b)
	_, head, err := r.next()
	if err != nil {
		return nil, csvError(path, err)
	}
	if string(head[0]) != "timestamp" {
		return fail(1, "is this the metrics CSV of a run?", "the first column is %.40q, expected timestamp", head[0])
	}
	t := &table{path: path}
	if t.heading, err = headingOf(head[1:]); err != nil {
		return fail(1, "", "%w", err)
	}
	for {
		line, cells, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvError(path, err)
		}
		if len(t.rows) == importer.MaxRows {
			return fail(line, "", "more than %d rows", importer.MaxRows)
		}
		if err := t.add(line, cells); err != nil {
			return nil, &importer.FileError{Path: path, Line: line, Hinted: hint.Hinted{Err: err, Text: "restore the file from where it was copied, or leave this run out"}}
		}
	}
	// A last line truncated inside its last number would still have every field.
	if b[len(b)-1] != '\n' {
		return fail(bytes.Count(b, []byte("\n"))+1, "restore the file, or remove its last line", "the last line has no end: the file was cut off")
	}
	if len(t.rows) == 0 {
		return fail(0, "the run was stopped before its first sample", "there is a header and no row")
	}
	return t, nil
}

// csvError returns the line of an encoding/csv error.
func csvError(path string, err error) error {
	if p, ok := errors.AsType[*csv.ParseError](err); ok {
		return &importer.FileError{Path: path, Line: p.Line, Hinted: hint.Hinted{Err: p.Err, Text: "the file was cut off or damaged: restore it, or leave this run out"}}
	}
	return &importer.FileError{Path: path, Hinted: hint.Hinted{Err: err}}
}

func (t *table) add(line int, cells [][]byte) error {
	at, err := time.Parse(importer.TimeLayout, string(cells[0]))
	if err != nil {
		return fmt.Errorf("%.40q is not a time such as 2025-03-27 17:08:11", cells[0])
	}
	if n := len(t.rows); n > 0 {
		switch last := t.rows[n-1].at; {
		case at.Equal(last):
			return fmt.Errorf("the time %s is that of the row before: a row is duplicated", cells[0])
		case at.Before(last):
			return fmt.Errorf("the time goes back from %s to %s: rows were reordered, files were joined, or the clock was set",
				last.Format(importer.TimeLayout), cells[0])
		}
	}
	values, places := t.room.row(len(t.columns))
	row := tableRow{line: line, at: at, cells: places}
	for i := range t.columns {
		text, q := cells[i+1], &t.scales[i]
		if len(text) == 0 || q.quantity == "" {
			continue
		}
		v, whole := wholeNumber(text)
		if !whole {
			if v, err = importer.Number(string(text)); err != nil {
				return fmt.Errorf("column %s: %w", t.names[i], err)
			}
		}
		if v *= q.scale; v < 0 || v > q.most {
			return fmt.Errorf("column %s: %.40s is not possible", t.names[i], text)
		}
		values[i] = v
		row.cells[i] = &values[i]
	}
	t.rows = append(t.rows, row)
	return nil
}

// wholeNumber parses digits, the content of nearly every cell, at a fifth of the
// cost of a decimal number. It is not ok for other text, or for numbers too long
// to be exact.
func wholeNumber(s []byte) (float64, bool) {
	if len(s) > 15 {
		return 0, false
	}
	n := int64(0)
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return float64(n), true
}

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

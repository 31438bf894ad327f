package debate

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
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
	var p *csv.ParseError
	if errors.As(err, &p) {
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

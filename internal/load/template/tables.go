package template

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// Bounds of the files of one load. Only the columns in use are kept: a profile has at most 16 MiB.
const (
	maxFile   = 64 << 20 // bytes
	maxValues = 4 << 20  // bytes, of all columns in use
	maxFiles  = 100
)

// Data are the values of expressions from files. Its presence in a profile switches templates on.
type Data struct {
	Tables []Table `json:"tables,omitempty"`

	mu      sync.Mutex
	encoded map[encodedColumn][]string // what Compile has encoded, once
}

// encodedColumn is a column as a use has it.
type encodedColumn struct {
	table, column int
	use           Use
}

// Table has the used columns of a CSV file.
type Table struct {
	File    string   `json:"file"` // as the expressions name it
	Columns []Column `json:"columns"`
}

// Column has the values of one column, by row.
type Column struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// values returns the values of a column, and the number of its file.
func (d *Data) values(file, column string, use Use) (values []string, table uint64, err error) {
	for i := range d.Tables {
		if d.Tables[i].File != file {
			continue
		}
		for k, c := range d.Tables[i].Columns {
			if c.Name == column && len(c.Values) > 0 {
				values, err := d.encode(encodedColumn{i, k, use})
				return values, uint64(i), err
			}
		}
	}
	return nil, 0, fmt.Errorf("the profile has no values of column %q of %s", column, file)
}

// encode has the values of a column for a use.
func (d *Data) encode(at encodedColumn) (values []string, err error) {
	c := &d.Tables[at.table].Columns[at.column]
	if at.use == Body {
		return c.Values, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if values = d.encoded[at]; values != nil {
		return values, nil
	}
	values = make([]string, len(c.Values))
	for row, value := range c.Values {
		if values[row], err = encoded(value, at.use); err != nil {
			return nil, fmt.Errorf("%s: row %d of column %s: %w", d.Tables[at.table].File, row+1, c.Name, err)
		}
	}
	if d.encoded == nil {
		d.encoded = map[encodedColumn][]string{}
	}
	d.encoded[at] = values
	return values, nil
}

// Reader collects the files that texts use.
type Reader struct {
	Dir    string // of relative paths, empty for the current one
	Inside bool   // no file is outside Dir
	files  map[string]*file
	values int // bytes
	data   Data
}

// file is a CSV file.
type file struct {
	header []string
	rows   [][]string
	lines  []int // of the rows
	table  int   // its index in the data
	dir    string
}

// Check finds the mistakes in a text that begins at a position, and reads the files that it uses.
func (r *Reader) Check(text string, use Use, at strict.Position) error {
	pieces, err := parse(text, at)
	if err != nil {
		return err
	}
	for i := range pieces {
		if p := &pieces[i]; p.kind == field {
			if err := r.column(p, use); err != nil {
				return err
			}
		}
	}
	return nil
}

// Data has the values of all texts so far.
func (r *Reader) Data() *Data { return &r.data }

// Pattern is a text with short names of its expressions, such as {id} for a column. A text with a
// mistake is as it was.
func Pattern(text string) string {
	pieces, err := parse(text, strict.Position{Line: 1, Column: 1})
	if err != nil {
		return text
	}
	var b strings.Builder
	for _, p := range pieces {
		switch {
		case p.kind == literal:
			b.WriteString(p.text)
		case p.kind == field:
			b.WriteString("{" + p.column + "}")
		default:
			name, _, _ := strings.Cut(strings.Trim(p.source, "{} \t\r\n"), " ")
			b.WriteString("{" + name + "}")
		}
	}
	return b.String()
}

// Rebase makes the paths of a text's files absolute, from a directory.
func Rebase(text, dir string) (string, error) {
	pieces, err := parse(text, strict.Position{Line: 1, Column: 1})
	if err != nil {
		return text, err
	}
	var b strings.Builder
	last := 0
	for _, p := range pieces {
		if p.kind != field || filepath.IsAbs(p.file) {
			continue
		}
		path, err := filepath.Abs(filepath.Join(dir, p.file))
		if err != nil {
			return text, err
		}
		fmt.Fprintf(&b, "%s{{csv %q %q", text[last:p.begin], path, p.column)
		if p.shuffled {
			b.WriteString(" random")
		}
		b.WriteString(closed)
		last = p.begin + len(p.source)
	}
	return b.String() + text[last:], nil
}

// column adds the column of an expression to the data.
func (r *Reader) column(p *piece, use Use) error {
	f, err := r.open(p)
	if err != nil {
		return err
	}
	index := slices.Index(f.header, p.column)
	if index < 0 {
		return p.fail(strict.DidYouMean(p.column, f.header), "%s has no column %q", p.file, p.column)
	}
	if use == Header {
		for i, row := range f.rows {
			if _, err := encoded(row[index], use); err != nil {
				return p.fail("use another column", "%s:%d: %v", p.file, f.lines[i], err)
			}
		}
	}
	t := &r.data.Tables[f.table]
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == p.column }) {
		return nil
	}
	c := Column{Name: p.column, Values: make([]string, len(f.rows))}
	for i, row := range f.rows {
		c.Values[i] = row[index]
		r.values += len(row[index]) + len(`"",`)
	}
	if r.values > maxValues {
		return p.fail("use fewer rows: they repeat", "the columns in use have more than %d bytes", maxValues)
	}
	t.Columns = append(t.Columns, c)
	return nil
}

// open reads the file of an expression, once.
func (r *Reader) open(p *piece) (*file, error) {
	if f := r.files[p.file]; f != nil && f.dir != r.Dir {
		return nil, p.fail("rename one", "it is a file of %s here, and of %s before", cmp.Or(r.Dir, "."), cmp.Or(f.dir, "."))
	} else if f != nil {
		return f, nil
	}
	if len(r.files) == maxFiles {
		return nil, p.fail("", "more than %d files", maxFiles)
	}
	path := p.file
	read := func() ([]byte, error) { return regular.ReadInput(path, maxFile) }
	switch {
	case r.Inside:
		read = func() ([]byte, error) { return regular.ReadInside(cmp.Or(r.Dir, "."), path, maxFile) }
	case !filepath.IsAbs(path):
		path = filepath.Join(r.Dir, path)
	}
	content, err := read()
	if err != nil {
		tip := ""
		if r.Inside {
			tip = "the path is relative to the directory of the requests, and the file lies below it"
		}
		return nil, p.fail(tip, "%v", err)
	}
	f, err := readCSV(content, p.file)
	if err != nil {
		return nil, err
	}
	f.dir, f.table = r.Dir, len(r.data.Tables)
	r.data.Tables = append(r.data.Tables, Table{File: p.file})
	if r.files == nil {
		r.files = map[string]*file{}
	}
	r.files[p.file] = f
	return f, nil
}

// fail is a mistake in an expression.
func (p *piece) fail(tip, format string, args ...any) error {
	return &Error{p.at.Problem(fmt.Sprintf(format, args...), tip), p.source}
}

// readCSV reads a file whose first row names the columns (RFC 4180).
func readCSV(content []byte, name string) (*file, error) {
	content = bytes.TrimPrefix(content, []byte("\ufeff")) // of Windows
	in := csv.NewReader(bytes.NewReader(content))
	f, begin := &file{}, strict.Position{File: name, Line: 1, Column: 1}
	for {
		row, err := in.Read()
		switch {
		case errors.Is(err, io.EOF):
			if len(f.rows) == 0 {
				return nil, &Error{Problem: begin.Problem("the file has no rows below its names of columns", "write id,name and then a row a line")}
			}
			return f, nil
		case err != nil:
			at := &Error{Problem: begin.Problem(err.Error(), "")}
			if broken, ok := errors.AsType[*csv.ParseError](err); ok {
				at.Line, at.Column, at.Message = broken.Line, max(1, broken.Column), broken.Err.Error()
			}
			return nil, at
		case f.header == nil:
			for i, column := range row {
				row[i] = strings.TrimSpace(column)
				if slices.Contains(row[:i], row[i]) {
					return nil, &Error{Problem: begin.Problem(fmt.Sprintf("two columns have the name %q", row[i]), "")}
				}
			}
			f.header = row
		default:
			line, _ := in.FieldPos(0)
			f.rows, f.lines = append(f.rows, row), append(f.lines, line)
		}
	}
}

package generator

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
)

// maxRow bounds one line of a record of requests, in bytes.
const maxRow = 16 << 20

// eachRow reads comma-separated rows of a fixed number of columns. It skips a first
// row whose first cell is header.
func eachRow(r io.Reader, generator, header string, columns int, row func([]string) error) error {
	c := csv.NewReader(&bounded{r: bufio.NewReader(r)})
	c.FieldsPerRecord = columns
	c.ReuseRecord = true
	for n := 0; ; n++ {
		cells, err := c.Read()
		if errors.Is(err, io.EOF) {
			if n == 0 {
				return fmt.Errorf("read output of %s: it is empty", generator)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read output of %s: %w", generator, err)
		}
		if n == 0 && cells[0] == header {
			continue
		}
		if n > maxRecords {
			return tooMany(generator)
		}
		if err := row(cells); err != nil {
			line, _ := c.FieldPos(0)
			return fmt.Errorf("read output of %s: line %d: %w", generator, line, err)
		}
	}
}

func tooMany(generator string) error {
	return fmt.Errorf("read output of %s: more than %d requests", generator, maxRecords)
}

// bounded fails on a line longer than maxRow before the line is in memory.
type bounded struct {
	r    io.Reader
	line int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p[:min(len(p), maxRow)])
	if i := bytes.IndexByte(p[:n], '\n'); i >= 0 {
		if b.line+i > maxRow {
			return 0, errLine
		}
		b.line = n - 1 - bytes.LastIndexByte(p[:n], '\n')
	} else if b.line += n; b.line > maxRow {
		return 0, errLine
	}
	return n, err
}

var errLine = fmt.Errorf("a line is longer than %d bytes", maxRow)

// eachLine reads lines of bounded length.
func eachLine(r io.Reader, generator string, line func(string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxRow)
	n := 0
	for s.Scan() {
		n++
		if err := line(s.Text()); err != nil {
			return fmt.Errorf("read output of %s: line %d: %w", generator, n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("read output of %s: %w", generator, err)
	}
	if n == 0 {
		return fmt.Errorf("read output of %s: it is empty", generator)
	}
	return nil
}

// counts omits figures that are not a count.
func counts[T ~float64](m map[string]*T) map[string]int64 {
	if m == nil {
		return nil
	}
	out := make(map[string]int64, len(m))
	for k, v := range m {
		if v == nil {
			continue
		}
		if n := count(float64(*v)); n != nil {
			out[k] = *n
		}
	}
	return out
}

// value is 0 for an absent number.
func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func sum(m map[string]int64) int64 {
	var n int64
	for _, v := range m {
		n = min(n+v, maxCount)
	}
	return n
}

// refused returns an error that wraps errors.ErrUnsupported with a reason.
func refused(generator, format string, args ...any) error {
	return fmt.Errorf("load profile for %s: %s: %w", generator, fmt.Sprintf(format, args...), errors.ErrUnsupported)
}

package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sample is a line of the text format.
type Sample struct {
	Name   string
	Labels map[string]string // nil without braces
	Value  float64           // may be NaN or infinite
	Time   time.Time         // zero in a line without
}

// Samples reads a text: lines that begin with one of prefixes, or all. A line that is damaged is the last, with an error.
func Samples(text []byte, prefixes ...string) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
				continue
			}
			if len(prefixes) > 0 && !slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(line, []byte(p)) }) {
				continue
			}
			s, err := parse(string(line))
			if err != nil {
				err = fmt.Errorf("line %.120q: %w", line, err)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// parse reads "name{label="value",…} value milliseconds".
func parse(line string) (s Sample, err error) {
	var rest string
	if s.Name, s.Labels, rest, err = ParseSeries(line); err != nil {
		return s, err
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return s, errors.New("no value")
	}
	if s.Value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return s, err
	}
	if len(fields) > 1 {
		ms, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return s, err
		}
		s.Time = time.UnixMilli(ms)
	}
	return s, nil
}

// ParseSeries reads the name and the labels at the beginning of a text. Labels have no other escapes than \\, \" and \n.
func ParseSeries(text string) (name string, labels map[string]string, rest string, err error) {
	i := strings.IndexAny(text, "{ ")
	if i < 0 {
		return text, nil, "", nil
	}
	name, rest = text[:i], text[i:]
	if rest[0] != '{' {
		return name, nil, rest, nil
	}
	labels, rest = map[string]string{}, rest[1:]
	for {
		rest = strings.TrimLeft(rest, ", ")
		if after, closed := strings.CutPrefix(rest, "}"); closed {
			return name, labels, after, nil
		}
		label, quoted, ok := strings.Cut(rest, "=")
		if !ok {
			return "", nil, "", errors.New("labels without an end")
		}
		q, err := strconv.QuotedPrefix(quoted)
		if err != nil {
			return "", nil, "", err
		}
		if labels[label], err = strconv.Unquote(q); err != nil {
			return "", nil, "", err
		}
		rest = quoted[len(q):]
	}
}

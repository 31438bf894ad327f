// Package strict decodes YAML into Go structs and reports every mistake at once,
// with line, column and, if possible, a hint. Mistakes are unknown fields, wrong
// types, duplicate keys, anchors, and documents that are too big or not UTF-8.
// It reads experiment files, topologies and mesh definitions.
//
// A caller parses, decodes and validates, and returns all mistakes at once:
//
//	doc, err := strict.Parse(name, data)
//	if err != nil {
//		return err
//	}
//	doc.Decode(&v)              // fields already set in v are its defaults
//	if v.Rate < 0 && doc.Sound("rate") {
//		doc.Report("rate", "…", "…")
//	}
//	return doc.Err()
package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/lists"
)

const (
	// MaxBytes is the max size of a file. Users write these files by hand. The
	// largest known has 10 KiB.
	MaxBytes = 1 << 20
	// maxDepth is how deeply lists and mappings may be nested.
	maxDepth = 32
	// maxProblems bounds the problems of one file.
	maxProblems = 100
)

// Problem is one mistake in a file. Line and Column count from 1, columns in
// characters. A Line of 0 means that File is not a file but an override. A text of
// one line, such as a condition, has a Column only.
type Problem struct {
	File    string
	Line    int
	Column  int
	Message string
	Tip     string // what to do about it; may be empty
}

// Error is "file:line:column: message", without the hint.
func (p Problem) Error() string {
	switch {
	case p.File == "":
		return p.Message
	case p.Line == 0:
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Hint is the tip, for package hint.
func (p Problem) Hint() string { return p.Tip }

// InvalidFile marks the error as a mistake in a file.
func (Problem) InvalidFile() {}

// Problems are all mistakes of one file in the order of their positions. As an
// error it is one line a mistake. Use errors.As to print the hints as well.
type Problems []Problem

func (ps Problems) Error() string {
	lines := lists.Map(ps, Problem.Error)
	return strings.Join(lines, "\n")
}

// Scalar is a type that reads itself from the text of one YAML scalar. The
// error of UnmarshalScalar follows the field's name in the message, in the form
// "found …, expected …".
type Scalar interface {
	UnmarshalScalar(text string) error
}

// ShortForm is a struct that may be written as a plain value as well as a mapping
// of its fields. A plain value is decoded into value, a pointer, and use is called
// if it is valid.
type ShortForm interface {
	ShortForm() (value any, use func())
}

// Table is a mapping with fields listed by a value instead of a struct type.
type Table interface {
	Fields() []string
	// Field returns a pointer to decode a field into, and a function that stores the decoded value.
	Field(name string) (value any, store func())
}

// Wanter describes the expected text of a [Scalar] for messages, e.g. "a duration
// such as 30s".
type Wanter interface {
	Wants() string
}

// Position is a place in a file, or the override that stands for one (Line 0).
type Position struct {
	File   string
	Line   int
	Column int
}

// Document is one parsed file with its mistakes.
type Document struct {
	file     string
	root     *yaml.Node
	from     map[*yaml.Node]string // nodes that came from an override, and its name
	aliases  map[string]int        // how often each was seen
	problems Problems
	top      []string // fields of the outermost struct
	bad      []string // paths that a problem was reported for

	// Lenient documents may have unknown fields: records of another version have them.
	Lenient bool
}

// Has reports whether the file or an override has a value at path.
func (d *Document) Has(path string) bool {
	_, _, ok := d.find(path)
	return ok
}

// Text is the scalar at path, and whether there is one.
func (d *Document) Text(path string) (string, bool) {
	_, node, ok := d.find(path)
	if !ok || node.Kind != yaml.ScalarNode {
		return "", false
	}
	return node.Value, true
}

// Sound reports whether path, its parents and its children have no mistake yet.
// Validation calls it so that each mistake is reported once. It returns false
// once there are too many mistakes to print.
func (d *Document) Sound(path string) bool {
	if d.full() {
		return false
	}
	return !slices.ContainsFunc(d.bad, func(b string) bool { return path == "" || b == "" || b == path || within(b, path) || within(path, b) })
}

func within(inner, outer string) bool {
	return len(inner) > len(outer) && strings.HasPrefix(inner, outer) && (inner[len(outer)] == '.' || inner[len(outer)] == '[')
}

// Report adds a mistake at path. The message is prefixed with the path.
func (d *Document) Report(path, message, hint string) {
	p := d.At(path)
	d.report(p, path, message, hint)
}

// At is the position of the value at path, such as "factors.rate[1]": of the
// value itself if it is on one line, else of its key. A path missing from the file
// has the position of its nearest parent.
func (d *Document) At(path string) Position {
	keyNode, node, _ := d.find(path)
	return d.position(keyNode, node)
}

func (d *Document) report(at Position, path, message, hint string) {
	if d.full() {
		return
	}
	d.bad = append(d.bad, path)
	if path != "" {
		message = path + ": " + message
	}
	d.problems = append(d.problems, at.Problem(message, hint))
}

// Problem is a mistake at the position. The tip may be empty.
func (p Position) Problem(message, tip string) Problem {
	return Problem{File: p.File, Line: p.Line, Column: p.Column, Message: message, Tip: tip}
}

// full reports whether further mistakes would not be printed.
func (d *Document) full() bool { return len(d.problems) >= maxProblems }

// Err returns all mistakes as [Problems], sorted by position, or nil.
func (d *Document) Err() error {
	if len(d.problems) == 0 {
		return nil
	}
	ps := slices.Clone(d.problems)
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if len(ps) >= maxProblems {
		last := ps[len(ps)-1]
		last.Message, last.Tip = fmt.Sprintf("stopped after %d mistakes", maxProblems), ""
		ps = append(ps, last)
	}
	return ps
}

// Clone returns the document with its mistakes so far. Later mistakes of one are not in the other.
func (d *Document) Clone() *Document {
	c := *d
	c.problems, c.bad = slices.Clip(d.problems), slices.Clip(d.bad)
	return &c
}

// position returns the position of the key for a block value.
func (d *Document) position(key, n *yaml.Node) Position {
	if name, ok := d.from[n]; ok {
		return Position{File: name}
	}
	if key != nil && n.Kind != yaml.ScalarNode && n.Style&yaml.FlowStyle == 0 {
		n = key
	}
	if n.Line == 0 {
		return Position{File: d.file, Line: 1, Column: 1}
	}
	return Position{File: d.file, Line: n.Line, Column: n.Column}
}

// find returns the node at path with its key, or the last existing node and key along path.
func (d *Document) find(path string) (key, node *yaml.Node, ok bool) {
	node = d.root
	steps, err := splitPath(path)
	if err != nil {
		return nil, node, false
	}
	for i := 0; i < len(steps); i++ {
		s := steps[i]
		k, n := child(node, s)
		for j := i + 1; n == nil && s.key != "" && j < len(steps) && steps[j].key != ""; j++ { // a key with dots: istio-1.29
			s.key += "." + steps[j].key
			if k, n = child(node, s); n != nil {
				i = j
			}
		}
		if n == nil {
			return key, node, false
		}
		if k != nil || s.key == "" {
			key = k
		}
		node = n
	}
	return key, node, true
}

func child(n *yaml.Node, s step) (key, value *yaml.Node) {
	switch {
	case n.Kind == yaml.SequenceNode && s.key == "" && s.index < len(n.Content):
		return nil, n.Content[s.index]
	case n.Kind == yaml.MappingNode && s.key != "":
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == s.key {
				return n.Content[i], n.Content[i+1]
			}
		}
	}
	return nil, nil
}

// InvalidFile marks the error as a mistake in a file.
func (Problems) InvalidFile() {}

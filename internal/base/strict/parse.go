package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/regular"
)

// ReadFile reads a file or pipe of at most [MaxBytes]. The error is a [Problems], or
// the operating system's error.
func ReadFile(path string) ([]byte, error) {
	data, err := regular.ReadInput(path, MaxBytes)
	if errors.Is(err, regular.ErrTooLarge) {
		return nil, tooLarge(path)
	}
	return data, err
}

// Parse reads one YAML document. What makes it unreadable as a whole is
// returned as [Problems]. Anchors, aliases, tags, duplicate keys and the like
// are kept in the document, to be returned by [Document.Err] with the rest.
func Parse(file string, data []byte) (doc *Document, err error) {
	defer func() {
		if r := recover(); r != nil {
			doc, err = nil, whole(file, 1, 1, fmt.Sprintf("cannot be read as YAML: %v", r), "")
		}
	}()
	if len(data) > MaxBytes {
		return nil, tooLarge(file)
	}
	if p, ok := badCharacter(data); ok {
		p.File = file
		return nil, Problems{p}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := dec.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, whole(file, 1, 1, "the file is empty", "start from one of the files in examples/")
	case err != nil:
		return nil, syntax(file, data, err)
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, syntax(file, data, err)
	default:
		n := second.Content[0]
		return nil, whole(file, n.Line, n.Column, "a second document begins here, expected one", "remove the --- or split the file")
	}
	d := &Document{file: file, root: first.Content[0], from: map[*yaml.Node]string{}, aliases: map[string]int{}}
	if d.root.Kind == yaml.ScalarNode && d.root.ShortTag() == "!!null" {
		return nil, whole(file, 1, 1, "the file is empty", "start from one of the files in examples/")
	}
	if !d.inspect(d.root, nil, 1) {
		return nil, d.Err()
	}
	return d, nil
}

func tooLarge(file string) error {
	return Problems{{File: file, Line: 1, Column: 1,
		Message: fmt.Sprintf("the file is larger than %d bytes", MaxBytes),
		Tip:     "is this the right file?"}}
}

// badCharacter finds the first byte that no YAML file may hold.
func badCharacter(data []byte) (Problem, bool) {
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return Problem{Line: line, Column: column, Message: fmt.Sprintf("byte 0x%02x is not UTF-8", data[i]), Tip: "save the file as UTF-8"}, true
		case r == 0xFEFF && i > 0, r < 0x20 && r != '\t' && r != '\n' && r != '\r', r >= 0x7f && r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff:
			return Problem{Line: line, Column: column, Message: fmt.Sprintf("control character U+%04X", r), Tip: "remove it; in a quoted string write \\x" + fmt.Sprintf("%02x", r)}, true
		case r == '\n':
			line, column = line+1, 0
		case r == 0xFEFF:
			column = 0
		}
		i += size
		column++
	}
	return Problem{}, false
}

// inspect refuses YAML features that only an attacker's file needs, and reports
// duplicate keys. It returns false if the tree is too deep for the next steps.
func (d *Document) inspect(n *yaml.Node, at *ref, depth int) bool {
	if depth > maxDepth {
		d.report(d.position(nil, n), "", fmt.Sprintf("nested more than %d deep", maxDepth), "")
		return false
	}
	switch {
	case n.Kind == yaml.AliasNode:
		// Report each name once: an attack may contain very many aliases.
		if d.aliases[n.Value]++; d.aliases[n.Value] == 1 {
			d.report(d.position(nil, n), at.String(), "the alias *"+short(n.Value)+" is not allowed", "write the value out")
		}
		return true
	case n.Anchor != "":
		d.report(d.position(nil, n), at.String(), "the anchor &"+short(n.Anchor)+" is not allowed", "write the value out where it is needed")
	case n.Style&yaml.TaggedStyle != 0:
		d.report(d.position(nil, n), at.String(), "the tag "+short(n.Tag)+" is not allowed", "remove the tag")
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, c := range n.Content {
			if !d.inspect(c, &ref{parent: at, index: i}, depth+1) {
				return false
			}
		}
	case yaml.MappingNode:
		return d.inspectMapping(n, at, depth)
	}
	return true
}

func (d *Document) inspectMapping(n *yaml.Node, at *ref, depth int) bool {
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.ShortTag() == "!!merge":
			d.report(d.position(nil, k), at.String(), "the merge key << is not allowed", "write the fields out")
		case k.Kind != yaml.ScalarNode || k.Anchor != "" || k.Style&yaml.TaggedStyle != 0 || k.Value == "":
			d.report(d.position(nil, k), at.String(), "found "+found(k)+" as a key, expected a field's name", "")
		case seen[k.Value] != nil:
			d.report(d.position(nil, k), (&ref{parent: at, key: k.Value}).String(),
				fmt.Sprintf("given twice, first on line %d", seen[k.Value].Line), "remove one of them")
			continue
		default:
			seen[k.Value] = k
		}
		if !d.inspect(v, &ref{parent: at, key: k.Value}, depth+1) {
			return false
		}
	}
	return true
}

// syntaxErrors maps messages of the YAML library to messages with a hint. The
// library counts lines from 0 in the errors of its parser and from 1 in those
// of its scanner. Off is the difference. find narrows the place down to a column.
var syntaxErrors = []struct {
	text, hint string
	off        int
	find       func(line string) int
}{
	{"mapping values are not allowed", "check the indentation; a value that holds \": \" needs quotes", 0,
		func(l string) int { return strings.LastIndex(l, ":") }},
	{"did not find expected key", "check the indentation of this line and of the one before it", 1, nil},
	{"did not find expected ',' or", "a bracket or brace is not closed, or a comma is missing", 1,
		func(l string) int { return strings.IndexAny(l, "[{") }},
	{"did not find expected '-' indicator", "check the indentation of the list", 1, nil},
	{"did not find expected node content", "a value is missing", 1, nil},
	{"could not find expected ':'", "a field needs a colon and a space after its name", 0, nil},
	{"found unexpected end of stream", "a quote is not closed", 0, func(l string) int { return strings.IndexAny(l, "\"'") }},
	{"cannot start any token", "put quotes around a value that begins with this character", 0,
		func(l string) int { return strings.IndexAny(l, "@`%") }},
	{"found unknown escape character", "in double quotes a backslash is written \\\\", 0,
		func(l string) int { return strings.Index(l, "\\") }},
	{"block sequence entries are not allowed", "a list begins on a line of its own", 0, nil},
}

// syntax turns an error of the YAML library into a Problem. The library gives
// a line within its text, or none, and no column.
func syntax(file string, data []byte, err error) Problems {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	lines := strings.Split(string(data), "\n")
	if name, ok := strings.CutPrefix(message, "unknown anchor '"); ok {
		return unknownAlias(file, lines, strings.TrimSuffix(name, "' referenced"))
	}
	line := 1
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		number, after, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, message = n, after
		}
	}
	hint, find := "", func(string) int { return -1 }
	for _, s := range syntaxErrors {
		if strings.Contains(message, s.text) {
			hint = s.hint
			if line > 1 || len(lines) == 1 {
				line += s.off
			}
			if s.find != nil {
				find = s.find
			}
			break
		}
	}
	line = min(max(line, 1), len(lines))
	if ps := tabs(file, lines, line); len(ps) > 0 {
		return ps
	}
	text := lines[line-1]
	at := find(text)
	if at < 0 {
		at = len(text) - len(strings.TrimLeft(text, " "))
	}
	return whole(file, line, utf8.RuneCountInString(text[:at])+1, "not YAML: "+short(message), hint)
}

// unknownAlias finds the position of an alias that the library reports without one.
func unknownAlias(file string, lines []string, name string) Problems {
	message, hint := "the alias *"+short(name)+" is not allowed", "write the value out"
	for i, l := range lines {
		if at := strings.Index(l, "*"+name); at >= 0 {
			return whole(file, i+1, utf8.RuneCountInString(l[:at])+1, message, hint)
		}
	}
	return whole(file, 1, 1, message, hint)
}

// tabs finds the tabs in the indentation around the line where parsing
// stopped: by far the most common reason, and one the library does not name.
func tabs(file string, lines []string, stopped int) Problems {
	var ps Problems
	for i := max(stopped-2, 0); i < min(stopped+2, len(lines)); i++ {
		indent := lines[i][:len(lines[i])-len(strings.TrimLeft(lines[i], " \t"))]
		if at := strings.IndexByte(indent, '\t'); at >= 0 {
			ps = append(ps, whole(file, i+1, at+1, "a tab in the indentation", "YAML is indented with spaces")...)
		}
	}
	return ps
}

func whole(file string, line, column int, message, hint string) Problems {
	return Problems{{File: file, Line: max(line, 1), Column: max(column, 1), Message: message, Tip: hint}}
}

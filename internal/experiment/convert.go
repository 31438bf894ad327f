package experiment

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// Change is one replaced value of a converted file.
type Change struct {
	Line     int
	Path     string
	Old, New string
}

// Convert returns a file of an earlier version in the current one, with the changes. Only the values that differ are
// replaced: comments, order and layout remain. It checks no other field. The error is a [strict.Problems].
func Convert(name string, data []byte) ([]byte, []Change, error) {
	doc, err := strict.Parse(name, data)
	if err != nil {
		return nil, nil, err
	}
	version, _ := doc.Text("apiVersion")
	switch version {
	case APIVersion:
		return data, nil, nil
	case v1alpha1:
	default:
		doc.Report("apiVersion", fmt.Sprintf("found %q, expected %q or %q", clip(version), v1alpha1, APIVersion), "")
		return nil, nil, doc.Err()
	}
	changes := []Change{{Path: "apiVersion", Old: v1alpha1, New: APIVersion}}
	for _, r := range renamings {
		if text, ok := doc.Text(r.path); ok && text == r.old {
			changes = append(changes, Change{Path: r.path, Old: r.old, New: r.now})
		}
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i := range changes {
		changes[i].Line = doc.At(changes[i].Path).Line
	}
	right := slices.Clone(changes) // from the right: a replacement moves what follows it in its line
	slices.SortFunc(right, func(a, b Change) int { return cmp.Compare(doc.At(b.Path).Column, doc.At(a.Path).Column) })
	for _, c := range right {
		at := doc.At(c.Path)
		if line, ok := replaceAt(lines[at.Line-1], at.Column, c.Old, c.New); ok {
			lines[at.Line-1] = line
			continue
		}
		doc.Report(c.Path, "cannot be replaced here", "write "+c.Path+": "+c.New+" on one line")
		return nil, nil, doc.Err()
	}
	return bytes.Join(lines, nil), changes, nil
}

// replaceAt replaces a plain or quoted value that begins at a column, counted in characters from 1.
func replaceAt(line []byte, column int, old, now string) ([]byte, bool) {
	at := 0
	if bytes.HasPrefix(line, []byte("\ufeff")) { // a byte order mark has no column
		at = len("\ufeff")
	}
	for ; column > 1 && at < len(line); column-- {
		_, size := utf8.DecodeRune(line[at:])
		at += size
	}
	rest := string(line[at:])
	for _, quote := range []string{"", `"`, "'"} {
		if after, ok := strings.CutPrefix(rest, quote+old+quote); ok {
			return []byte(string(line[:at]) + quote + now + quote + after), true
		}
	}
	return nil, false
}

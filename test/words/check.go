package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// finding is one place that breaks a rule.
type finding struct {
	file      string
	line, col int
	text      string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.file, f.line, f.col, f.text)
}

// outcome is the findings of a whole repository.
type outcome struct {
	findings []finding
	// sentences and semicolons count sentences per kind, and those with a semicolon.
	sentences, semicolons map[kind]int
}

func (r *rules) check(blocks []*block) *outcome {
	o := &outcome{sentences: map[kind]int{}, semicolons: map[kind]int{}}
	for _, b := range blocks {
		if b.kind == identifiers {
			continue
		}
		for _, s := range b.sentences() {
			o.sentences[b.kind]++
			if strings.Contains(s.text, ";") {
				o.semicolons[b.kind]++
			}
			if n := len(strings.Fields(s.text)); n > r.SentenceWords[b.kind] && r.SentenceWords[b.kind] > 0 {
				o.add(b, s.offset, fmt.Sprintf("sentence of %d words: write sentences of at most 25, never more than %d", n, r.SentenceWords[b.kind]))
			}
		}
	}
	for _, rule := range r.Rules {
		for _, k := range rule.Where {
			o.apply(rule, k, blocks)
		}
	}
	slices.SortFunc(o.findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), a.line-b.line, a.col-b.col, cmp.Compare(a.text, b.text))
	})
	return o
}

// apply adds the uses of one rule in one kind of text, where they exceed the rule's share.
func (o *outcome) apply(rule *rule, k kind, blocks []*block) {
	type use struct {
		b  *block
		at []int
	}
	var uses []use
	for _, b := range blocks {
		if b.kind != k {
			continue
		}
		for _, at := range rule.uses(b.text) {
			uses = append(uses, use{b, at})
		}
	}
	limit := ""
	if rule.Share > 0 {
		share := 100 * float64(len(uses)) / float64(max(1, o.sentences[k]))
		if share <= rule.Share {
			return
		}
		limit = fmt.Sprintf(" (in %.1f %% of the sentences of %s; at most %g %%)", share, k, rule.Share)
	}
	for _, u := range uses {
		word := strings.Join(strings.Fields(string(u.b.text[u.at[0]:u.at[1]])), " ")
		o.add(u.b, u.at[0], fmt.Sprintf("%q: write %s%s", word, rule.Instead, limit))
	}
}

func (o *outcome) add(b *block, offset int, text string) {
	line, col := b.position(offset)
	o.findings = append(o.findings, finding{b.file, line, col, text})
}

// under returns the findings in the files and directories at paths.
func (o *outcome) under(paths []string) []finding {
	var found []finding
	for _, f := range o.findings {
		if slices.ContainsFunc(paths, func(p string) bool { return within(f.file, path.Clean(strings.TrimSuffix(p, "..."))) }) {
			found = append(found, f)
		}
	}
	return found
}

func within(file, dir string) bool {
	return dir == "." || file == dir || strings.HasPrefix(file, dir+"/")
}

// print writes the findings and the shares of semicolons, and returns the number of findings.
func (o *outcome) print(w io.Writer, r *rules) int {
	n := len(o.findings)
	for _, f := range o.findings {
		fmt.Fprintln(w, f)
	}
	for _, k := range slices.Sorted(maps.Keys(r.SemicolonShare)) {
		share := 100 * float64(o.semicolons[k]) / float64(max(1, o.sentences[k]))
		fmt.Fprintf(w, "%s: %.1f %% of %d sentences have a semicolon (at most %g %%)\n", k, share, o.sentences[k], r.SemicolonShare[k])
		if share > r.SemicolonShare[k] {
			n++
		}
	}
	return n
}

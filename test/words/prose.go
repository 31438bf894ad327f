package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"strings"
)

// kind is the sort of prose.
type kind string

const (
	comments kind = "comments"
	docs     kind = "docs"
	messages kind = "messages"
	names    kind = "names"
)

// text is the prose of one kind in a file. It is as long as its source, with zero bytes in place of the rest.
type text struct {
	file          string
	kind          kind
	source, prose []byte
	offset        int // where prose begins in the source
}

func (t text) finding(at int, message string) finding {
	for at < len(t.prose)-1 && bytes.IndexByte([]byte(" \t\n-*"), t.prose[at]) >= 0 {
		at++
	}
	at = min(t.offset+at, len(t.source))
	before := t.source[:at]
	return finding{t.file, 1 + bytes.Count(before, []byte("\n")), at - bytes.LastIndexByte(before, '\n'), message}
}

// parts divides t at zero bytes.
func (t text) parts() (all []text) {
	at := 0
	for part := range bytes.SplitSeq(t.prose, []byte{0}) {
		if len(bytes.TrimSpace(part)) > 0 {
			all = append(all, text{t.file, t.kind, t.source, part, t.offset + at})
		}
		at += len(part) + 1
	}
	return all
}

// newText has no prose yet. Line breaks do not end it.
func newText(file string, k kind, source []byte) text {
	t := text{file: file, kind: k, source: source, prose: make([]byte, len(source))}
	for i, c := range source {
		if c == '\n' {
			t.prose[i] = c
		}
	}
	return t
}

// add makes a part of the source prose. One without a space is a key, not prose.
func (t text) add(from int, part []byte) {
	if t.kind == comments || bytes.ContainsAny(bytes.TrimSpace(part), " \n") {
		copy(t.prose[from:], part)
	}
}

// cover overwrites with c what matches a pattern, or its last group if that takes part.
func cover(t []byte, pattern *regexp.Regexp, c byte) {
	for _, m := range pattern.FindAllSubmatchIndex(t, -1) {
		if part := m[len(m)-2:]; part[0] >= 0 {
			m = part
		}
		for i := m[0]; i < m[1]; i++ {
			t[i] = c
		}
	}
}

// format is how files other than Go and Markdown are read.
type format struct {
	files  string         // a pattern of the path or its last element
	hidden *regexp.Regexp // replaced first by a word
	prose  *regexp.Regexp // groups begin with the kind
}

// hashComment and the other patterns are named for what they match. Groups of a pattern may not have the same name.
const (
	hashComment = `(?m:(?:^|[ \t])#+(?P<comments>[^!#\n].*)$)`
	yamlValue   = `(?m:(?:^ *(?:- )?|[{,] *)(?:desc|doc|description|shortDescription|site_description|title|summary|caveats):? (?:(?P<docs>"[^"\n]*")|(?P<docs2>[^"\n,}].*(?:\n +[^\s:#-][^:\n]*$)*)))`
	shellText   = `\b(?:echo|printf) (?:-\w+ )*(?:"(?P<messages>(?:[^"\\]|\\.)*)"|'(?P<messages2>[^']*)')`
	// Regular expressions, which may contain quotes, are not prose.
	scriptText = "(?s:(?P<comments>(?:[ \t]*//[^\n]*\n)+|[ \t]//[^\n]*)|/\\*(?P<comments2>.*?)\\*/|\"(?P<messages>(?:[^\"\\\\\n]|\\\\.)*)\"|" +
		"'(?P<messages2>(?:[^'\\\\\n]|\\\\.)*)'|`(?P<messages3>(?:[^`\\\\]|\\\\.)*)`|(?:[=(,:!&|?\\[]|\\breturn)\\s*/(?:[^/\\\\\n\\[]|\\\\.|\\[[^\\]\n]*\\])+/)"
	htmlText = `(?s:<!--(?P<comments>.*?)-->|<(?:script|style|pre|code)\b[^>]*>.*?</(?:script|style|pre|code)>|` +
		`\b(?:title|alt|aria-label|placeholder)="(?P<messages>[^"]*)"|>(?P<messages2>[^<>]+))`
)

var formats = func() (all []format) {
	for _, f := range [][3]string{
		{"*.js *.mjs *.css", `\$\{(?:[^{}]|\{[^{}]*\})*\}`, scriptText},
		{"*.html", `\{\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}\}`, htmlText},
		{"*.yaml *.yml *.tmpl", `\{\{[^{}]*\}\}`, hashComment + "|" + yamlValue},
		{"*.sh Makefile .ci/run", `\{\{[^{}]*\}\}`, hashComment + "|" + shellText},
	} {
		for pattern := range strings.FieldsSeq(f[0]) {
			all = append(all, format{pattern, regexp.MustCompile(f[1]), regexp.MustCompile(f[2])})
		}
	}
	return all
}()

var inlineTag = regexp.MustCompile(`</?(?:a|b|i|em|strong|small|span)(?: (?:class|href|id)=[^<>]*)?>`)

// reader returns nil for files without prose.
func reader(file string) func(string, []byte) []text {
	switch path.Ext(file) {
	case ".go":
		return readGo
	case ".md":
		return readMarkdown
	}
	for _, f := range formats {
		for _, name := range []string{file, path.Base(file)} {
			if ok, _ := path.Match(f.files, name); ok {
				return f.read
			}
		}
	}
	return nil
}

func (f format) read(file string, source []byte) []text {
	visible := bytes.Clone(source)
	cover(visible, f.hidden, '_')
	cover(visible, inlineTag, ' ')
	all := map[kind]text{}
	for _, k := range []kind{comments, docs, messages} {
		all[k] = newText(file, k, source)
	}
	for _, m := range f.prose.FindAllSubmatchIndex(visible, -1) {
		for group, name := range f.prose.SubexpNames() {
			if from := m[2*group]; group > 0 && from >= 0 {
				all[kind(strings.TrimRight(name, "23"))].add(from, visible[from:m[2*group+1]])
			}
		}
	}
	coverMarks(all[comments])
	return []text{all[comments], all[docs], all[messages]}
}

// commentMark and preformatted match at the begin of a line.
var (
	commentMark  = regexp.MustCompile(`(?m)^[ \t]*(?:/\*+|//+|#+|\*+)`)
	preformatted = regexp.MustCompile(`(?m)^[ \t]*//(?:\t|   ).*$`)
)

// coverMarks lets a comment go on in the next line, if the comment before has a line of its own.
func coverMarks(t text) {
	for _, at := range preformatted.FindAllIndex(t.source, -1) {
		clear(t.prose[at[0]:at[1]])
	}
	end := -1 // of the line before
	for _, at := range commentMark.FindAllIndex(t.source, -1) {
		if at[0] == end+1 {
			copy(t.prose[at[0]:], bytes.Repeat([]byte(" "), at[1]-at[0]))
		}
		end = at[1] + bytes.IndexByte(t.source[at[1]:], '\n')
	}
}

var (
	codeBlock  = regexp.MustCompile("(?ms)^ *(?:```|~~~).*?^ *(?:```|~~~)[^\n]*$|^[ \t]*\n((?: {4}[^\n]*\n|\n)+)")
	inlineCode = regexp.MustCompile("``[^`]+``|`[^`]+`")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)|<(?:https?:[^>]*|/?[a-z]+|!--.*--)>`)
	blockEnd   = regexp.MustCompile(`(?m)\||^ *(?:#+ |>).*(\n)`)
)

// readMarkdown reads paragraphs, headings, list items and table cells. Code and link targets are left out.
func readMarkdown(file string, source []byte) []text {
	t := text{file: file, kind: docs, source: source, prose: bytes.Clone(source)}
	cover(t.prose, codeBlock, 0)
	cover(t.prose, inlineCode, '_')
	cover(t.prose, linkTarget, ' ')
	cover(t.prose, blockEnd, 0)
	return []text{t}
}

var (
	directive  = regexp.MustCompile(`^//(?:[a-z]+:|nolint|line |export )|^// (?:Output:|Code generated)`)
	fieldTag   = regexp.MustCompile("^`[a-zA-Z]+:\"")
	escape     = regexp.MustCompile(`\\[^n]`)
	escapedEnd = regexp.MustCompile(`\\n`)
	rawLineEnd = regexp.MustCompile(`(?m)(\n)[ \t]`)
	wordBegin  = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

func readGo(file string, source []byte) (all []text) {
	comment, message := newText(file, comments, source), newText(file, messages, source)
	var s scanner.Scanner
	files := token.NewFileSet()
	f := files.AddFile(file, -1, len(source))
	s.Init(f, source, nil, scanner.ScanComments)
	named := map[string]bool{}
	sum := -1 // where the last string of a sum ends
	for {
		pos, tok, lit := s.Scan()
		at := f.Offset(pos)
		switch {
		case tok == token.EOF:
			coverMarks(comment)
			return append(all, comment, message)
		case tok == token.COMMENT && !directive.MatchString(lit):
			comment.add(at+2, []byte(strings.TrimSuffix(lit[2:], "*/")))
		case tok == token.IDENT && !named[lit]:
			named[lit] = true
			words := []byte(wordBegin.ReplaceAllString(strings.ReplaceAll(lit, "_", " "), "$1 $2"))
			all = append(all, text{file, names, source, words, at})
		case tok == token.STRING && !fieldTag.MatchString(lit):
			part := []byte(lit[1 : len(lit)-1])
			if lit[0] == '"' {
				cover(part, escape, ' ')
				cover(part, escapedEnd, '\n')
			} else if strings.HasSuffix(file, "_test.go") { // lines of data
				part = bytes.ReplaceAll(part, []byte("\n"), []byte{0})
			} else {
				cover(part, rawLineEnd, 0)
			}
			if sum >= 0 {
				copy(message.prose[sum:], bytes.Repeat([]byte(" "), at+1-sum))
			}
			message.add(at+1, part)
			sum = at + len(lit) - 1
			continue
		}
		if tok != token.ADD && tok != token.COMMENT {
			sum = -1
		}
	}
}

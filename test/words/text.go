package main

import (
	"bytes"
	"path"
	"regexp"
)

// readers are the kinds of files that are read, by the pattern of a file's name or path. The first that matches reads.
var readers = []struct {
	pattern string
	read    func(file string, src []byte) ([]*block, error)
}{
	{"*.go", readGo},
	{"*.md", readMarkdown},
	{"*.js", readScript},
	{"*.mjs", readScript},
	{"*.css", readScript},
	{"*.html", readHTML},
	{"*.yaml", readYAML},
	{"*.yml", readYAML},
	{"*.tmpl", readYAML},
	{"*.sh", readShell},
	{"Makefile", readShell},
	{".ci/run", readShell},
}

func reader(file string) func(string, []byte) ([]*block, error) {
	for _, r := range readers {
		for _, name := range []string{file, path.Base(file)} {
			if is, _ := path.Match(r.pattern, name); is {
				return r.read
			}
		}
	}
	return nil
}

// pieces adds the text between two offsets of a file as one block, line by line. One without a space is a key, not prose.
func pieces(all []*block, file string, k kind, src []byte, from, to int) []*block {
	text := src[from:to]
	if !bytes.ContainsAny(bytes.TrimSpace(text), " \n") {
		return all
	}
	b := &block{file: file, kind: k}
	first := bytes.Count(src[:from], []byte("\n")) + 1
	col := from - bytes.LastIndexByte(src[:from], '\n')
	for i, line := range bytes.Split(text, []byte("\n")) {
		b.add(first+i, col, line)
		col = 1
	}
	return append(all, b)
}

// scriptToken matches what a script has besides code: comments, strings, and regular expressions, which may contain quotes.
var scriptToken = regexp.MustCompile("(?s)((?:[ \t]*//[^\n]*\n)+|[ \t]//[^\n]*)|/\\*(.*?)\\*/|\"((?:[^\"\\\\\n]|\\\\.)*)\"|'((?:[^'\\\\\n]|\\\\.)*)'|`((?:[^`\\\\]|\\\\.)*)`|(?:[=(,:!&|?\\[]|\\breturn)\\s*/(?:[^/\\\\\n\\[]|\\\\.|\\[[^\\]\n]*\\])+/")

// scriptCode matches the expressions of a template string.
var scriptCode = regexp.MustCompile(`\$\{(?:[^{}]|\{[^{}]*\})*\}`)

// commentLine matches the marks of a line of a comment, and the text of a preformatted one.
var commentLine = regexp.MustCompile(`(?m)^[ \t]*(//(?:[ ]{3}.*)?)`)

// readScript reads comments and strings of JavaScript, and comments of style sheets.
func readScript(file string, src []byte) (all []*block, err error) {
	text := bytes.Clone(src)
	for _, at := range scriptCode.FindAllIndex(text, -1) {
		for i := at[0]; i < at[1]; i++ {
			text[i] = '_'
		}
	}
	for _, m := range scriptToken.FindAllSubmatchIndex(text, -1) {
		for group, k := range []kind{1: comments, 2: comments, 3: messages, 4: messages, 5: messages} {
			from, to := m[2*group], m[2*group+1]
			if k == "" || from < 0 {
				continue
			}
			if k == comments {
				for _, at := range commentLine.FindAllSubmatchIndex(text[from:to], -1) {
					blank(text, from+at[2], from+at[3])
				}
			}
			all = pieces(all, file, k, text, from, to)
		}
	}
	return all, nil
}

var (
	templateAction = regexp.MustCompile(`\{\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}\}`)
	htmlHidden     = regexp.MustCompile(`(?s)<(?:script|style|pre|code)\b[^>]*>.*?</(?:script|style|pre|code)>`)
	htmlComment    = regexp.MustCompile(`(?s)<!--(.*?)-->`)
	htmlAttribute  = regexp.MustCompile(`\b(?:title|alt|aria-label|placeholder)="([^"]*)"`)
	htmlInline     = regexp.MustCompile(`</?(?:a|b|i|em|strong|small|span)\b[^>]*>`)
	htmlText       = regexp.MustCompile(`>([^<>]+)<`)
)

// readHTML reads the texts, attributes for readers and comments of pages and their templates.
func readHTML(file string, src []byte) (all []*block, err error) {
	text := bytes.Clone(src)
	for _, at := range templateAction.FindAllIndex(text, -1) {
		for i := at[0]; i < at[1]; i++ {
			text[i] = '_'
		}
	}
	add := func(pattern *regexp.Regexp, k kind) {
		for _, m := range pattern.FindAllSubmatchIndex(text, -1) {
			all = pieces(all, file, k, text, m[2], m[3])
		}
	}
	hide := func(pattern *regexp.Regexp) {
		for _, at := range pattern.FindAllIndex(text, -1) {
			for i := at[0]; i < at[1]; i++ {
				if text[i] != '\n' {
					text[i] = ' '
				}
			}
		}
	}
	add(htmlComment, comments)
	hide(htmlComment)
	hide(htmlHidden)
	add(htmlAttribute, messages)
	hide(htmlInline)
	// Each match takes the bracket that begins the next one: the texts are found one by one.
	for at := 0; ; {
		m := htmlText.FindSubmatchIndex(text[at:])
		if m == nil {
			return all, nil
		}
		all = pieces(all, file, messages, text, at+m[2], at+m[3])
		at += m[3]
	}
}

// yamlText matches the keys whose values are prose. A value goes on in the lines with more indentation.
var yamlText = regexp.MustCompile(`(?:^( *)(?:- )?|[{,] *)(?:desc|(?:doc|description|shortDescription|site_description|title|summary|caveats):) (.*)$`)

// readYAML reads comments, and values that are prose.
func readYAML(file string, src []byte) ([]*block, error) {
	all, err := readHashComments(file, src)
	at := 0
	for line := range bytes.Lines(src) {
		begin := at
		at += len(line)
		m := yamlText.FindSubmatchIndex(bytes.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		from, to := begin+m[4], begin+m[5]
		if m[2] < 0 { // in braces
			value := src[from:to]
			end := bytes.IndexAny(value, ",}")
			if bytes.HasPrefix(value, []byte{'"'}) {
				end = 1 + bytes.IndexByte(value[1:], '"')
			}
			if end > 0 {
				to = from + end
			}
		} else {
			for next := range bytes.Lines(src[at:]) {
				if indent := len(next) - len(bytes.TrimLeft(next, " ")); indent <= m[3]-m[2] && len(bytes.TrimSpace(next)) > 0 {
					break
				}
				to += len(next)
			}
		}
		all = pieces(all, file, docs, src, from, min(to, len(src)))
	}
	return all, err
}

// shellText matches the quoted texts that a command of a script prints.
var shellText = regexp.MustCompile(`\b(?:echo|printf) (?:-\w+ )*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')`)

// readShell reads the comments and printed texts of shell scripts and Makefiles.
func readShell(file string, src []byte) ([]*block, error) {
	all, err := readHashComments(file, src)
	for _, m := range shellText.FindAllSubmatchIndex(src, -1) {
		from, to := max(m[2], m[4]), max(m[3], m[5])
		all = pieces(all, file, messages, src, from, to)
	}
	return all, err
}

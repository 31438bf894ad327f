package main

import (
	"bytes"
	"regexp"
)

var (
	fence      = regexp.MustCompile("^ *(?:```|~~~)")
	inlineCode = regexp.MustCompile("``[^`]+``|`[^`]+`")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)|<(?:https?:[^>]*|/?[a-z]+|!--.*--)>`)
	listItem   = regexp.MustCompile(`^ *(?:[-*+]|\d+\.) `)
	heading    = regexp.MustCompile(`^ *(?:#+ |>)`)
)

// readMarkdown reads paragraphs, headings, list items and table cells. Code
// and link targets are left out.
func readMarkdown(file string, src []byte) ([]*block, error) {
	m := markdown{file: file}
	fenced := false
	for i, line := range bytes.Split(src, []byte("\n")) {
		switch {
		case fence.Match(line):
			fenced = !fenced
			m.end()
		case fenced:
		case len(bytes.TrimSpace(line)) == 0:
			m.end()
		case bytes.HasPrefix(line, []byte("    ")) && m.open == nil:
		case bytes.HasPrefix(bytes.TrimSpace(line), []byte("|")):
			m.end()
			m.row(i+1, prose(line))
		case heading.Match(line):
			m.end()
			m.add(i+1, prose(line))
			m.end()
		default:
			if listItem.Match(line) {
				m.end()
			}
			m.add(i+1, prose(line))
		}
	}
	m.end()
	return m.blocks, nil
}

// prose returns a line with its code replaced by a word of the same length and
// its link targets by spaces.
func prose(line []byte) []byte {
	text := bytes.Clone(line)
	for _, at := range inlineCode.FindAllIndex(text, -1) {
		for i := at[0]; i < at[1]; i++ {
			text[i] = '_'
		}
	}
	for _, at := range linkTarget.FindAllIndex(text, -1) {
		blank(text, at[0], at[1])
	}
	return text
}

type markdown struct {
	file   string
	blocks []*block
	open   *block
}

func (m *markdown) end() { m.open = nil }

func (m *markdown) add(line int, text []byte) {
	if m.open == nil {
		m.open = &block{file: m.file, kind: docs}
		m.blocks = append(m.blocks, m.open)
	}
	m.open.add(line, 1, text)
}

// row adds each cell of a table's row as a block of its own.
func (m *markdown) row(line int, text []byte) {
	from := 0
	for from < len(text) {
		to := bytes.IndexByte(text[from:], '|')
		if to < 0 {
			to = len(text) - from
		}
		cell := &block{file: m.file, kind: docs}
		cell.add(line, from+1, text[from:from+to])
		m.blocks = append(m.blocks, cell)
		from += to + 1
	}
}

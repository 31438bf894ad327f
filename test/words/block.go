package main

import (
	"bytes"
	"regexp"
	"sort"
	"strings"
)

// block is a run of prose: a comment, a paragraph, a message or a name.
// Its text keeps the length of its source, so that an offset has a position.
type block struct {
	file  string
	kind  kind
	text  []byte
	marks []mark
}

// mark is the position of the byte at offset.
type mark struct{ offset, line, col int }

// add appends a piece of a line, after a line break when the block has text.
func (b *block) add(line, col int, text []byte) {
	if len(b.text) > 0 {
		b.text = append(b.text, '\n')
	}
	b.marks = append(b.marks, mark{len(b.text), line, col})
	b.text = append(b.text, text...)
}

// position returns the line and column, from 1, of a byte of the text.
func (b *block) position(offset int) (line, col int) {
	i := sort.Search(len(b.marks), func(i int) bool { return b.marks[i].offset > offset }) - 1
	m := b.marks[max(i, 0)]
	return m.line, m.col + offset - m.offset
}

func (b *block) empty() bool { return len(bytes.TrimSpace(b.text)) == 0 }

// sentence is a sentence and its offset in the block.
type sentence struct {
	text   string
	offset int
}

// A sentence ends at a full stop, or where a paragraph or a list item begins.
var sentenceEnd = regexp.MustCompile(`[.!?][)"'*_]*(?:\s|$)|\n[ \t]*\n|\n[ \t]*(?:[-*]|\d+\.) `)

func (b *block) sentences() []sentence {
	var all []sentence
	add := func(from, to int) {
		text := string(b.text[from:to])
		trimmed := strings.TrimLeft(text, " \t\n-*")
		if strings.TrimSpace(trimmed) != "" {
			all = append(all, sentence{strings.TrimSpace(trimmed), from + len(text) - len(trimmed)})
		}
	}
	at := 0
	for _, end := range sentenceEnd.FindAllIndex(b.text, -1) {
		add(at, end[1])
		at = end[1]
	}
	add(at, len(b.text))
	return all
}

// blank replaces a part of the text with spaces.
func blank(text []byte, from, to int) {
	for i := from; i < to; i++ {
		text[i] = ' '
	}
}

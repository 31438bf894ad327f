package report

import (
	"bytes"
	"io"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/analysis"
)

// page is a text of headings, tables and notes, in one of two styles.
type page struct {
	out     *bytes.Buffer
	width   int
	heading func(string)
	item    func(string)
	note    func(string)
	table   func(columns []column, labels int)
}

func (p page) text() string { return p.out.String() }

// plainPage is for a terminal of o.Width columns.
func plainPage(b *bytes.Buffer, o Options) page {
	prose := o.Width
	if prose == 0 {
		prose = 120
	}
	first := true
	return page{
		out: b, width: o.Width,
		heading: func(s string) {
			if !first {
				writeLine(b, "")
			}
			first = false
			writeWrapped(b, s, "", "  ", prose)
		},
		item: func(s string) { writeWrapped(b, s, "  ", "    ", prose) },
		note: func(s string) { writeLine(b, ""); writeWrapped(b, s, "", "  ", prose) },
		table: func(columns []column, labels int) {
			writeTable(b, columns, labels, o.Width, "  ")
		},
	}
}

// markdownPage is GitHub-flavoured Markdown.
func markdownPage(b *bytes.Buffer, _ Options) page {
	first := true
	return page{
		out: b,
		heading: func(s string) {
			if !first {
				writeLine(b, "")
			}
			first = false
			writeLine(b, "### "+escapeMarkdown(s))
			writeLine(b, "")
		},
		item:  func(s string) { writeLine(b, "- "+escapeMarkdown(s)) },
		note:  func(s string) { writeLine(b, ""); writeLine(b, "_"+escapeMarkdown(s)+"_") },
		table: func(columns []column, _ int) { writeMarkdownTable(b, columns) },
	}
}

func writeMarkdownTable(b *bytes.Buffer, columns []column) {
	heads, rules := make([]string, len(columns)), make([]string, len(columns))
	rows := 0
	for i, c := range columns {
		heads[i], rules[i] = escapeMarkdown(strings.TrimSpace(strings.Join(c.heads, " "))), "---:"
		if c.left {
			rules[i] = ":---"
		}
		rows = max(rows, len(c.cells))
	}
	line := func(cells []string) { writeLine(b, "| "+strings.Join(cells, " | ")+" |") }
	line(heads)
	line(rules)
	for i := range rows {
		cells := make([]string, len(columns))
		rest := ""
		for j, c := range columns {
			cells[j] = escapeMarkdown(strings.TrimSpace(at(c.cells, i)))
			if j > 0 {
				rest += cells[j]
			}
		}
		if rest == "" && cells[0] != "" && !strings.HasPrefix(at(columns[0].cells, i), " ") { // it names the rows below it
			cells[0] = "**" + cells[0] + "**"
		}
		line(cells)
	}
}

// writeMarkdown is the text's sections as GitHub-flavoured Markdown.
func writeMarkdown(w io.Writer, r *analysis.Report, o Options) error {
	return (&text{out: &bytes.Buffer{}, r: r, o: Options{All: o.All}, label: newLabels(r), markdown: true}).write(w)
}

var markdownEscapes = strings.NewReplacer("\\", "\\\\", "|", "\\|", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", ">", "&gt;", "[", "\\[", "]", "\\]", "\n", " ", "\r", " ")

func escapeMarkdown(s string) string { return markdownEscapes.Replace(s) }

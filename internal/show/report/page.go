package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// proseWidth is the width of sentences without a terminal, in columns. Tables
// are then as wide as their columns.
const proseWidth = 120

// page is a text under construction: headings, sentences, lists and tables, for
// a terminal or as GitHub-flavoured Markdown.
type page struct {
	out      *bytes.Buffer
	markdown bool
	level    string // of Markdown headings: "##"
	width    int    // of the terminal in columns, 0 for unlimited
	color    bool   // ANSI escape sequences
	short    bool   // tables leave out columns that do not fit
}

// newPage makes the page of a style: Markdown folds its own lines.
func newPage(o Options, markdown bool, level string) *page {
	if markdown {
		return &page{out: &bytes.Buffer{}, markdown: true, level: level}
	}
	return &page{out: &bytes.Buffer{}, width: o.Width, color: o.Color}
}

// text is the page so far.
func (p *page) text() string { return p.out.String() }

// writeTo writes the finished page.
func (p *page) writeTo(w io.Writer, name string) error {
	if _, err := p.out.WriteTo(w); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// heading begins a section.
func (p *page) heading(s string) {
	if p.out.Len() > 0 {
		p.line("")
	}
	if p.markdown {
		writeLine(p.out, p.level+" "+escapeMarkdown(s))
		p.line("")
		return
	}
	p.styled(bold, func() { p.folded(s, "", "  ") })
}

// Styles of lines: parameters of the escape sequence SGR.
const (
	bold   = "1"
	faint  = "2"
	green  = "1;32"
	red    = "1;31"
	yellow = "1;33"
)

// styled gives each line of what write adds to the page a style, on a terminal with colours.
func (p *page) styled(style string, write func()) {
	from := p.out.Len()
	write()
	if !p.color || p.markdown {
		return
	}
	lines := strings.Split(strings.TrimRight(string(p.out.Bytes()[from:]), "\n"), "\n")
	p.out.Truncate(from)
	for _, line := range lines {
		p.out.WriteString("\x1b[" + style + "m" + line + "\x1b[0m\n")
	}
}

// prose is a paragraph.
func (p *page) prose(s string) {
	if p.markdown {
		writeLine(p.out, escapeMarker(escapeMarkdown(s)))
		p.line("")
		return
	}
	p.folded(s, "", "  ")
}

// item is an entry of a list.
func (p *page) item(s string) {
	if p.markdown {
		writeLine(p.out, "- "+escapeMarker(escapeMarkdown(s)))
		return
	}
	p.folded(s, "  ", "    ")
}

// code are lines to copy.
func (p *page) code(lines []string) {
	if p.markdown {
		lines = slices.Concat([]string{"```yaml"}, lines, []string{"```", ""})
	}
	for _, line := range lines {
		if !p.markdown {
			line = "    " + line
		}
		writeLine(p.out, line)
	}
}

// note is a paragraph in small print.
func (p *page) note(s string) {
	p.line("")
	if p.markdown {
		writeLine(p.out, "_"+escapeMarkdown(s)+"_")
		return
	}
	p.folded(s, "", "  ")
}

func (p *page) line(format string, args ...any) { writeLine(p.out, fmt.Sprintf(format, args...)) }

// warning adds an entry to the list of warnings, with its hint on a separate line.
func (p *page) warning(s, hint string) {
	if p.markdown {
		line := "- " + escapeMarkdown(s)
		if hint != "" {
			line += " _hint: " + escapeMarkdown(hint) + "_"
		}
		writeLine(p.out, line)
		return
	}
	p.folded(s, "  "+mark+" ", "    ")
	if hint != "" {
		p.folded("hint: "+hint, "    ", "          ")
	}
}

// folded writes s over as many lines as it needs: the first line after first, the others after rest.
func (p *page) folded(s, first, rest string) {
	width := cmp.Or(p.width, proseWidth)
	writeWrapped(p.out, s, first, rest, width)
}

// table writes columns side by side. The first labels columns name the rows.
func (p *page) table(columns []column, labels int) { p.tableAt(columns, labels, "  ") }

// tableAt is a table that begins indent from the left.
func (p *page) tableAt(columns []column, labels int, indent string) {
	if p.markdown {
		writeMarkdownTable(p.out, columns)
		return
	}
	writeTable(p.out, columns, labels, p.width, indent, p.short)
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
			cells[j] = escapeMarkdown(strings.TrimSpace(cellAt(c.cells, i)))
			if j > 0 {
				rest += cells[j]
			}
		}
		if rest == "" && cells[0] != "" && !strings.HasPrefix(cellAt(columns[0].cells, i), " ") { // it names the rows below it
			cells[0] = "**" + cells[0] + "**"
		}
		line(cells)
	}
}

var markdownEscapes = strings.NewReplacer("\\", "\\\\", "|", "\\|", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", ">", "&gt;", "[", "\\[", "]", "\\]", "\n", " ", "\r", " ")

// mention is the beginning of a mention or a reference on GitHub: @team notifies its members, #17 leaves a trace there.
var mention = regexp.MustCompile(`([@#])([0-9A-Za-z])`)

func escapeMarkdown(s string) string {
	return mention.ReplaceAllString(markdownEscapes.Replace(s), "$1&#8203;$2")
}

// escapeMarker escapes a first character that begins a list or a heading: "+ access_log" is an added field.
func escapeMarker(s string) string {
	if s != "" && strings.ContainsRune("+-#", rune(s[0])) {
		return "\\" + s
	}
	return s
}

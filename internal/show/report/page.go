package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
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

// tableIndent is the space before a table.
const tableIndent = "  "

// table writes columns side by side. The first labels columns name the rows.
func (p *page) table(columns []column, labels int) { p.tableAt(columns, labels, tableIndent) }

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

// Unbroken is a text whose numbers are not separated from their units where it is folded.
func Unbroken(text string) string {
	all := words(text)
	for i, word := range all {
		all[i] = strings.ReplaceAll(word, " ", "\u00a0")
	}
	return strings.Join(all, " ")
}

// gap is the space between columns.
const gap = 2

// column is one column of a table: its heads, one a line, and its cells.
type column struct {
	heads   []string
	cells   []string
	left    bool             // aligned left, while figures stand right
	title   map[int]bool     // cells that are titles of the rows below them, over all columns
	lines   map[int][]string // of cells that are folded
	verdict bool             // what each row shows: it is never left out
}

// grid is a table under construction, row by row.
type grid []column

// verdictHeads are the heads of the columns with what each row shows.
var verdictHeads = []string{"verdict", "trend", "outcome", "linear?", "verdict at each rate"}

// gridOf has a column for each head, with its lines separated by "\n". Columns named in left are aligned left.
func gridOf(left []int, heads ...string) grid {
	g := make(grid, len(heads))
	for i, h := range heads {
		g[i] = column{heads: strings.Split(h, "\n"), left: slices.Contains(left, i), title: map[int]bool{}, verdict: slices.Contains(verdictHeads, h)}
	}
	return g
}

// row adds a row. Absent cells are empty. A single one is a title.
func (g grid) row(cells ...string) {
	if len(cells) == 1 && len(g) > 1 {
		g[0].title[len(g[0].cells)] = true
	}
	for i := range g {
		g[i].cells = append(g[i].cells, cellAt(cells, i))
	}
}

// empty reports whether there is no row.
func (g grid) empty() bool { return len(g[0].cells) == 0 }

func (c column) width() int {
	w := lists.Most(c.heads, widthOf)
	for i := range c.cells {
		for _, line := range c.linesOf(i) {
			if !c.title[i] {
				w = max(w, widthOf(line))
			}
		}
	}
	return w
}

func (c column) linesOf(cell int) []string {
	if lines, folded := c.lines[cell]; folded {
		return lines
	}
	return []string{cellAt(c.cells, cell)}
}

// widthOf is the width of s in columns. Nearly all text is printable ASCII, one a byte.
func widthOf(s string) int {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

// writeTable writes columns side by side. Where they are wider than width (0: unlimited) it continues below in further
// panels, each with the first labels columns again. The first panel has the verdict. If short, it has one panel, and the number
// of columns left out.
func writeTable(w io.Writer, columns []column, labels, width int, indent string, short bool) {
	rest, room := columns[labels:], width-len(indent)
	for panel := 0; len(rest) > 0; panel++ {
		switch {
		case panel > 0 && short:
			writeLine(w, indent+"… "+printable.Counted(len(rest), "more column")+" with --all, or in a wider terminal")
			return
		case panel > 0:
			writeLine(w, "")
		}
		n := fitting(columns[:labels], rest, room)
		shown := slices.Concat(columns[:labels], rest[:n])
		if v := slices.IndexFunc(rest, func(c column) bool { return c.verdict }); v >= 0 && n < len(rest) {
			verdict := []column{rest[v].folded(mostVerdict)}
			rest = slices.Concat(rest[:v], rest[v+1:])
			n = max(fitting(slices.Concat(columns[:labels], verdict), rest, room), min(len(rest), leastBesideVerdict))
			shown = narrowed(slices.Concat(columns[:labels], rest[:n], verdict), room)
		}
		writePanel(w, shown, indent, room)
		rest = rest[n:]
	}
}

// Bounds of a table with a verdict that does not fit.
const (
	leastBesideVerdict = 2  // columns: a difference and its interval
	mostVerdict        = 24 // width of a verdict beside others
	leastText          = 13 // width below which no text is folded: "no difference"
)

// narrowed folds texts in columns until all fit into width, the widest first.
func narrowed(columns []column, width int) []column {
	columns = slices.Clone(columns)
	for done := map[int]bool{}; ; {
		over, widest := -width-gap, -1
		for i, c := range columns {
			over += c.width() + gap
			if c.left && !done[i] && (widest < 0 || c.width() > columns[widest].width()) {
				widest = i
			}
		}
		if over <= 0 || widest < 0 {
			return columns
		}
		done[widest] = true
		columns[widest] = columns[widest].folded(max(leastText, columns[widest].width()-over))
	}
}

// folded is a column with its texts over several lines.
func (c column) folded(width int) column {
	c.lines = map[int][]string{}
	for i, s := range c.cells {
		if widthOf(s) > width && !c.title[i] {
			var b strings.Builder
			writeWrapped(&b, s, indentOf(s), indentOf(s)+"  ", width)
			c.lines[i] = strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
		}
	}
	return c
}

// indentOf are the spaces before a text.
func indentOf(s string) string { return s[:len(s)-len(strings.TrimLeft(s, " "))] }

// fitting is the number of columns of rest that fit beside the labels, at least one.
func fitting(labels, rest []column, width int) int {
	used := lists.Sum(labels, func(c column) int { return c.width() + gap })
	for i, c := range rest {
		used += c.width()
		if width > 0 && used > width && i > 0 {
			return i
		}
		used += gap
	}
	return len(rest)
}

func writePanel(w io.Writer, columns []column, indent string, width int) {
	heads, rows := 0, 0
	for _, c := range columns {
		heads, rows = max(heads, len(c.heads)), max(rows, len(c.cells))
	}
	for i := range heads {
		writeRow(w, columns, indent, func(c column) string { return cellAt(c.heads, i+len(c.heads)-heads) })
	}
	for i := range rows {
		if columns[0].title[i] {
			title := columns[0].cells[i]
			start := indent + indentOf(title)
			writeWrapped(w, title, start, start+"  ", max(0, width+len(indent)))
			continue
		}
		height := 1
		for _, c := range columns {
			height = max(height, len(c.linesOf(i)))
		}
		for line := range height {
			writeRow(w, columns, indent, func(c column) string { return cellAt(c.linesOf(i), line) })
		}
	}
}

func cellAt(s []string, i int) string {
	if i < 0 || i >= len(s) {
		return ""
	}
	return s[i]
}

func writeRow(w io.Writer, columns []column, indent string, cell func(column) string) {
	writeLine(w, indent+strings.Join(lists.Map(columns, func(c column) string { return c.pad(cell(c), c.width()) }), strings.Repeat(" ", gap)))
}

func (c column) pad(s string, width int) string {
	fill := strings.Repeat(" ", max(0, width-widthOf(s)))
	if c.left {
		return s + fill
	}
	return fill + s
}

// writeLine writes a line without trailing space, and without control characters.
func writeLine(w io.Writer, s string) {
	_, _ = io.WriteString(w, printable.Text(strings.TrimRight(s, " "))+"\n")
}

// writeWrapped writes text folded to width at its spaces, never inside a word
// that may be copied: its first line after first, the others after rest.
func writeWrapped(w io.Writer, text, first, rest string, width int) {
	line, room := first, width
	for i, word := range commands(words(text)) {
		switch {
		case i == 0:
			line += word
		case room > 0 && widthOf(line)+1+widthOf(word) > room:
			writeLine(w, line)
			line = rest + word
		default:
			line += " " + word
		}
	}
	writeLine(w, line)
}

// commands are words with each command in one: a line that ends within it would be copied as two.
func commands(all []string) (joined []string) {
	for i := 0; i < len(all); i++ {
		word := all[i]
		if strings.HasPrefix(word, "`") && strings.Count(word, "`") == 1 {
			if n := slices.IndexFunc(all[i+1:], func(word string) bool { return strings.Contains(word, "`") }); n >= 0 {
				word = strings.Join(all[i:i+n+2], " ")
				i += n + 1
			}
		}
		joined = append(joined, word)
	}
	return joined
}

// words are the words of a text, each number with its interval and unit, and each comparison in one.
func words(text string) (all []string) {
	for _, word := range strings.Fields(text) {
		n := len(all)
		if n > 0 && (strings.HasPrefix(word, "±") || slices.Contains([]string{"%", "µs", "ms", "B", "KiB", "MiB", "req/s", "requests/s", "<", ">"}, strings.TrimRight(word, ".,;:)")) || strings.HasSuffix(all[n-1], " <") || strings.HasSuffix(all[n-1], " >")) {
			all[n-1] += " " + word
			continue
		}
		all = append(all, word)
	}
	return all
}

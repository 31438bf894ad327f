package live

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/show/report"
)

type page int

const (
	overview page = iota
	trialPage
	logPage
	clusterPage
)

// look is the reader's state: the choice, and how far a page is scrolled.
type look struct {
	width, height int
	page          page
	follow        bool // the chosen trial is the running one
	treatment     string
	block         int
	scroll        int // lines, from the top of a trial's page and from the end of the log
	paused        bool
	speed         string // of a replay, empty for none
	help          bool   // the keys are shown in place of the page
}

// drawing is one frame under construction.
type drawing struct {
	painter painter
	board   *Board
	look    look
	now     time.Time
}

// frame draws the board in the look's size. It has exactly height lines.
func frame(b *Board, l look, plain bool, now time.Time) []string {
	d := drawing{painter{plain}, b, l, now}
	lines := []string{d.title()}
	body := max(0, l.height-2)
	switch {
	case l.help:
		lines = append(lines, scrolled(d.helpLines(), body, 0)...)
	case l.page == trialPage:
		lines = append(lines, scrolled(d.trialLines(d.chosen()), body, l.scroll)...)
	case l.page == clusterPage:
		lines = append(lines, scrolled(d.clusterLines(d.chosen()), body, l.scroll)...)
	case l.page == logPage:
		all := d.messageLines(l.width)
		lines = append(lines, scrolled(all, body, max(0, len(all)-body-l.scroll))...)
	default:
		lines = append(lines, d.overview(body)...)
	}
	for len(lines) < l.height-1 {
		lines = append(lines, "")
	}
	lines = lines[:max(0, l.height-1)]
	lines = append(lines, d.keys())
	for i, line := range lines {
		lines[i] = strings.TrimRight(cut(line, l.width), " ")
	}
	return lines
}

// helpLines are the keys.
func (d drawing) helpLines() []string {
	pause := "hold this display; the run continues"
	if d.look.speed != "" {
		pause = "pause the replay"
	}
	lines := []string{"KEYS"}
	for _, k := range [][2]string{
		{"space, p", pause}, {"↑↓←→", "choose a trial, or scroll"}, {"enter", "show the chosen trial"}, {"c", "show nodes, planes and components of a cluster"}, {"l", "show the log"},
		{"esc", "back; follow the running trial"}, {"?, h", "show or hide the keys"}, {"q", "end: remove the running trial, and keep the finished ones"},
	} {
		lines = append(lines, " "+padded(k[0], 10)+k[1])
	}
	if d.look.speed != "" {
		lines[len(lines)-1] = " " + padded("q", 10) + "end the replay"
		lines = append(lines, " "+padded("+, -", 10)+"faster, slower")
	}
	return lines
}

// scrolled are height lines of all, from line at.
func scrolled(all []string, height, at int) []string {
	at = min(at, max(0, len(all)-height))
	return all[at:min(len(all), at+height)]
}

// title is the first line: the experiment, the place in it and the time left.
func (d drawing) title() string {
	parts := append([]string{d.painter.colored(bold, clean(d.board.run.Experiment))}, d.board.place(d.now)...)
	counts := d.board.Counts()
	if bad := counts[Invalid] + counts[Failed]; bad > 0 {
		parts = append(parts, d.painter.colored(red, fmt.Sprintf("%d invalid or failed", bad)))
	}
	right := ""
	switch left := d.board.left(d.now); {
	case d.board.over:
		right = "ended"
	case left > 0:
		right = round(left).String() + " left"
	case d.board.done < d.board.run.Trials && d.board.run.Trials > 0:
		right = "ending"
	}
	if d.look.paused {
		words := " display paused, the run continues "
		if d.look.speed != "" {
			words = " replay paused "
		}
		right = d.painter.colored(reverse, words) + " " + right
	}
	if d.look.speed != "" {
		right = d.look.speed + " " + right
	}
	room := d.look.width - ansi.StringWidth(right) - 1
	for len(parts) > 1 && ansi.StringWidth(strings.Join(parts, "  ")) > room {
		parts = slices.Delete(parts, 1, 2) // the place in the plan is in the grid too
	}
	return padded(strings.Join(parts, "  "), room) + " " + right
}

func (d drawing) keys() string {
	keys := "q end  ↑↓←→ choose  enter trial  l log  space pause  ? keys"
	if d.look.width < 60 {
		keys = "q ↑↓←→ enter l space ?"
	}
	switch {
	case d.look.help:
		keys = "esc back  q end"
	case d.look.page != overview:
		keys = "esc back  ↑↓ scroll  q end"
	case d.look.speed != "":
		keys += "  +- speed"
	}
	if t := d.chosen(); t != nil && t.cluster != nil && d.look.page == overview && !d.look.help && d.look.width >= 60 {
		keys = "c components  " + keys
	}
	if !d.look.follow && d.look.page == overview {
		keys = "esc follow  " + keys
	}
	if ansi.StringWidth(keys) > d.look.width { // the log is on the page of keys too
		keys = strings.Replace(keys, "  l log", "", 1)
	}
	return d.painter.colored(faint, keys)
}

func (d drawing) overview(height int) []string {
	loads, planes, lines := d.loadLines(), d.planeLines(), answerLines(d)
	height -= len(lines)
	grid := 1 + len(d.board.plan.Treatments)
	n := heights(height, []struct{ least, wants int }{
		{2, min(grid, max(2, height/2))}, {2, len(loads)}, {min(2, len(planes)), len(planes)}, {1, 3},
	})
	if rest := height - n[0] - n[1] - n[2] - n[3]; rest > 0 {
		more := min(rest, max(0, grid-n[0]))
		n[0] += more
		n[3] += rest - more
	}
	lines = append(lines, d.gridLines(n[0])...)
	lines = append(lines, loads[:min(len(loads), n[1])]...)
	lines = append(lines, planes[:min(len(planes), n[2])]...)
	room := d.look.height - 2 - len(lines)
	if room > 2 && len(d.board.messages) > 0 {
		lines = append(lines, d.heading("MESSAGES"))
		room--
	}
	return append(lines, d.latestMessages(room)...)
}

// answerLines are the first sentence about the trials so far, in two lines at most. Small terminals have none, and rankings, which are
// the grid.
func answerLines(d drawing) []string {
	h := d.board.headline
	if h == nil || len(h.Of) == 0 || len(h.Answer) == 0 || d.look.height < 24 || d.look.width < 80 || len(h.Answer) > 1 && strings.HasPrefix(h.Answer[1], " ") {
		return nil
	}
	lines := wrapped(clean(h.Answer[0]), d.look.width, noColor, d.painter)
	return lines[:min(len(lines), 2)]
}

// heights divides the lines of the overview between its sections: each gets its least in this
// order, then what it wants in this order.
func heights(total int, sections []struct{ least, wants int }) []int {
	got := make([]int, len(sections))
	for i, s := range sections {
		got[i] = min(s.least, total)
		total -= got[i]
	}
	for i, s := range sections {
		more := min(max(0, s.wants-got[i]), total)
		got[i] += more
		total -= more
	}
	return got
}

// latestMessages are the last whole messages that fit, or the beginning of the last one.
func (d drawing) latestMessages(room int) (lines []string) {
	for i := len(d.board.messages) - 1; i >= 0; i-- {
		of := d.linesOf(d.board.messages[i], d.look.width)
		if len(of)+len(lines) > room {
			if len(lines) == 0 {
				return of[:max(0, room)]
			}
			break
		}
		lines = append(of, lines...)
	}
	return lines
}

// gridLines draw treatments by blocks, and beside them the differences so far.
func (d drawing) gridLines(height int) []string {
	rows, at := d.board.plan.Treatments, d.chosenCell()
	label := lists.Most(rows, func(t plan.Treatment) int { return ansi.StringWidth(d.board.rowName(t)) })
	label = min(label, max(10, d.look.width/4))
	blocks := max(1, d.board.Blocks())
	cells := min(blocks, max(4, (d.look.width-label-4)*2/5))
	if d.look.width < 60 {
		cells = min(blocks, max(4, d.look.width-label-22))
	}
	first := max(1, min(max(d.kept(at), d.board.latest())-cells+2, blocks-cells+1))
	head := fmt.Sprintf("BLOCKS %d-%d of %d", first, first+cells-1, blocks)
	text, bar, title := 0, 0, ""
	if h := d.board.headline; h != nil && len(h.Of) > 0 {
		for _, v := range h.Of {
			text = max(text, ansi.StringWidth(v.Text))
		}
		text = min(text, max(0, d.look.width-label-cells-5))
		if bar = d.look.width - label - cells - text - 7; bar < 9 {
			bar = 0
		}
		bar = min(bar, 60)
		if title = h.Title + ", difference to the baseline"; max(label+cells+4, ansi.StringWidth(head)+3)+ansi.StringWidth(title) > d.look.width {
			title = h.Title
		}
	} else if d.look.width > 60 {
		title = fmt.Sprintf("first interval after %d blocks", leastBlocks)
	}
	lines := []string{d.heading(padded(head, max(label+cells+3, ansi.StringWidth(head)+2)) + " " + title)}
	visible := max(0, height-1)
	from := 0
	if i := slices.IndexFunc(rows, func(t plan.Treatment) bool { return t.ID == at.treatment }); i >= visible {
		from = i - visible + 1
	}
	var scale axis
	if bar > 0 {
		scale = axisOf(d.board.headline.Of, bar)
	}
	for _, t := range rows[min(from, len(rows)):min(len(rows), from+visible)] {
		name, mark := padded(d.board.rowName(t), label), " "
		if t.ID == at.treatment {
			name, mark = d.painter.colored(bold, name), "▸"
		}
		line := mark + name + " "
		for block := first; block < first+cells; block++ {
			line += d.cell(d.board.grid[cell{t.ID, block}], at)
		}
		if d.board.headline != nil {
			if v, ok := d.board.headline.Of[t.ID]; ok {
				line += "  " + padded(v.Text, text)
				if bar > 0 {
					line += "  " + scale.interval(v)
				}
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// kept is the block of the chosen cell, unless the reader follows the run.
func (d drawing) kept(at cell) int {
	if d.look.follow {
		return 0
	}
	return at.block
}

func (d drawing) cell(t *Trial, at cell) string {
	if t == nil {
		return " "
	}
	m := marks[t.Status]
	c := m.color
	if !d.look.follow && (cell{t.Treatment, t.Block}) == at {
		c = reverse
	}
	return d.painter.colored(c, m.shape)
}

// loadLines have a line for each running trial: rates, errors, latency of the last second.
func (d drawing) loadLines() []string {
	trials := d.inOrder(slices.Clone(d.board.running))
	if t := d.chosen(); !d.look.follow && t != nil && t.Status != Planned {
		trials = []*Trial{t}
	} else if len(trials) == 0 && t != nil && t.Status != Planned {
		trials = []*Trial{t}
	}
	label := lists.Most(trials, func(t *Trial) int { return ansi.StringWidth(treatmentName(d.board, t)) })
	label = min(max(label, 4), max(8, d.look.width/4))
	wide, w := d.look.width >= 72, d.columns()
	head := padded("LOAD", label+1) + onRight("target/s", w+1) + onRight("done/s", w) + onRight("errors", w) + onRight("p50 ms", w)
	if wide {
		head += onRight("p99 ms", w) + "  "
	}
	lines := []string{d.heading(head)}
	for _, t := range trials {
		lines = slices.Concat(lines, []string{d.loadLine(t, label, wide)}, events(d.painter, t, 1, "  "))
	}
	return lines
}

// inOrder are trials in the order of the grid, the chosen one first.
func (d drawing) inOrder(trials []*Trial) []*Trial {
	at := d.chosenCell()
	place := func(t *Trial) int {
		if t.Treatment == at.treatment {
			return -1
		}
		return slices.IndexFunc(d.board.plan.Treatments, func(of plan.Treatment) bool { return of.ID == t.Treatment })
	}
	slices.SortStableFunc(trials, func(a, b *Trial) int { return place(a) - place(b) })
	return trials
}

func (d drawing) loadLine(t *Trial, label int, wide bool) string {
	w := d.columns()
	line := " " + padded(treatmentName(d.board, t), label)
	p := t.Last
	if p == nil {
		return line + "  " + d.painter.colored(faint, t.Phase)
	}
	asked := "max"
	if p.AskedRate > 0 {
		asked = fmt.Sprintf("%.0f", p.AskedRate)
	}
	failed, done, p50, p99 := t.Errors, "–", "–", "–" // another treatment had the load
	if p.HasLoad() {
		done, p50, p99 = fmt.Sprintf("%.0f", p.WhileLoaded()), ms(p.P50MS), ms(p.P99MS)
	}
	if t.Total != nil { // the last second of a phase is seldom a whole one
		failed, done = t.Total.Errors, fmt.Sprintf("%.0f", t.Total.Rate)
	}
	errors := onRight(fmt.Sprint(failed), w)
	if failed > 0 {
		errors = d.painter.colored(red, errors)
	}
	line += onRight(asked, w+1) + onRight(done, w) + errors + onRight(p50, w)
	if wide {
		line += onRight(p99, w) + "  " + d.painter.colored(cyan, spark(t.Rate.values, min(40, d.look.width-label-44)))
	}
	return line
}

// events are the last faults of a trial, and the last change, a line each: beside the figures there is no room in 80 columns.
func events(p painter, t *Trial, faults int, indent string) (lines []string) {
	lines = lists.Map(t.Faults[max(0, len(t.Faults)-faults):], func(f string) string { return indent + p.colored(red, clean(f)) })
	if t.Changes > 0 {
		lines = append(lines, fmt.Sprintf("%schange %d: %s", indent, t.Changes, clean(t.Change)))
	}
	return lines
}

// columns is the width of a column of figures.
func (d drawing) columns() int {
	if d.look.width < 60 {
		return 7
	}
	return 8
}

func ms(v float64) string {
	if v <= 0 {
		return "?"
	}
	return fmt.Sprintf("%.2f", v)
}

// messageLines are the log, wrapped to width.
func (d drawing) messageLines(width int) []string {
	var lines []string
	for _, m := range d.board.messages {
		lines = append(lines, d.linesOf(m, width)...)
	}
	return lines
}

func (d drawing) linesOf(m Message, width int) []string {
	text := clean(m.Text)
	if m.Trial != "" {
		text = clean(m.Trial) + ": " + text
	}
	if !m.At.IsZero() {
		text = m.At.UTC().Format("15:04:05 ") + text
	}
	c := noColor
	if m.Bad {
		c = red
	}
	lines := wrapped(text, width, c, d.painter)
	if m.Hint != "" {
		lines = append(lines, wrapped("  hint: "+clean(m.Hint), width, faint, d.painter)...)
	}
	return lines
}

// rowName is the name of a treatment as in reports: a baseline that is measured a second time has its name again.
func (b *Board) rowName(t plan.Treatment) string {
	if name := b.names[t.ID]; name != t.ID && name != "" {
		return clean(name)
	}
	if t.Control && t.Baseline != "" {
		return clean(t.Baseline) + report.ControlSuffix
	}
	return clean(t.ID)
}

// treatmentName is the name of a trial's treatment, as in the grid.
func treatmentName(b *Board, t *Trial) string {
	if of, ok := b.plan.ByID()[t.Treatment]; ok {
		return b.rowName(of)
	}
	return clean(t.Treatment)
}

func (d drawing) trialLines(t *Trial) []string {
	if t == nil {
		return []string{"No trial is here."}
	}
	m := marks[t.Status]
	lines := []string{d.painter.colored(bold, clean(t.ID)) + "  " + d.painter.colored(m.color, m.shape+" "+t.Status.InWords()) + fmt.Sprintf("  block %d", t.Block)}
	if t.Why != "" {
		lines = append(lines, wrapped(clean(t.Why), d.look.width, red, d.painter)...)
	}
	if v := d.board.headline; v != nil {
		if of, ok := v.Of[t.Treatment]; ok {
			lines = append(lines, wrapped(fmt.Sprintf("%s, difference to the baseline so far: %s (%s)", v.Title, of.Text, of.Verdict), d.look.width, noColor, d.painter)...)
			if half := d.board.halves[t.Treatment]; len(half) > 1 {
				lines = append(lines, "width of its interval, block by block: "+d.painter.colored(cyan, spark(half, d.look.width-42)))
			}
		}
	}
	if t.Status == Planned {
		return append(lines, "It has not run yet.")
	}
	phases := lists.Map(t.Phases, func(s span) string { return fmt.Sprintf("%s %.1f s", s.name, s.took.Seconds()) })
	if t.Phase != "" {
		phases = append(phases, fmt.Sprintf("%s %.1f s so far", t.Phase, d.now.Sub(t.PhaseAt).Seconds()))
	}
	lines = append(lines, wrapped("Phases: "+strings.Join(phases, ", "), d.look.width, noColor, d.painter)...)
	if t.Last != nil {
		lines = append(lines, "", d.heading(padded("EACH SECOND", 20)+onRight("now", 9)+onRight("min", 9)+onRight("max", 9)))
		for _, row := range []struct {
			name string
			of   *series
		}{{" answers/s", &t.Rate}, {" p50 ms", &t.P50}, {" p99 ms", &t.P99}} {
			lines = append(lines, padded(row.name, 20)+onRight(figure(row.of.now()), 9)+onRight(figure(row.of.min), 9)+onRight(figure(row.of.max), 9)+"  "+d.painter.colored(cyan, spark(row.of.values, d.look.width-51)))
		}
		lines = append(lines, fmt.Sprintf(" errors: %d", t.Errors))
	}
	if len(t.Planes) > 0 {
		deep := d
		deep.look.height = max(d.look.height, 40) // with tasks
		lines = append(append(lines, ""), deep.planeLines()...)
	}
	lines = append(lines, events(d.painter, t, len(t.Faults), "")...)
	for _, m := range d.board.messages {
		if m.Trial == t.ID {
			lines = append(lines, wrapped(clean(m.Text), d.look.width, noColor, d.painter)...)
		}
	}
	return lines
}

// planeLines are the CPU of the chosen trial by plane, and by task where the screen is high.
func (d drawing) planeLines() []string {
	t := d.chosen()
	if of := lastRead(d.board, t, d.look.follow); of != nil && d.look.width >= clusterWidth {
		return slices.Concat(d.sumLines(of.cluster, d.board.baselineOf(of)), d.nodeLines(of.cluster))
	}
	if t == nil || len(t.Planes) == 0 {
		return nil
	}
	wide := d.look.width >= 60
	head := padded("CORES "+treatmentName(d.board, t), d.names()) + onRight("now", 7) + onRight("min", 7) + onRight("max", 7)
	if d.look.width >= 100 {
		head += onRight("mean", 7)
	}
	lines := []string{d.heading(head)}
	for _, plane := range metric.Planes() {
		if s := t.Planes[string(plane)]; s != nil && s.max >= 0.0005 {
			lines = append(lines, d.seriesLine(" "+string(plane), s, wide))
		}
	}
	if d.look.height < 40 {
		return lines
	}
	return append(lines, d.taskLines(t)...)
}

// clusterWidth is the width from which the overview of a run on a cluster has the sums and nodes of the cluster.
const clusterWidth = 80

func (d drawing) heading(s string) string { return d.painter.colored(cyan, s) }

func (d drawing) chosen() *Trial { return d.board.grid[d.chosenCell()] }

// chosenCell returns the chosen cell: the running trial, unless the reader chose another.
func (d drawing) chosenCell() cell {
	if !d.look.follow {
		return cell{d.look.treatment, d.look.block}
	}
	return d.board.following()
}

// following is the trial to show by itself: of the running ones the first that is compared with a
// baseline. Without one it is the last one that ran, and at the end of the run one that is compared.
func (b *Board) following() cell {
	running := b.running
	for _, of := range b.plan.Treatments {
		i := slices.IndexFunc(running, func(t *Trial) bool { return t.Treatment == of.ID })
		if i >= 0 && of.Baseline != "" && !of.Control {
			return cell{of.ID, running[i].Block}
		}
	}
	if len(running) > 0 {
		return cell{running[0].Treatment, running[0].Block}
	}
	if len(b.detailed) > 0 {
		t := b.detailed[len(b.detailed)-1]
		for _, of := range b.plan.Treatments {
			if last := b.grid[cell{of.ID, t.Block}]; b.over && of.Baseline != "" && !of.Control && last != nil && last.Status != Planned {
				return cell{of.ID, t.Block}
			}
		}
		return cell{t.Treatment, t.Block}
	}
	if len(b.plan.Trials) > 0 {
		return cell{b.plan.Trials[0].Treatment, b.plan.Trials[0].Block}
	}
	return cell{}
}

func (d drawing) taskLines(t *Trial) []string {
	var ids []string
	for id, of := range t.tasks {
		if of.cores.max >= 0.0005 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return lists.Map(ids, func(id string) string { return d.seriesLine("   "+clean(id), &t.tasks[id].cores, d.look.width >= 60) })
}

func (d drawing) seriesLine(name string, s *series, wide bool) string {
	line := padded(name, d.names()) + onRight(cores(s.now()), 7) + onRight(cores(s.min), 7) + onRight(cores(s.max), 7)
	if d.look.width >= 100 {
		line += onRight(cores(s.mean()), 7)
	}
	if wide {
		line += "  " + d.painter.colored(cyan, spark(s.values, min(60, d.look.width-d.names()-24)))
	}
	return line
}

// names is the width of the column of planes and tasks.
func (d drawing) names() int {
	if d.look.width < 60 {
		return 15
	}
	return 24
}

func cores(v float64) string {
	if math.IsNaN(v) {
		return "?"
	}
	return fmt.Sprintf("%.3f", v)
}

func wrapped(s string, width int, c color, p painter) []string {
	var lines []string
	for line := range strings.SplitSeq(ansi.Wrap(s, max(10, width-1), ""), "\n") {
		lines = append(lines, p.colored(c, line))
	}
	return lines
}

func figure(v float64) string {
	switch {
	case math.IsNaN(v):
		return "?"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// color is an SGR parameter. Each color stands beside a shape or a word with the same meaning.
type color string

const (
	noColor color = ""
	bold    color = "1"
	faint   color = "2"
	reverse color = "7"
	red     color = "31"
	green   color = "32"
	yellow  color = "33"
	cyan    color = "36"
)

// marks are the shape and color of each state of a trial.
var marks = map[Status]struct {
	shape string
	color color
}{
	Planned: {"·", faint}, Running: {"◐", yellow}, Valid: {"●", green}, Invalid: {"✗", red}, Failed: {"!", red},
}

// painter writes text in color, or plain.
type painter struct{ plain bool }

// colored is s in a color, on a terminal that has them.
func (p painter) colored(c color, s string) string {
	if p.plain || c == noColor || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// clean is the text of others in one line.
func clean(s string) string { return strings.ReplaceAll(printable.Line(s), "\t", " ") }

// padded is s in exactly width columns.
func padded(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// onRight is s in width columns, at their right end.
func onRight(s string, width int) string {
	s = cut(s, width)
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(s))) + s
}

// cut shortens s to width columns.
func cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	return ansi.Truncate(s, width, "…")
}

const bars = "▁▂▃▄▅▆▇█"

// spark draws the last values in width columns, from zero to their maximum.
func spark(values []float64, width int) string {
	if width <= 0 {
		return ""
	}
	if len(values) > width {
		values = values[len(values)-width:]
	}
	most := lists.Most(values, func(v float64) float64 { return v })
	var b strings.Builder
	shapes := []rune(bars)
	for _, v := range values {
		at := 0
		if most > 0 && v > 0 {
			at = min(len(shapes)-1, int(v/most*float64(len(shapes))))
		}
		b.WriteRune(shapes[at])
	}
	return b.String()
}

// axis is a linear scale from low to high onto columns.
type axis struct {
	low, high float64
	width     int
}

// axisOf contains zero and every interval.
func axisOf(all map[string]Difference, width int) axis {
	a := axis{width: width}
	for _, d := range all {
		for _, v := range []float64{d.Estimate, d.Low, d.High} {
			if !math.IsNaN(v) {
				a.low, a.high = min(a.low, v), max(a.high, v)
			}
		}
	}
	return a
}

// interval draws a difference on the axis with its zero: "│     ├──●──┤ ".
func (a axis) interval(d Difference) string {
	if a.width < 3 || a.high <= a.low {
		return ""
	}
	row := []rune(strings.Repeat(" ", a.width))
	row[a.column(0)] = '│'
	if !math.IsNaN(d.Low) {
		from, to := a.column(d.Low), a.column(d.High)
		for i := from; i <= to; i++ {
			row[i] = '─'
		}
		if to > from {
			row[from], row[to] = '├', '┤'
		}
	}
	row[a.column(d.Estimate)] = '●'
	return string(row)
}

func (a axis) column(v float64) int {
	if a.high <= a.low {
		return 0
	}
	return min(a.width-1, max(0, int(math.Round((v-a.low)/(a.high-a.low)*float64(a.width-1)))))
}

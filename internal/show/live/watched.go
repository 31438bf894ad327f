package live

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Watched is the board of a run that another process writes, for pages that draw it.
type Watched struct {
	dir      *result.Dir
	follower *result.Follower
	board    *Board
	answers  answers
	options  Options
}

// NewWatched returns the board of the run in d. analyze is called between trials only.
func NewWatched(d *result.Dir, analyze func(block int) (*answer.Report, error)) *Watched {
	w := &Watched{dir: d, follower: result.Follow(d), board: NewBoard(d.Plan()), options: Options{Plan: d.Plan(), Analyze: analyze}}
	w.board.Apply(d.Opening(0))
	return w
}

// Next brings the board up to date, and reports whether the run has ended.
func (w *Watched) Next() (ended bool, err error) {
	if ended, err = w.dir.Ended(); err != nil {
		return false, err
	}
	events, err := w.follower.Next()
	if err != nil {
		return false, err
	}
	var latest *Headline
	last := -1 // of trials that ended long ago, one report on all of them is enough
	for i, e := range events {
		if e.Kind == result.KindTrial && (i == 0 || events[i-1].Kind != result.KindTrial) {
			last = i
		}
	}
	for i, e := range events {
		if e.Kind != result.KindTrial || i == last {
			if h := w.answers.before(e, w.options); h != nil {
				latest = h
			}
		}
		w.board.Apply(e)
	}
	if ended {
		end := result.Event{Time: time.Now(), Kind: result.KindEnd}
		if h := w.answers.before(end, w.options); h != nil {
			latest = h
		}
		w.board.Apply(end)
	}
	if latest != nil {
		w.board.Answer(latest)
	}
	return ended, nil
}

// Snapshot is the board at one instant, for a page that draws it. Texts of others are in one line, without controls.
type Snapshot struct {
	Place    []string      `json:"place"` // in the plan, in words
	Left     string        `json:"left,omitempty"`
	Bad      int           `json:"bad,omitempty"` // trials that failed or are invalid
	Blocks   int           `json:"blocks"`
	Headline string        `json:"headline,omitempty"` // name and unit of the differences
	Answer   []string      `json:"answer"`             // sentences about the trials so far
	Rows     []SnapshotRow `json:"rows"`
	Loads    []LoadRow     `json:"loads"`
	Chosen   string        `json:"chosen,omitempty"` // treatment whose CPU is shown
	Cores    []Curve       `json:"cores,omitempty"`
	Messages []LogLine     `json:"messages"`
}

// SnapshotRow is a treatment.
type SnapshotRow struct {
	Treatment string `json:"treatment"`
	// Cells have the shape of the state of each block's trial. A space means no trial.
	Cells    string   `json:"cells"`
	Words    string   `json:"words"` // states in words
	Text     string   `json:"text,omitempty"`
	Estimate *float64 `json:"estimate,omitempty"` // with the interval so far
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
}

// LoadRow is a running trial, or the last one that ran.
type LoadRow struct {
	Treatment string `json:"treatment"`
	Phase     string `json:"phase"`
	Asked     string `json:"asked"` // requests per second
	Errors    int64  `json:"errors"`
	Rate      Curve  `json:"rate"`
	P50       Curve  `json:"p50"` // ms
	P99       Curve  `json:"p99"`
}

// Curve is a quantity over time, with its figures as text.
type Curve struct {
	Name   string    `json:"name,omitempty"`
	Now    string    `json:"now"`
	Min    string    `json:"min"`
	Max    string    `json:"max"`
	Values []float64 `json:"values"`
}

// LogLine is a message.
type LogLine struct {
	At    string `json:"at,omitempty"`
	Trial string `json:"trial,omitempty"`
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`
	Bad   bool   `json:"bad,omitempty"`
}

// Bounds of a snapshot, which is sent every second.
const (
	snapshotMessages = 50
	snapshotValues   = 120 // of a curve
)

// Snapshot is the board now.
func (w *Watched) Snapshot(now time.Time) Snapshot {
	b := w.board
	d := drawing{painter{plain: true}, b, look{width: 200, height: 40, follow: true}, now}
	counts := b.Counts()
	s := Snapshot{Place: b.place(now), Bad: counts[Invalid] + counts[Failed], Blocks: b.Blocks(), Answer: []string{}, Rows: []SnapshotRow{}, Loads: []LoadRow{}, Messages: []LogLine{}}
	if left := b.left(now); left > 0 && !b.over {
		s.Left = round(left).String()
	}
	if h := b.headline; h != nil && len(h.Of) > 0 {
		s.Headline = h.Title + ", difference to the baseline (" + h.Unit + ")"
		for _, line := range h.Answer {
			s.Answer = append(s.Answer, clean(line))
		}
	}
	for _, t := range b.plan.Treatments {
		s.Rows = append(s.Rows, b.snapshotRow(t))
	}
	trials := d.inOrder(slices.Clone(b.running))
	if t := d.chosen(); len(trials) == 0 && t != nil && t.Status != Planned {
		trials = []*Trial{t}
	}
	for _, t := range trials {
		row := LoadRow{Treatment: treatmentName(b, t), Phase: t.Phase, Errors: t.Errors, Rate: curve("", &t.Rate, figure), P50: curve("", &t.P50, figure), P99: curve("", &t.P99, figure)}
		if t.Last != nil {
			row.Asked = "max"
			if t.Last.AskedRate > 0 {
				row.Asked = fmt.Sprintf("%.0f", t.Last.AskedRate)
			}
		}
		s.Loads = append(s.Loads, row)
	}
	if t := d.chosen(); t != nil {
		s.Chosen = treatmentName(b, t)
		for _, plane := range metric.Planes() {
			if of := t.Planes[string(plane)]; of != nil {
				s.Cores = append(s.Cores, curve(string(plane), of, cores))
			}
		}
	}
	for _, m := range b.messages[max(0, len(b.messages)-snapshotMessages):] {
		line := LogLine{Trial: clean(m.Trial), Text: clean(m.Text), Hint: clean(m.Hint), Bad: m.Bad}
		if !m.At.IsZero() {
			line.At = m.At.UTC().Format(time.TimeOnly)
		}
		s.Messages = append(s.Messages, line)
	}
	return s
}

func (b *Board) snapshotRow(of plan.Treatment) SnapshotRow {
	row := SnapshotRow{Treatment: b.rowName(of)}
	n := map[Status]int{}
	var cells strings.Builder
	for block := 1; block <= min(b.Blocks(), len(b.plan.Trials)); block++ { // a plan of others can have any number
		t := b.grid[cell{of.ID, block}]
		if t == nil {
			cells.WriteString(" ")
			continue
		}
		n[t.Status]++
		cells.WriteString(marks[t.Status].shape)
	}
	row.Cells = cells.String()
	for status := Planned; status <= Failed; status++ {
		if n[status] > 0 {
			if row.Words != "" {
				row.Words += ", "
			}
			row.Words += fmt.Sprintf("%d %s", n[status], status.InWords())
		}
	}
	if b.headline == nil {
		return row
	}
	if d, ok := b.headline.Of[of.ID]; ok {
		row.Text = d.Text
		if !math.IsNaN(d.Low) && !math.IsNaN(d.High) {
			row.Estimate, row.Low, row.High = &d.Estimate, &d.Low, &d.High
		}
	}
	return row
}

func curve(name string, s *series, text func(float64) string) Curve {
	c := Curve{Name: name, Now: text(s.now()), Min: "?", Max: "?", Values: s.values[max(0, len(s.values)-snapshotValues):]}
	if s.n > 0 {
		c.Min, c.Max = text(s.min), text(s.max)
	}
	if c.Values == nil {
		c.Values = []float64{}
	}
	return c
}

package expect

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tare-mesh/tare/internal/base/condition"
	"github.com/tare-mesh/tare/internal/base/strict"
)

type word struct {
	text   string
	column int
}

// parser reads words, which spaces and comparisons separate.
type parser struct{ condition.Text }

// Parse reads one condition. The error is a
// [strict.Problem] with a column.
//
//	success_ratio >= 0.999 during fault
//	p99 < 250ms after 5s
//	status(5xx) == 0
//	error_ratio < 1% from 10s to 20s
//	recovers within 3s of heal
//	change.last_old.p99 < 1s
//	change.failed_share(endpoint-removed) < 1%
func Parse(text string) (Condition, error) {
	p := &parser{condition.New(text)}
	c := Condition{Text: strings.Join(strings.Fields(text), " ")}
	first, err := p.next("a metric", "such as "+strings.Join(subjectNames(), ", "))
	if err != nil {
		return Condition{}, err
	}
	quantity, aboutChanges := changesOf(first.text)
	switch {
	case first.text == "recovers":
		c.recovery, err = p.recovery()
	case aboutChanges:
		c.changes = &quantity
		err = p.bounded(&c, quantity.subject)
	default:
		err = p.comparison(&c, first)
	}
	if last := p.peek(); err == nil && last.text != "" && aboutChanges {
		err = p.wrong(last, "the end", "it is about all changes of the measure phase")
	} else if err == nil && last.text != "" {
		err = p.wrong(last, "the end, or a window: during fault, before fault, after fault, after 5s, before 5s, from 5s to 10s", "")
	}
	if err != nil {
		return Condition{}, err
	}
	return c, nil
}

func (p *parser) comparison(c *Condition, first word) (err error) {
	if c.subject, err = p.subject(first); err != nil {
		return err
	}
	if err = p.bounded(c, c.subject); err != nil {
		return err
	}
	c.window, err = p.window()
	return err
}

func (p *parser) bounded(c *Condition, quantity subject) error {
	w, err := p.next("a comparison", "one of >= <= == != > <")
	if err != nil {
		return err
	}
	var known bool
	if c.compare, known = condition.Compare(w.text); !known {
		return p.wrong(w, "one of >= <= == != > <", "")
	}
	c.bound, err = p.value(quantity)
	return err
}

func (p *parser) subject(w word) (subject, error) {
	for _, s := range slices.Concat(subjects, startSubjects) {
		if s.name == w.text {
			return s, nil
		}
	}
	if strings.HasPrefix(w.text, "status(") && strings.HasSuffix(w.text, ")") {
		s, err := statusSubject(w.text)
		if err != nil {
			return s, strict.Problem{Column: w.column + len("status("), Message: err.Error()}
		}
		return s, nil
	}
	return subject{}, p.wrong(w, "a metric", "known: "+strings.Join(subjectNames(), ", "))
}

// value reads a bound in the unit of its subject: times with their unit, ratios also in percent.
func (p *parser) value(s subject) (float64, error) {
	if s.unit == "ms" {
		d, err := p.time("a time such as 250ms or 3s", "")
		return float64(d) / float64(time.Millisecond), err
	}
	w, err := p.next("a value", "")
	if err != nil {
		return 0, err
	}
	number, percent := strings.CutSuffix(w.text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, p.wrong(w, "a number", "")
	}
	isRatio := strings.HasSuffix(s.name, "_ratio") || strings.HasPrefix(s.name, failedShare)
	if percent {
		v /= 100
		if !isRatio {
			return 0, p.wrong(w, "a number without %", s.name+" is not a ratio")
		}
	}
	if isRatio && v > 1 {
		return 0, p.wrong(w, "a ratio from 0 to 1", "write 0.999 or 99.9%")
	}
	return v, nil
}

func (p *parser) recovery() (*recovery, error) {
	const help = "write: recovers within 3s"
	if err := p.must("within", help); err != nil {
		return nil, err
	}
	within, err := p.time("a time such as 250ms or 3s", help)
	r := &recovery{within: within}
	if err != nil || !p.accept("of") {
		return r, err
	}
	w, err := p.next("fault or heal", "")
	if r.ofHeal = w.text == "heal"; err == nil && !r.ofHeal && w.text != "fault" {
		err = p.wrong(w, "fault or heal", "")
	}
	return r, err
}

// must reads a word that has to follow.
func (p *parser) must(text, help string) error {
	w, err := p.next(text, help)
	if err == nil && w.text != text {
		err = p.wrong(w, text, help)
	}
	return err
}

// word reads a word, which is empty at the end.
func (p *parser) word() word {
	p.Space()
	w := word{column: p.Column()}
	if w.text = p.While(condition.IsSign); w.text == "" {
		w.text = p.While(func(r rune) bool { return !condition.IsSign(r) && !unicode.IsSpace(r) })
	}
	return w
}

func (p *parser) peek() word {
	ahead := *p
	return ahead.word()
}

func (p *parser) next(expected, hint string) (word, error) {
	w := p.word()
	if w.text == "" {
		return w, strict.Problem{Column: w.column, Message: "it ends where " + expected + " was expected", Tip: hint}
	}
	return w, nil
}

func (p *parser) time(expected, help string) (time.Duration, error) {
	w, err := p.next(expected, help)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(w.text)
	if err != nil || d < 0 {
		return 0, p.wrong(w, expected, "")
	}
	return d, nil
}

func (p *parser) wrong(w word, expected, hint string) error {
	return strict.Problem{Column: w.column, Message: fmt.Sprintf("found %.40q, expected %s", w.text, expected), Tip: hint}
}

// accept reads the next word if it is text, and reports whether it was.
func (p *parser) accept(text string) bool {
	ahead := *p
	if ahead.word().text != text {
		return false
	}
	*p = ahead
	return true
}

// window is a part of the measure phase. The zero value is the whole of it.
type window struct {
	relation string // "", during, before, after: to a fault
	from, to time.Duration
	cut      bool // from and to count; to 0: to the end
}

// window reads what follows the value, if anything does.
func (p *parser) window() (w window, err error) {
	const example = "fault, or a time such as 5s"
	switch {
	case p.accept("during"):
		return window{relation: "during"}, p.must("fault", "write: during fault")
	case p.accept("from"):
		w.cut = true
		if w.from, err = p.time("a time such as 5s", ""); err == nil {
			err = p.must("to", "write: from 5s to 10s")
		}
		if err != nil {
			return w, err
		}
		at := p.peek()
		if w.to, err = p.time("a time such as 10s", ""); err == nil && w.to <= w.from {
			err = p.wrong(at, "a time after "+w.from.String(), "")
		}
	case p.accept("after"):
		if p.accept("fault") {
			return window{relation: "after"}, nil
		}
		w.cut = true
		w.from, err = p.time(example, "")
	case p.accept("before"):
		if p.accept("fault") {
			return window{relation: "before"}, nil
		}
		at := p.peek()
		w.cut = true
		if w.to, err = p.time(example, ""); err == nil && w.to == 0 {
			err = p.wrong(at, "a time above 0", "")
		}
	}
	return w, err
}

// whole reports whether it is the whole measure phase.
func (w window) whole() bool { return w == window{} }

func (w window) secondsOf(t Trial) []Second {
	var in []Second
	for i, s := range t.Seconds {
		if w.has(i, t.Faults) {
			in = append(in, s)
		}
	}
	return in
}

// has reports whether a second of the measure phase is in the window. A second belongs to a fault if any part
// of it does. So does the second before the fault: its requests may have been in
// flight when the fault began. "before" and "after" select only seconds entirely
// outside every fault, before the first and after the last.
func (w window) has(second int, faults []Fault) bool {
	from, to := float64(second), float64(second+1)
	if w.cut {
		return from >= w.from.Seconds() && (w.to == 0 || to <= w.to.Seconds())
	}
	return w.relation == "" || w.holds(faults, from, to)
}

func (w window) holds(faults []Fault, from, to float64) bool {
	during, before, after := false, true, true
	for _, f := range faults {
		during = during || (f.At-underWay < to && f.Heal > from)
		before = before && to <= f.At-underWay
		after = after && from >= f.Heal
	}
	return map[string]bool{"during": during, "before": before, "after": after && len(faults) > 0}[w.relation]
}

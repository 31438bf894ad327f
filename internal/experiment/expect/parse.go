package expect

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// word is one word of a condition.
type word struct {
	text   string
	column int
}

// parser reads words from the left to the right.
type parser struct {
	words []word
	end   int // column after the text
}

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
	p := split(text)
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
	if err == nil && aboutChanges && len(p.words) > 0 {
		return Condition{}, p.wrong(p.words[0], "the end", "it is about all changes of the measure phase")
	}
	if err == nil && len(p.words) > 0 {
		err = p.wrong(p.words[0], "the end, or a window: during fault, before fault, after fault, after 5s, before 5s, from 5s to 10s", "")
	}
	if err != nil {
		return Condition{}, err
	}
	return c, nil
}

// split splits a condition at spaces and around comparison operators.
func split(text string) *parser {
	p := &parser{}
	column, begin := 1, 0
	var now strings.Builder
	flush := func() {
		if now.Len() > 0 {
			p.words = append(p.words, word{now.String(), begin})
			now.Reset()
		}
	}
	sign := func(r rune) bool { return strings.ContainsRune("<>=!", r) }
	last := ' '
	for _, r := range text {
		if space := r == ' ' || r == '\t'; space || sign(r) != sign(last) {
			flush()
		}
		if now.Len() == 0 {
			begin = column
		}
		if r != ' ' && r != '\t' {
			now.WriteRune(r)
		}
		last = r
		column++
	}
	flush()
	p.end = column
	return p
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

// bounded reads a comparison and its value.
func (p *parser) bounded(c *Condition, quantity subject) error {
	w, err := p.next("a comparison", "one of >= <= == != > <")
	if err != nil {
		return err
	}
	for _, k := range comparisons {
		if k.sign == w.text {
			c.compare = k
		}
	}
	if c.compare.holds == nil {
		return p.wrong(w, "one of >= <= == != > <", "")
	}
	if w, err = p.next("a value", ""); err != nil {
		return err
	}
	c.bound, err = p.value(quantity, w)
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
func (p *parser) value(s subject, w word) (float64, error) {
	if s.unit == "ms" {
		d, err := p.duration(w)
		return float64(d) / float64(time.Millisecond), err
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
	w, err := p.next("within", "write: recovers within 3s")
	if err != nil {
		return nil, err
	}
	if w.text != "within" {
		return nil, p.wrong(w, "within", "write: recovers within 3s")
	}
	if w, err = p.next("a time", "write: recovers within 3s"); err != nil {
		return nil, err
	}
	r := &recovery{}
	if r.within, err = p.duration(w); err != nil {
		return nil, err
	}
	if !p.accept("of") {
		return r, nil
	}
	if w, err = p.next("fault or heal", ""); err != nil {
		return nil, err
	}
	if r.ofHeal = w.text == "heal"; !r.ofHeal && w.text != "fault" {
		return nil, p.wrong(w, "fault or heal", "")
	}
	return r, nil
}

func (p *parser) next(expected, hint string) (word, error) {
	if len(p.words) == 0 {
		return word{}, strict.Problem{Column: p.end, Message: "it ends where " + expected + " was expected", Tip: hint}
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w, nil
}

func (p *parser) duration(w word) (time.Duration, error) {
	d, err := time.ParseDuration(w.text)
	if err != nil || d < 0 {
		return 0, p.wrong(w, "a time such as 250ms or 3s", "")
	}
	return d, nil
}

func (p *parser) wrong(w word, expected, hint string) error {
	return strict.Problem{Column: w.column, Message: fmt.Sprintf("found %.40q, expected %s", w.text, expected), Tip: hint}
}

// accept reads the next word if it is text, and reports whether it was.
func (p *parser) accept(text string) bool {
	if len(p.words) == 0 || p.words[0].text != text {
		return false
	}
	p.words = p.words[1:]
	return true
}

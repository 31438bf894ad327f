package app

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
)

func FixedSize(n int64) Sizes {
	return Sizes{spread{kind: fixed, a: float64(n), text: Size(n).String()}}
}

// Draw draws a time. The zero value draws 0.
func (t Times) Draw() time.Duration { return time.Duration(t.draw(float64(MaxTime))) }

// Draw draws a size in bytes. The zero value draws 0.
func (s Sizes) Draw() int64 { return int64(s.draw(MaxSize)) }

// Mean is the mean of the times, without the bound [MaxTime].
func (t Times) Mean() time.Duration { return time.Duration(t.mean()) }

// Mean is the mean of the sizes in bytes, without the bound [MaxSize].
func (s Sizes) Mean() float64 { return s.mean() }

func (t *Times) UnmarshalScalar(text string) error {
	s, err := parseSpread(text, t.Wants(), float64(MaxTime), func(text string) (float64, error) {
		var d Duration
		err := d.UnmarshalScalar(text)
		return float64(d), err
	})
	if err == nil {
		if s.kind == fixed { // one way to write it: with a unit, 0 as well
			s = FixedTime(time.Duration(s.a)).spread
		}
		t.spread = s
	}
	return err
}

// Times is a distribution of times. Files, flags, the environment and REST share
// one syntax:
//
//	100ms                  always the same
//	uniform(5ms, 20ms)     between two, both equally likely
//	exponential(10ms)      by its mean
//	lognormal(10ms, 0.5)   by its median and the standard deviation of its logarithm
//	buckets(0s, 5ms, 10ms) one of these, each equally likely
//	buckets(0s:9, 1s:1)    one of these, by weight
//
// Samples are at most [MaxTime]. The zero value means no distribution.
type Times struct{ spread }

// Sizes is a distribution of sizes in bytes, written as [Times] is: 1KiB,
// uniform(1KiB, 4KiB), … Samples are at most [MaxSize]. The zero value means no distribution.
type Sizes struct{ spread }

const (
	// MaxTime bounds every wait.
	MaxTime = time.Minute
	// MaxSize bounds every body, bytes: 1 GiB.
	MaxSize = 1 << 30

	maxBuckets = 1000
	maxSigma   = 10
)

func FixedTime(d time.Duration) Times {
	return Times{spread{kind: fixed, a: float64(d), text: Duration(d).String()}}
}

func (s *Sizes) UnmarshalScalar(text string) error {
	p, err := parseSpread(text, s.Wants(), MaxSize, func(text string) (float64, error) {
		var n Size
		err := n.UnmarshalScalar(text)
		return float64(n), err
	})
	if err == nil {
		s.spread = p
	}
	return err
}

func (Times) Wants() string {
	return "a time such as 100ms, or uniform(5ms, 20ms), exponential(10ms), lognormal(10ms, 0.5), buckets(0s:9, 1s:1)"
}

func (Sizes) Wants() string {
	return "a size such as 1KiB, or uniform(1KiB, 4KiB), exponential(2KiB), lognormal(2KiB, 0.5), buckets(1KiB:9, 1MiB:1)"
}

// MarshalJSON writes what [Sizes.UnmarshalScalar] reads, a fixed size as a number.
func (s Sizes) MarshalJSON() ([]byte, error) {
	if n, ok := s.Fixed(); ok {
		return strconv.AppendInt(nil, n, 10), nil
	}
	return json.Marshal(s.text)
}

// Fixed is the time if it is always the same.
func (t Times) Fixed() (time.Duration, bool) { return time.Duration(t.a), t.kind == fixed }

// Fixed is the size in bytes if it is always the same.
func (s Sizes) Fixed() (int64, bool) { return int64(s.a), s.kind == fixed }

type kind int

const (
	unset kind = iota
	fixed
	uniform
	exponential
	lognormal
	buckets
)

// spread is a distribution of nonnegative numbers.
type spread struct {
	kind   kind
	a, b   float64 // its parameters
	values []float64
	upTo   []float64 // cumulative weights of values, ending in 1
	text   string
}

// IsZero reports whether it is the zero value. Encoders then omit the field.
func (s spread) IsZero() bool { return s.kind == unset }

// String returns the distribution in the syntax of [Times].
func (s spread) String() string { return s.text }

func (s spread) MarshalText() ([]byte, error) { return []byte(s.text), nil }

func (s spread) draw(most float64) float64 {
	var x float64
	switch s.kind {
	case unset, fixed:
		return s.a
	case uniform:
		x = s.a + rand.Float64()*(s.b-s.a)
	case exponential:
		x = rand.ExpFloat64() * s.a
	case lognormal:
		x = s.a * math.Exp(rand.NormFloat64()*s.b)
	case buckets:
		i, _ := slices.BinarySearch(s.upTo, rand.Float64())
		x = s.values[min(i, len(s.values)-1)]
	}
	return min(x, most)
}

func (s spread) mean() float64 {
	switch s.kind {
	case uniform:
		return (s.a + s.b) / 2
	case lognormal:
		return s.a * math.Exp(s.b*s.b/2)
	case buckets:
		mean, before := 0.0, 0.0
		for i, v := range s.values {
			mean += v * (s.upTo[i] - before)
			before = s.upTo[i]
		}
		return mean
	}
	return s.a // unset, fixed, exponential
}

// forms are the distributions with parameters. numbers is the number of leading
// quantities. One more parameter is a plain number.
var forms = map[string]struct {
	kind                kind
	quantities, numbers int
}{

	"uniform":     {uniform, 2, 0},
	"exponential": {exponential, 1, 0},
	"lognormal":   {lognormal, 1, 1},
	"buckets":     {buckets, -1, 0},
}

func parseSpread(text, wants string, most float64, quantity func(string) (float64, error)) (spread, error) {
	wrong := fmt.Errorf("found %.60q, expected %s", text, wants)
	bounded := func(text string) (float64, error) {
		x, err := quantity(strings.TrimSpace(text))
		switch {
		case err != nil:
			return 0, wrong
		case x < 0 || x > most:
			return 0, fmt.Errorf("%.40s is not from 0 to %s", strings.TrimSpace(text), limit(most, wants))
		}
		return x, nil
	}
	name, rest, called := strings.Cut(strings.TrimSpace(text), "(")
	if !called {
		x, err := bounded(name)
		return spread{kind: fixed, a: x, text: name}, err
	}
	inner, closed := strings.CutSuffix(rest, ")")
	form, known := forms[name]
	if !closed || !known {
		return spread{}, wrong
	}
	s := spread{kind: form.kind, text: strings.TrimSpace(text)}
	args := strings.Split(inner, ",")
	if form.kind == buckets {
		return s, s.fill(args, bounded, wrong)
	}
	if len(args) != form.quantities+form.numbers {
		return s, wrong
	}
	to := []*float64{&s.a, &s.b}
	for i, arg := range args {
		var err error
		if i < form.quantities {
			*to[i], err = bounded(arg)
		} else if *to[i], err = strict.Number(strings.TrimSpace(arg)); err == nil && (*to[i] < 0 || *to[i] > maxSigma) {
			err = fmt.Errorf("the standard deviation %v of the logarithm is not from 0 to %d", *to[i], maxSigma)
		}
		if err != nil {
			return s, err
		}
	}
	if s.kind == uniform && s.a > s.b {
		return s, fmt.Errorf("%.60s: the first is more than the second", s.text)
	}
	return s, nil
}

func limit(most float64, wants string) string {
	if strings.HasPrefix(wants, "a time") {
		return time.Duration(most).String()
	}
	return Size(most).String()
}

// fill reads the buckets, each with its weight behind a colon.
func (s *spread) fill(args []string, quantity func(string) (float64, error), wrong error) error {
	if len(args) > maxBuckets {
		return fmt.Errorf("%d buckets, more than %d", len(args), maxBuckets)
	}
	total := 0.0
	for _, arg := range args {
		value, weight, weighed := strings.Cut(arg, ":")
		x, err := quantity(value)
		if err != nil {
			return err
		}
		w := 1.0
		if weighed {
			if w, err = strict.Number(strings.TrimSpace(weight)); err != nil || w < 0 || w > 1e9 {
				return wrong
			}
		}
		total += w
		s.values, s.upTo = append(s.values, x), append(s.upTo, total)
	}
	if total <= 0 {
		return fmt.Errorf("%.60s: no bucket has a weight above 0", s.text)
	}
	for i := range s.upTo {
		s.upTo[i] /= total
	}
	return nil
}

package experiment_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/must"
)

func TestBlocksForms(t *testing.T) {
	for text, want := range map[string]struct {
		min, max int
		metric   string
		half     float64
		relative bool
	}{
		"blocks: 4": {4, 4, "", 0, false},
		`blocks: {min: 6, max: 30, until: "cpu_us_per_request/total ±2%"}`: {6, 30, "cpu_us_per_request/total", 2, true},
		`blocks: {max: 30, until: "latency_ms/p99 +-0.1ms"}`:               {6, 30, "latency_ms/p99", 0.1, false},
		`blocks: {max: 30, until: "latency_ms/p99 ± 250 µs"}`:              {6, 30, "latency_ms/p99", 0.25, false},
		`blocks: {max: 9, until: "rate ±10 1/s"}`:                          {6, 9, "rate", 10, false},
	} {
		e, err := experiment.Parse("x.yaml", []byte(header+"factors: {mesh: [none, envoy]}\n"+text+"\n"), known)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		b := e.Blocks
		if b.Min != want.min || b.Max != want.max || (b.Until == nil) != (want.metric == "") {
			t.Errorf("%s: %+v", text, b)
		} else if u := b.Until; u != nil && (u.Metric != want.metric || u.Half != want.half || u.Relative != want.relative) {
			t.Errorf("%s: %+v", text, *u)
		}
		sameAfterRendering(t, e, shipped())
		rendered := must.Get(e.YAML())(t)
		if err := against(t, compiled(t), rendered); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestBlocksMistakes(t *testing.T) {
	lines := strings.Count(header, "\n") + 2
	for text, want := range map[string]string{
		`blocks: {min: 6, max: 30}`:                    "blocks: min and max need until",
		`blocks: {min: 2, max: 30, until: "rate ±1%"}`: "blocks.min: 2 is not between 5 and 10000",
		`blocks: {min: 9, max: 8, until: valid}`:       "blocks.max: 8 is less than the 9 of min",
		`blocks: {min: 9, max: 8, until: "rate ±1%"}`:  "blocks.max: 8 is less than the 9 of min",
		`blocks: {max: 30, until: "rate 1%"}`:          `blocks.until: found "rate 1%", expected a metric and half of a width`,
		`blocks: {max: 30, until: "speed ±1%"}`:        `blocks.until: there is no metric "speed"`,
		`blocks: {max: 30, until: "rate ±0%"}`:         `blocks.until: "0%" is not a number above 0`,
		`blocks: {max: 30, until: "rate ±1ms"}`:        `blocks.until: "ms" is not a unit of rate`,
		`blocks: {max: 30, untill: "rate ±1%"}`:        "blocks.untill: unknown field",
		`blocks: six`:                                  `blocks: found text "six", expected a whole number`,
		`blocks: {max: 20000, until: "rate ±1%"}`:      "blocks.max: 20000 is not between 1 and 10000",
	} {
		_, err := experiment.Parse("x.yaml", []byte(header+"factors: {mesh: [none, envoy]}\n"+text+"\n"), known)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x.yaml:"+string(rune('0'+lines))+":") {
			t.Errorf("%s: %v, want line %d and %q", text, err, lines, want)
		}
	}
}

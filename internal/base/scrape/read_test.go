package scrape

import (
	"testing"
	"time"

	"github.com/tare-mesh/tare/test/difftest"
)

func TestSamples(t *testing.T) {
	const text = "# HELP a b\na{x=\"1\", y=\"}\\\"\\n\"} 3 1700000000123\n\n  b 4e2\nb_total +Inf\nc\n"
	var all []Sample
	for s, err := range Samples([]byte(text), "a", "b") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) != 3 {
		t.Fatalf("%d samples: %+v", len(all), all)
	}
	a, b := all[0], all[1]
	if d := difftest.Of("a", a.Name, "a", "x", a.Labels["x"], "1", "y", a.Labels["y"], "}\"\n", "value", a.Value, 3, "time", a.Time, time.UnixMilli(1700000000123),
		"b", b.Name, "b", "its value", b.Value, 400, "its time is zero", b.Time.IsZero(), true, "the last", all[2].Name, "b_total"); d != "" {
		t.Errorf("%s: %+v", d, all)
	}
}

func TestDamagedSamples(t *testing.T) {
	for _, line := range []string{"a", "a{", "a{x}", `a{x="1} 2`, "a{x=1} 2", `a{x="\q"} 2`, "a x", "a 1 2.5"} {
		read := 0
		for s, err := range Samples([]byte(line + "\nb 1\n")) {
			read++
			if err == nil {
				t.Errorf("%q is read as %+v", line, s)
			}
		}
		if read != 1 {
			t.Errorf("%q: %d samples", line, read)
		}
	}
}

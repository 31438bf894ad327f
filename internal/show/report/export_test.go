package report

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// written is the two-rates study in one format.
func written(t *testing.T, format string) (*answer.Report, []byte) {
	t.Helper()
	r := reportOf(t, answertest.TwoRates())
	f, ok := Lookup(format, Options{})
	if !ok {
		t.Fatalf("no format %s", format)
	}
	var b bytes.Buffer
	must.OK(t, f.Write(&b, r))
	return r, b.Bytes()
}

// known are the metrics of every trial by trial and name.
func known(r *answer.Report) map[[2]string]float64 {
	all := map[[2]string]float64{}
	for _, t := range r.Trials {
		for name, v := range t.Metrics {
			all[[2]string{t.ID, name}] = v
		}
	}
	return all
}

func TestCSVHoldsEveryMetricOfEveryTrial(t *testing.T) {
	r, b := written(t, "csv")
	rows := must.Get(csv.NewReader(bytes.NewReader(b)).ReadAll())(t)
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	want := known(r)
	for _, row := range rows[1:] {
		key := [2]string{row[column["trial"]], row[column["metric"]]}
		v, err := strconv.ParseFloat(row[column["value"]], 64)
		if w, ok := want[key]; err != nil || !ok || v != w {
			t.Fatalf("%v: %v, want %v (%v)", key, v, w, err)
		}
		m, _ := metric.Lookup(key[1])
		if row[column["unit"]] != m.Unit || row[column["factor_rate"]] == "" || row[column["factor_connections"]] != "16" {
			t.Fatalf("row %v", row)
		}
		delete(want, key)
	}
	if len(want) != 0 {
		t.Errorf("%d figures are missing", len(want))
	}
}

func TestMarkdownGolden(t *testing.T) {
	_, b := written(t, "markdown")
	golden(t, "two-rates.md", b)
	r := reportOf(t, troubled())
	var out bytes.Buffer
	must.OK(t, writeMarkdown(&out, r, Options{}))
	golden(t, "troubled.md", out.Bytes())
	for i, l := range strings.Split(out.String(), "\n") {
		if strings.HasPrefix(l, "|") && strings.Count(strings.ReplaceAll(l, `\|`, ""), "|") < 3 {
			t.Errorf("line %d is no row: %s", i+1, l)
		}
	}
}

// Lookup finds a format by name.
func Lookup(name string, o Options) (Format, bool) {
	for _, f := range Formats(o) {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

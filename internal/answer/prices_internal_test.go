package answer

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// Memory without an amount is not free.
func TestMoneyOfUnknownMemory(t *testing.T) {
	p := Prices{Core: Price{Month: 40}, GiB: &Price{Month: 5}}
	cores := stats.Interval{Estimate: 2}
	if m := p.money(&cores, nil); m != nil {
		t.Errorf("%+v", m)
	}
	if m := p.money(&cores, &stats.Interval{Estimate: 4}); m == nil || m.Estimate != 100 {
		t.Errorf("%+v", m)
	}
	if p.GiB = nil; p.money(&cores, nil) == nil {
		t.Error("without a price of memory the money of cores is unknown")
	}
}

var update = flag.Bool("update", false, "write the fields of docs/reference/prices.md again")

// priceFields are the fields of a file of prices, a line each.
func priceFields(of reflect.Type, at string) (lines string) {
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		below := f.Type
		if below.Kind() == reflect.Slice {
			name += "[]"
		}
		if below.Kind() == reflect.Slice || below.Kind() == reflect.Pointer {
			below = below.Elem()
		}
		lines += fmt.Sprintf("- `%s%s`: %s\n", at, name, f.Tag.Get("doc"))
		if below.Kind() == reflect.Struct {
			lines += priceFields(below, at+name+".")
		}
	}
	return lines
}

// The page has every field of a file of prices, with words about it.
func TestPricesPage(t *testing.T) {
	const page, begin, end = "../../docs/reference/prices.md", "<!-- fields: go test ./internal/answer -run TestPricesPage -update -->\n", "<!-- end -->\n"
	text, fields := string(must.Get(os.ReadFile(page))(t)), priceFields(reflect.TypeFor[Prices](), "")
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	want := before + begin + "\n" + fields + "\n" + end + after
	if *update {
		must.OK(t, os.WriteFile(page, []byte(want), 0o644))
	} else if !found || !closed || text != want {
		t.Errorf("%s is out of date: go test ./internal/answer -run TestPricesPage -update", page)
	}
	must.Contain(t, fields, "- `scenarios[].rate`: requests/s in all", "- `core.month`: ", "- `gib.date`: ")
	if strings.Contains(fields, ": \n") {
		t.Errorf("a field without words:\n%s", fields)
	}
}

// FuzzPrices: every accepted price is valid.
func FuzzPrices(f *testing.F) {
	b := must.Get(os.ReadFile("../../examples/prices.yaml"))(f)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodePrices("prices.yaml", b)
		if err == nil && p == nil {
			t.Error("neither prices nor an error")
		}
	})
}

package answer

import (
	"os"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/stats"
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

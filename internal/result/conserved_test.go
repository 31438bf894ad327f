package result_test

import (
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// A changed count of conservation contradicts another one.
func TestConservedContradictions(t *testing.T) {
	sound := func() result.Record {
		r := measuredRecord()
		r.Load.Whole = &result.Whole{Sent: 4200, Unanswered: 2}
		r.Balance = &balance.Balance{
			Flows:     []balance.Flow{{Place: balance.Place{Service: "load", Point: balance.Sent, To: "echo", Unit: balance.Requests}, Tally: balance.Tally{Count: 4200, Failed: 2}}},
			Equations: []balance.Equation{{Where: "between load and the application echo", Unit: balance.Requests, Expected: 4200, Counted: 4201, Fewer: 17, More: 15, OK: true}},
		}
		return r
	}
	if r := sound(); r.Contradictions() != nil {
		t.Fatalf("the unchanged record: %q", r.Contradictions())
	}
	for _, test := range []struct {
		name   string
		change func(*result.Record)
		want   string
	}{
		{"served", func(r *result.Record) { r.Balance.Equations[0].Counted = 2100 }, "4200 expected, 2100 counted, ok is true"},
		{"served and outcome", func(r *result.Record) { r.Balance.Equations[0].Counted, r.Balance.Equations[0].OK = 2100, false },
			"it is valid, and balance has: 2100 requests vanished between load and the application echo"},
		{"whole load", func(r *result.Record) { r.Load.Whole.Sent = 4100 }, "balance.flows has 4200 requests of the load, and load.whole.sent is 4100"},
		{"whole load below the measured one", func(r *result.Record) { r.Load.Whole.Sent, r.Balance = 2999, nil }, "load.whole.sent is 2999, and load.sent, a part of it, is 3000"},
		{"failures", func(r *result.Record) { r.Load.Whole.Failed = 4199 }, "2 without an answer and 4199 with an error"},
	} {
		r := sound()
		test.change(&r)
		if found := strings.Join(r.Contradictions(), "; "); !strings.Contains(found, test.want) {
			t.Errorf("%s: %q, want %q", test.name, found, test.want)
		}
	}
}

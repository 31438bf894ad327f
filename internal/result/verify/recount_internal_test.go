package verify

import (
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/result"
)

// Changes may be logged in another order than the record has them, and none may be another.
func TestOrderOfChanges(t *testing.T) {
	changes := []result.Change{{Kind: "route-changed", DueSeconds: 1, SentSeconds: 1.2}, {Kind: "route-changed", DueSeconds: 1.1, SentSeconds: 1.2}, {Kind: "policy-denied", DueSeconds: 1.1, SentSeconds: 1.2}}
	logged := slices.Clone(changes)
	slices.Reverse(logged)
	problems := func(logged []result.Change) int {
		f := &findings{}
		recount{found: f}.marks(&result.Record{ID: "001-none-b1", Changes: changes}, &timeline{changes: logged})
		return len(f.list)
	}
	if n := problems(logged); n != 0 {
		t.Errorf("%d problems of the same changes in another order", n)
	}
	logged[1].SentSeconds = 1.3
	if n := problems(logged); n != 1 {
		t.Errorf("%d problems of a change at another time, want 1", n)
	}
	if n := problems(logged[:2]); n != 1 {
		t.Errorf("%d problems of a change that is not logged, want 1", n)
	}
}

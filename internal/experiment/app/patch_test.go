package app

import (
	"errors"
	"testing"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// A mistake has its position in the patch, not in the result.
func TestMistakesOfAPatchStandInThePatch(t *testing.T) {
	now := Instance{Name: "a", Behavior: Behavior{ResponseSize: FixedSize(1024), Time: FixedTime(1e6)}}
	_, err := PatchInstance(now, "body", []byte(`{"dely": "1ms", "responseSize": "1XB", "errors": {"ratio": 7}}`))
	mistakes, ok := errors.AsType[strict.Problems](err)
	if !ok || len(mistakes) != 3 {
		t.Fatalf("%v", err)
	}
	for i, column := range []int{10, 33, 60} {
		if p := mistakes[i]; p.Line != 1 || p.Column != column {
			t.Errorf("%v, want column %d", p, column)
		}
	}
}
